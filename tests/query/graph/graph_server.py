"""A server whose queries are resolved on the graph: five topics, each with tools that read, write and delete."""

from __future__ import annotations

import os

from agent_utilities import create_mcp_server

TOPICS = ("dns", "git", "files", "logs", "mail")
VERBS = {"read": True, "list": True, "write": False, "delete": False}
N_MORE = int(os.environ.get("GRAPHED_MORE_TOOLS", "0"))

mcp = create_mcp_server(os.environ.get("GRAPHED_NAME", "graphed"))


def add(name: str, description: str, tags: set[str], reads: bool) -> None:
    def tool(text: str = "") -> str:
        return f"{name} {text}"

    mcp.tool(tool, name=name, description=description, tags=tags, annotations={"readOnlyHint": reads})


for topic in TOPICS:
    for verb, reads in VERBS.items():
        add(f"{topic}_{verb}", f"{verb.capitalize()} what is in {topic}.", {topic, verb}, reads)
for number in range(N_MORE):
    add(f"more_{number}", f"Filler number {number}.", {"more"}, False)


@mcp.tool(tags={"grow"})
def grow(name: str) -> str:
    """Add a tool while the server runs."""
    add(name, f"Grown as {name}.", {"grown"}, True)
    return name


if __name__ == "__main__":
    mcp.cli()
