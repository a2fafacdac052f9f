"""A server whose author named and tagged its tools by hostile texts."""

from __future__ import annotations

from agent_utilities import create_mcp_server
from tests.page.hostile import N_LONGEST_NAME, TEXTS

if __name__ == "__main__":
    mcp = create_mcp_server("author")
    for text in TEXTS:
        mcp.tool(name=text[:N_LONGEST_NAME], description=text, tags={text[:N_LONGEST_NAME]})(lambda: "done")
    mcp.cli()
