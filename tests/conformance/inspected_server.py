"""A small server for the Inspector to list, run as an author's server is run: by its own command line."""

from __future__ import annotations

from agent_utilities import create_mcp_server

mcp = create_mcp_server("notes", "Read and write notes.")


@mcp.tool(tags={"read"}, annotations={"readOnlyHint": True})
def read_note(name: str) -> str:
    """Read a note."""
    return f"the note {name}"


@mcp.tool(tags={"read"}, annotations={"readOnlyHint": True})
def list_notes() -> str:
    """List all notes."""
    return "all notes"


@mcp.tool(tags={"write"})
def write_note(name: str) -> str:
    """Write a note."""
    return f"wrote {name}"


@mcp.tool(tags={"write"})
def delete_note(name: str) -> str:
    """Delete a note."""
    return f"deleted {name}"


if __name__ == "__main__":
    mcp.cli()
