"""The only file of this room that touches private names of FastMCP or the SDK: each with why, and what would end it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

import mcp_types
from mcp import ClientSession

_N_A_TURN = 200
_SELDOM_S = 60.0


def _seldom() -> Callable[[logging.LogRecord], bool]:
    """Return what lets each line of code log once a minute.

    Why: the SDK logs a traceback of each notification or event that it can't read, of which a server may send
    thousands a second; nothing else bounds them.
    Ends when: the SDK counts them, or says nothing of them.
    """
    next_s: dict[tuple[str, int], float] = {}

    def is_logged(record: logging.LogRecord) -> bool:
        place, now_s = (record.pathname, record.lineno), time.monotonic()
        if now_s < next_s.get(place, now_s):
            return False
        next_s[place] = now_s + _SELDOM_S
        return True

    return is_logged


for _name in ("client", "mcp.client.streamable_http", "mcp.shared.jsonrpc_dispatcher"):
    logging.getLogger(_name).addFilter(_seldom())


async def learn_tools(session: ClientSession, tools: Sequence[mcp_types.Tool]) -> None:
    """Have a session know tools that it did not list itself, so that it sends the headers that their schemas ask for.

    Why: over streamable HTTP, 2026-07-28 has a call bear headers of its arguments (`x-mcp-header`). A session learns
    which from its own `list_tools()`, which judges a whole page at once on the event loop; and a connection that was
    made for a call has listed nothing yet.
    Ends when: `ClientSession` takes known tools, or its lists take items one by one.

    Args:
        session: of the newer era.
        tools: as the upstream last listed them.
    """
    for start in range(0, len(tools), _N_A_TURN):
        page = mcp_types.ListToolsResult(tools=list(tools[start : start + _N_A_TURN]))
        session._absorb_tool_listing(page, complete=False)
        await asyncio.sleep(0)
