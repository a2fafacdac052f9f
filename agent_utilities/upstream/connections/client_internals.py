"""The only file of this room that touches private names of FastMCP or the SDK: each with why, and what would end it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import mcp_types
from mcp import ClientSession

_N_A_TURN = 200


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
