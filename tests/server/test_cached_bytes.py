"""What callers ask for is remembered, and never grows without end."""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc

import httpx2
import pytest
from starlette.responses import JSONResponse
from starlette.types import Scope

from agent_utilities.errors import SettingsError
from agent_utilities.selection.model import Selection
from agent_utilities.selection.parse import read_request
from agent_utilities.server.agent_server import AgentServer
from agent_utilities.server.surface.surface import Surface
from agent_utilities.server.wire.selection_middleware import SelectionMiddleware
from tests.every import every
from tests.server.servers import log_server
from tests.wire.processes import Launch, served

MIB = 1 << 20
ONE_MIB = {"MCP_CACHE_MB": "1"}


def names(chance: random.Random, n: int, prefix: str = "") -> str:
    return ",".join(f"{prefix}{chance.randrange(16**3):03x}" for _ in range(n))


def selection(chance: random.Random, n: int) -> Selection:
    """A selection of some names in each field of two channels, as if it had just come."""
    fields = ("tools", "toolsets", "disabled_tools", "tags", "disabled_tags")
    query = "&".join(f"{field}={names(chance, n)}" for field in fields)
    return read_request(query.encode(), ((b"x-mcp-disabled-tools", names(chance, n).encode()),))


def cached_bytes(surface: Surface) -> float:
    return surface._merged.weight + surface._decisions.weight


def test_many_callers_take_no_more_than_their_share():
    surface, tools = Surface(ONE_MIB), asyncio.run(log_server().list_tools())
    for i in range(1_000):
        caller = read_request(f"disabled_tools=tool_{i}".encode(), ())
        surface.decide("tool", tools, surface.verdict(caller, shapes_lists=True))
    assert 0 < cached_bytes(surface) <= 0.5 * MIB


def test_nothing_is_remembered_where_the_operator_says_so():
    surface, tools = Surface({"MCP_CACHE_MB": "0"}), asyncio.run(log_server().list_tools())
    surface.decide("tool", tools, surface.verdict(read_request(b"tools=tail_log", ()), shapes_lists=True))
    assert cached_bytes(surface) == 0


def test_a_cache_of_no_size_is_refused():
    with pytest.raises(SettingsError, match="MCP_CACHE_MB"):
        _ = Surface({"MCP_CACHE_MB": "-1"}).operator.settings


def test_a_long_selection_is_not_kept():
    surface, tools = Surface({}), asyncio.run(log_server().list_tools())
    surface.decide("tool", tools, surface.verdict(Selection(), shapes_lists=True))
    before = cached_bytes(surface)
    surface.decide("tool", tools, surface.verdict(selection(random.Random(1), 100), shapes_lists=True))
    assert cached_bytes(surface) == before


def test_what_is_asked_again_is_not_decided_again():
    surface, tools = Surface({}), asyncio.run(log_server().list_tools())
    caller = read_request(b"tools=tail_log", ())
    first, again = (surface.decide("tool", tools, surface.verdict(caller, shapes_lists=True)) for _ in range(2))
    assert first is again


def test_the_same_short_request_is_read_once():
    reader = SelectionMiddleware(JSONResponse({}), AgentServer(environ=ONE_MIB), "/sse", "/mcp")

    def read(query: bytes) -> Selection:
        scope: Scope = {"type": "http", "query_string": query, "headers": []}
        return reader.read(scope)

    assert read(b"tools=same") is read(b"tools=same")
    long = b"tools=same&other=" + b"x" * 40_000
    assert read(long) is not read(long)


@every("n", [1, 10, 40])
def test_what_is_kept_weighs_what_it_takes(n: int):
    """The weights add up to seven tenths of what Python allocates, or more."""
    surface, chance = Surface({"MCP_CACHE_MB": "64"}), random.Random(n)
    tools = asyncio.run(log_server().list_tools())
    surface.decide("tool", tools, surface.verdict(selection(chance, n), shapes_lists=True))
    gc.collect()
    before = cached_bytes(surface)
    tracemalloc.start()
    try:
        for _ in range(100):
            surface.decide("tool", tools, surface.verdict(selection(chance, n), shapes_lists=True))
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cached_bytes(surface) - before >= 0.7 * taken


@pytest.mark.outside
def test_large_selections_leave_a_server_as_large_as_it_was():
    chance = random.Random(0)
    fields = ("tools", "disabled_tools", "tags", "disabled_tags")
    headers = ("x-mcp-enabled-tools", "x-mcp-disabled-tools", "x-mcp-enabled-tags", "x-mcp-disabled-tags")
    with served(Launch()) as server, httpx2.Client(base_url=server.url, timeout=60) as http:

        def ask(n_requests: int) -> None:
            for _ in range(n_requests):
                query = {field: names(chance, 500) for field in fields}
                given = {header: names(chance, 500) for header in headers}
                assert http.get("/tools", params=query, headers=given).status_code == 200

        ask(10)
        before = server.rss_kib()
        ask(200)
        assert server.rss_kib() - before < 32 * 1024
