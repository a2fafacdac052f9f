"""What a hostile caller asks of tool search, so that any trace of what is denied shows in an answer."""

from __future__ import annotations

import re
from typing import Any

from tests.wire.search_server import DENIED, PERMITTED

Question = tuple[str, dict[str, Any]]
META = "agent-utilities/selection"


def call(name: str, /, **arguments: Any) -> Question:
    return "tools/call", {"name": name, "arguments": arguments}


def searched(query: str, /, **arguments: Any) -> Question:
    return call("tool_search", query=query, **arguments)


def brought(active: str) -> dict[str, Any]:
    return {"_meta": {META: {"active": active}}}


EVERYTHING_ACTIVE = ",".join([*DENIED, *PERMITTED])
QUESTIONS: list[Question] = [
    ("tools/list", {}),
    *(("tools/list", {"_meta": {META: {"query": query}}}) for query in ("vault", "read a note", "quicksilver")),
    *(searched(name) for name in DENIED),
    *(searched(f"select:{name}") for name in DENIED),
    searched("select:read_note,open_vault,read_mail"),
    searched("quicksilver"),
    searched("LEAKED"),
    searched("find a note by its text"),
    searched("read money note mail folder", max_results=25),
    searched("draw a chart", max_results=25),
    *(searched("note", server=server) for server in ("vault", "note", "searched", "valt", "find_vault")),
    *(call(alias, query="vault note") for alias in ("mcp_load", "ToolSearch", "search_tools")),
    *(call(alias, names=["open_vault"]) for alias in ("mcp_load", "ToolSearch", "search_tools")),
    *(call(name) for name in DENIED),
    *(call(name, number="many") for name in DENIED),
    *(call("call_tool", name=name) for name in DENIED),
    *(call("call_tool", name=name, arguments={"number": "many"}) for name in DENIED),
    *(call("call_tool", name="call_tool", arguments={"name": name}) for name in DENIED),
    ("tools/list", brought(EVERYTHING_ACTIVE)),
    ("tools/list", brought(f"{EVERYTHING_ACTIVE};turns=3")),
    ("tools/list", brought("+open_vault,find_vault,read_note")),
    ("tools/list", {"_meta": {META: {"active": EVERYTHING_ACTIVE, "max_active": 3}}}),
    ("tools/list", {"_meta": {META: {"active": EVERYTHING_ACTIVE, "max_tools": 5}}}),
    ("tools/call", {**searched("weather", max_results=1)[1], **brought("open_vault,read_note,find_vault,send_mail")}),
    (
        "tools/call",
        {**searched("weather", max_results=2)[1], "_meta": {META: {"active": "open_vault", "max_active": 2}}},
    ),
    ("tools/list", {}),
]
"""Asked one after another, so that what one leaves in a session is seen in the next."""


def masked(raw: bytes) -> str:
    """Return what an answer says, without the times that differ from one run to the next."""
    return re.sub(r'"(seconds|ms)":[0-9.e-]+', "", raw.decode())
