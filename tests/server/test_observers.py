"""Observers are told what a server did; one that raises keeps no request from its answer, and no other from knowing."""

from __future__ import annotations

import logging

import pytest

from agent_utilities import AgentServer, selection_headers
from agent_utilities.catalog.model import Catalog, entry
from agent_utilities.policy.curation import Preferences
from agent_utilities.policy.decision import decide
from agent_utilities.seam.events import Decided, Event, RequestServed
from agent_utilities.seam.request import Request, ToolCalled, ToolsListed
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NOTHING, Resolution
from agent_utilities.server.metrics import Metrics
from tests.every import every
from tests.resolutions import answer_of
from tests.server.servers import log_server, over_http, tool_names

pytestmark = pytest.mark.anyio


def failing(event: Event) -> None:
    """Raise whatever happened."""
    if isinstance(event, Decided | ToolsListed | ToolCalled | RequestServed):
        raise RuntimeError(type(event).__name__)


class Noting:
    """Notes which calls it is told of, and how requests went."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, object]] = []

    def __call__(self, event: Event) -> None:
        match event:
            case ToolsListed():
                self.noted.append((event.asked, len(event.decision.visible)))
            case ToolCalled():
                self.noted.append((event.name, event.ok))


async def used(server: AgentServer) -> tuple[int, str]:
    """Return how many tools a caller is listed, and what one of them answers."""
    app, client = over_http(server, headers=selection_headers(disabled_tools=["delete_log"]))
    async with app.router.lifespan_context(app), client:
        return len(await tool_names(client)), (await client.call_tool("tail_log")).data


async def test_one_that_raises_fails_no_request() -> None:
    server = log_server()
    server.features.observe(failing)
    assert await used(server) == (3, "tail of app.log")


async def test_one_that_raises_keeps_nothing_from_the_next() -> None:
    server, noting = log_server(), Noting()
    for observer in (failing, noting):
        server.features.observe(observer)
    await used(server)
    assert noting.noted == [("tools/list", 3), ("tail_log", True)]


async def test_that_one_raised_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = log_server()
    server.features.observe(failing)
    with caplog.at_level(logging.ERROR, "agent_utilities.observers"):
        await used(server)
    assert {str(record.exc_info[1]) for record in caplog.records if record.exc_info} == {
        "Decided",
        "ToolsListed",
        "ToolCalled",
        "RequestServed",
    }


@every(
    ("resolution", "n_fallbacks"),
    [
        (answer_of("fresh", ["tail_log"]), 0),
        (answer_of("stale", ["tail_log"]), 0),
        (answer_of("ranked", ["tail_log"], "graph unreachable"), 0),
        (Resolution("no_match"), 1),
        (Resolution("unavailable", cause="too slow"), 1),
    ],
    ids=lambda value: getattr(value, "status", None),
)
def test_only_a_query_that_narrowed_nothing_counts_as_a_fallback(resolution: Resolution, n_fallbacks: int) -> None:
    server, preferences = log_server(), Preferences(query="tail", resolution=resolution)
    metrics = Metrics(server)
    catalog = Catalog((entry("tool", "tail_log"), entry("tool", "delete_log")))
    request = Request(NOTHING, server.surface.verdict(NOTHING, shapes_lists=True))
    metrics(ToolsListed("tools/list", decide(catalog, Effective(), preferences), {}, request))
    assert metrics.text(tells_denied=False).decode().count("mcp_fallbacks_total{") == n_fallbacks
    queried = f'mcp_queried_lists_total{{status="{resolution.status}"}} 1.0'
    assert queried in metrics.text(tells_denied=False).decode()
