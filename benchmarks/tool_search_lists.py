"""What tool search adds to the time of a list where it is off, and where it is on; what is listed in place of 500."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from fastmcp import Client

from agent_utilities import create_mcp_server
from agent_utilities.catalog.context import n_tokens
from benchmarks.contenders import OURS, ROOT, Contender, Process
from benchmarks.measure import Lane, Rounds, Spread, interleave, spread
from benchmarks.tool_search_reach import text_tokens
from benchmarks.worker import add_tools, tool_name

BEFORE = "86afc66"
"""The commit before tool search."""
_NOW = Contender(OURS.lane, OURS.kind, code=str(ROOT))
N_LISTED, N_MANY = 1_000, 500
OFF, OFF_AGAIN, OFF_BEFORE = "off", "off again", "before tool search"
ON, CHOSEN = "on, 5 active", "off, 7 chosen"
_ACTIVE = ",".join(tool_name(i) for i in range(5))
_CHOSEN = ",".join(tool_name(i) for i in range(7))
_SELECTIONS: dict[str, dict[str, str]] = {
    ON: {"x-mcp-tool-search": "on", "x-mcp-active": _ACTIVE},
    CHOSEN: {"x-mcp-enabled-tools": _CHOSEN},
}
"""Both list seven tools: five, and the two by which the others are found and called."""


def list_rounds(before: Contender | None, n_starts: int, budget_s: float) -> Rounds:
    """Return the timings of lists in the server at 1,000 tools, with tool search off and on.

    Args:
        before: the server before there was tool search, where it can be had.
        n_starts: how many times the processes are started anew.
        budget_s: seconds in all.
    """
    rounds = Rounds()
    for _ in range(n_starts):
        with ExitStack() as stack:
            lanes: dict[str, Lane] = {}
            for lane, contender in ((OFF, _NOW), (OFF_AGAIN, _NOW), (OFF_BEFORE, before)):
                if contender is not None:
                    process = stack.enter_context(Process(contender))
                    process.ask("build", n_tools=N_LISTED)
                    lanes[lane] = partial(_list, process, {}, N_LISTED)
                    if lane == OFF:
                        lanes |= {name: partial(_list, process, sent, 7) for name, sent in _SELECTIONS.items()}
            rounds.extend(interleave(lanes, budget_s=budget_s / n_starts))
    return rounds


def _list(process: Process, headers: dict[str, str], n_tools: int, n_calls: int) -> Any:
    return process.serve("tools/list", {}, headers, n_calls, n_tools)


def added_ms(rounds: Rounds) -> Spread:
    """Return the milliseconds that a list of seven tools takes longer where two of them are those of tool search."""
    pairs = zip(rounds.of_blocks(ON, "cpu"), rounds.of_blocks(CHOSEN, "cpu"), strict=True)
    return spread([1e3 * (on - off) for on, off in pairs])


def listed_of_many() -> tuple[int, int]:
    """Return the tokens that a server of 500 tools lists with tool search on, its instructions among them; and off."""

    async def listed(switch: str) -> int:
        server = create_mcp_server("benchmark", environ={"MCP_TOOL_SEARCH": switch, "MCP_GRAPH": "off"})
        add_tools(server, N_MANY)
        async with Client(server) as client:
            tools = [
                tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in await client.list_tools()
            ]
            return sum(map(n_tokens, tools)) + round(text_tokens(client.instructions or ""))

    return asyncio.run(listed("on")), asyncio.run(listed("off"))


def lanes_of(rounds: Rounds) -> Sequence[str]:
    """Return the lanes in the order in which they are told."""
    return [lane for lane in (OFF, OFF_AGAIN, OFF_BEFORE, CHOSEN, ON) if lane in rounds.blocks]
