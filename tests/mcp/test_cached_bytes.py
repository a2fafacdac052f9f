"""What callers ask for is remembered, and never grows without end."""

from __future__ import annotations

import asyncio

import pytest

from agent_utilities.mcp.surface import surface as module
from agent_utilities.mcp.surface.surface import Surface
from agent_utilities.selection.parse import read_request
from tests.mcp.servers import log_server


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> Surface:
    monkeypatch.setattr(module, "SETTLED_BYTES", 100_000)
    monkeypatch.setattr(module, "DECISIONS_BYTES", 100_000)
    return Surface({})


def test_many_callers_take_no_more_than_their_share(bounded: Surface):
    tools = asyncio.run(log_server().list_tools())
    for i in range(1_000):
        caller = read_request(f"disabled_tools=tool_{i}".encode(), ())
        bounded.decide("tool", tools, bounded.verdict(caller, shapes_lists=True))
    assert 0 < bounded.cached_bytes <= 200_000


def test_a_selection_that_is_longer_than_the_share_is_not_kept(bounded: Surface):
    caller = read_request(("disabled_tools=" + ",".join(f"t{i}" for i in range(512))).encode(), ())
    bounded.verdict(caller, shapes_lists=False)
    assert bounded.cached_bytes == 0


def test_what_is_asked_again_is_not_decided_again(bounded: Surface):
    tools = asyncio.run(log_server().list_tools())
    caller = read_request(b"tools=tail_log", ())
    first, again = (bounded.decide("tool", tools, bounded.verdict(caller, shapes_lists=True)) for _ in range(2))
    assert first is again
