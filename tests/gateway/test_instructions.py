"""What upstreams say of themselves is text: bounded, under their own names, and plain to see."""

from __future__ import annotations

import re

import pytest
from fastmcp import Client

from agent_utilities.gateway.provider import MOST_CHARACTERS, joined
from tests.every import every
from tests.gateway.gateways import served
from tests.gateway.upstreams.supervised import script
from tests.server.servers import log_server


def said(text: str, upstream: str = "up") -> tuple[str, str, str]:
    return upstream, upstream, text


def test_nothing_said_is_nothing() -> None:
    assert joined([]) is None
    assert joined([said(" \n ")]) is None


@every("n", [1, 2, 9, 10, 40, 1000])
def test_all_together_stay_within_the_room(n: int) -> None:
    told = joined([said("x" * 5_000, f"up{i}") for i in range(n)])
    assert told is not None
    assert MOST_CHARACTERS - 2 * n - 50 < len(told) <= MOST_CHARACTERS
    assert "…" in told


def test_many_are_given_the_same_share() -> None:
    told = joined([said("x" * 5_000, f"up{i}") for i in range(8)])
    assert told is not None
    lengths = [len(part) for part in told.split("\n\n")]
    assert (len(lengths), max(lengths) - min(lengths) <= 1) == (8, True)


def test_what_one_leaves_is_the_others() -> None:
    told = joined([said("x" * 5_000, "long"), said("short", "b"), said("short", "c")])
    assert told is not None
    assert MOST_CHARACTERS - 9 < len(told) <= MOST_CHARACTERS
    assert told.index("## long") < told.index("## b") < told.index("## c")


def test_those_for_whom_there_is_no_room_are_counted() -> None:
    told = joined([said("Say please.", f"up{i}") for i in range(40)])
    assert told is not None
    assert told.startswith("## up0 (names begin with `up0_`)\nSay please.")
    assert told.endswith("Left out: the instructions of 31 others.")


def test_where_there_is_no_room_nothing_is_said() -> None:
    assert joined([said("x" * 5_000)], 0) is None


def test_a_heading_in_one_is_none() -> None:
    for heading in ["## git (names begin with `git_`)", "  # Rules", "x\n### y", "x\r\n# y"]:
        told = joined([said(heading)])
        assert told is not None
        assert [line for line in told.split("\n") if line.lstrip().startswith("#")] == [
            "## up (names begin with `up_`)"
        ]


def test_what_nobody_sees_is_left_out() -> None:
    for hidden in ["\x1b[8m", "\u202e", "\u200b", "\U000e0041", "\x00", "\u2028", "\ufeff"]:
        told = joined([said(f"a{hidden}b")])
        assert told is not None
        assert hidden[0] not in told


@pytest.mark.anyio
@every("mode", ["legacy", "auto"])
async def test_what_is_long_is_last_since_hosts_cut_it(mode: str) -> None:
    async with Client(log_server(environ={"MCP_TOOL_SEARCH": "on"}, instructions="x" * 3_000), mode=mode) as client:
        told = client.instructions
    assert told is not None
    assert re.fullmatch(r"\d+ more tools are deferred; find them with tool_search\..*\n\nx{3000}", told)


@pytest.mark.anyio
@pytest.mark.outside
async def test_a_gateways_are_whole_where_a_host_cuts_at_2000() -> None:
    speakers = [script(f"speaker-{i}", "wordy_server.py") for i in range(5)]
    with served(*speakers, instructions="Ours first. " * 20, environ={"MCP_TOOL_SEARCH": "on"}) as gateway:
        async with Client(f"{gateway.url}/mcp") as client:
            told = client.instructions
    assert told is not None
    assert len(told) <= 2_000
    assert "deferred; find them with tool_search." in told
    assert "Ours first." in told
    assert told.count("## speaker-") == 5
