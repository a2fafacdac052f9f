"""The bounded server without the versions that the operator denies: a server lists the newest version alone."""

from __future__ import annotations

from tests.wire.bounded_server import child, mcp

if __name__ == "__main__":
    for server, name in ((mcp, "edit_note"), (child, "edit")):
        server.local_provider.remove_tool(name, "2")
    mcp.local_provider.remove_prompt("story", "2")
    mcp.cli()
