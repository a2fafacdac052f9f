"""A small MCP server over stdio: `python plain_server.py`."""

from fastmcp import Context, FastMCP

server: FastMCP[None] = FastMCP("plain", instructions="Echo and add.")


@server.tool
def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def count(to: int, ctx: Context) -> int:
    """Count, and tell progress of each step."""
    for step in range(to):
        await ctx.report_progress(step + 1, to)
    return to


@server.prompt
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"


@server.resource("plain://text")
def text() -> str:
    """Return a text."""
    return "text"


if __name__ == "__main__":
    server.run(show_banner=False)
