"""A small MCP server over stdio that says much of itself: `python wordy_server.py`."""

from fastmcp import FastMCP

server: FastMCP[None] = FastMCP("wordy", instructions="Say what you want to know. " * 200)


@server.tool
def echo(text: str) -> str:
    """Return the text."""
    return text


if __name__ == "__main__":
    server.run(show_banner=False)
