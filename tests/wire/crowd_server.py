"""A server with sixty tools for many callers at once: `tool_00` to `tool_59`, in six groups, every other read-only."""

from __future__ import annotations

from agent_utilities import create_mcp_server

N_TOOLS = 60
N_GROUPS = 6

mcp = create_mcp_server("crowd")


def add(number: int) -> None:
    name, reads = f"tool_{number:02}", number % 2 == 1

    def tool(text: str = "") -> str:
        return f"{name} {text}"

    tags = {f"group{number % N_GROUPS}", "read" if reads else "write"}
    annotations = {"readOnlyHint": reads}
    mcp.tool(tool, name=name, description=f"Tool number {number}.", tags=tags, annotations=annotations)


for each in range(N_TOOLS):
    add(each)

if __name__ == "__main__":
    mcp.cli()
