"""Observers are told what a server did; one that raises keeps no request from its answer, and no other from knowing."""

from __future__ import annotations

import logging

import pytest

from agent_utilities import AgentServer, selection_headers
from agent_utilities.catalog.model import Catalog, entry
from agent_utilities.mcp.observers.base import Observer, ToolCalled, ToolsListed
from agent_utilities.mcp.observers.metrics import Metrics
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.resolution import Resolution
from agent_utilities.visibility.decision import decide
from agent_utilities.visibility.preferences import Preferences
from tests.mcp.servers import log_server, over_http, tool_names

pytestmark = pytest.mark.anyio


class Failing(Observer):
    """Raises whatever it is told."""

    def decided(self, seconds: float) -> None:
        raise RuntimeError("decided")

    def listed(self, listing: ToolsListed) -> None:
        raise RuntimeError("listed")

    def called(self, call: ToolCalled) -> None:
        raise RuntimeError("called")

    def served(self, method: str, outcome: str) -> None:
        raise RuntimeError("served")


class Noting(Observer):
    """Notes which calls it is told of, and how requests went."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, object]] = []

    def listed(self, listing: ToolsListed) -> None:
        self.noted.append((listing.asked, len(listing.decision.visible)))

    def called(self, call: ToolCalled) -> None:
        self.noted.append((call.name, call.ok))


async def used(server: AgentServer) -> tuple[int, str]:
    """Return how many tools a caller is listed, and what one of them answers."""
    app, client = over_http(server, headers=selection_headers(disabled_tools=["delete_log"]))
    async with app.router.lifespan_context(app), client:
        return len(await tool_names(client)), (await client.call_tool("tail_log")).data


async def test_one_that_raises_fails_no_request() -> None:
    server = log_server()
    server.surface.observers.add(Failing())
    assert await used(server) == (3, "tail of app.log")


async def test_one_that_raises_keeps_nothing_from_the_next() -> None:
    server, noting = log_server(), Noting()
    for observer in (Failing(), noting):
        server.surface.observers.add(observer)
    await used(server)
    assert noting.noted == [("tools/list", 3), ("tail_log", True)]


async def test_that_one_raised_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = log_server()
    server.surface.observers.add(Failing())
    with caplog.at_level(logging.ERROR, "agent_utilities.observers"):
        await used(server)
    assert {str(record.exc_info[1]) for record in caplog.records if record.exc_info} == {
        "decided",
        "listed",
        "called",
        "served",
    }


@pytest.mark.parametrize(
    ("resolution", "n_fallbacks"),
    [
        (Resolution.of_names("fresh", ["tail_log"]), 0),
        (Resolution.of_names("stale", ["tail_log"]), 0),
        (Resolution.of_names("ranked", ["tail_log"], "graph unreachable"), 0),
        (Resolution("no_match"), 1),
        (Resolution("unavailable", cause="too slow"), 1),
    ],
    ids=lambda value: getattr(value, "status", None),
)
def test_only_a_query_that_narrowed_nothing_counts_as_a_fallback(resolution: Resolution, n_fallbacks: int) -> None:
    metrics, preferences = Metrics(), Preferences(query="tail", resolution=resolution)
    catalog = Catalog((entry("tool", "tail_log"), entry("tool", "delete_log")))
    metrics.listed(ToolsListed("tools/list", decide(catalog, Effective(), preferences), {}))
    assert metrics.text(tells_denied=False).decode().count("mcp_fallbacks_total{") == n_fallbacks
    queried = f'mcp_queried_lists_total{{status="{resolution.status}"}} 1.0'
    assert queried in metrics.text(tells_denied=False).decode()
