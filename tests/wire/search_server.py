"""The server whose deferred tools are searched by a hostile caller; `WITH_DENIED=1` gives it tools that must be denied.

Launched with and without that variable under the same bounds it must answer alike, to the byte. What is denied shares
words, tags, versions and name parts with what is permitted, so that a count, a score or a text that reads it moves:

    MCP_TOOL_SEARCH=on MCP_DISABLED_TAGS=vault WITH_DENIED=1 python search_server.py -t http -p 0
"""

from __future__ import annotations

import os

from agent_utilities import AgentServer, create_mcp_server

LEAKED = "LEAKED"
READ = {"readOnlyHint": True}
PERMITTED = {
    "read_note": "Read a note. Gives the text of one note.",
    "list_notes": "List the notes in a folder.",
    "find_note": "Find a note by words in its text.",
    "share_note": "Share a note with somebody by mail.",
    "send_mail": "Send a mail to somebody.",
    "read_mail": "Read the mail in a folder.",
    "list_folders": "List all folders of notes and mail.",
    "convert_money": "Convert an amount of money to another currency.",
    "tell_weather": "Tell the weather of a city, today or tomorrow.",
    "draw_chart": "Draw a chart of some numbers.",
}
DENIED = {
    "purge_vault": "LEAKED Purge the quicksilver vault. Removes each note and mail of a folder.",
    "open_vault": "LEAKED Open the quicksilver vault, and read the money in it.",
    "find_vault": "LEAKED Find a vault by words in its text, note or weather.",
    "draw_vault": "LEAKED Draw a chart of the quicksilver vault.",
}
"""All of them have the tag `vault`, and none is read-only."""


def add_tools(mcp: AgentServer, *, with_denied: bool) -> None:
    """Add what is permitted, each with the tag that its name ends in, and in between what is denied."""
    denied = list(DENIED.items()) if with_denied else []
    for place, (name, description) in enumerate(PERMITTED.items()):
        _add(mcp, name, description, {name.rpartition("_")[2]}, READ)
        if place % 3 == 0 and denied:
            _add(mcp, *denied.pop(), {"vault", "note"}, None)


def _add(mcp: AgentServer, name: str, description: str, tags: set[str], annotations: dict[str, bool] | None) -> None:
    answer = LEAKED if name in DENIED else name

    @mcp.tool(name=name, description=description, tags=tags, annotations=annotations)
    def answered(text: str = "", number: int = 0) -> str:
        return f"{answer} {text}".strip()


def search_server(*, with_denied: bool, **options: object) -> AgentServer:
    """Return the server."""
    mcp = create_mcp_server("searched", **options)  # type: ignore[arg-type]
    add_tools(mcp, with_denied=with_denied)
    return mcp


mcp = search_server(with_denied=bool(os.environ.get("WITH_DENIED")))

if __name__ == "__main__":
    mcp.cli()
