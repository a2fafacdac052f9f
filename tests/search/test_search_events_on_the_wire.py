"""What a server tells of tool search while callers use it: every channel the same, and nothing that callers said."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx2
import mcp_types
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agent_utilities import selection_headers
from agent_utilities.seam.events import Event
from agent_utilities.search.active_set import TURN, SearchEvent
from demo.office import office_server
from tests.every import every_of
from tests.gateway.upstreams.processes import until
from tests.server.servers import over_http
from tests.server.spans import span_exporter

pytestmark = pytest.mark.anyio

QUERY = "create an invoice for xylophone the customer"
DENIED = "delete_ticket"


@dataclass
class Told:
    """What a server told of tool search, in every way it has."""

    events: list[SearchEvent] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    spans: list[dict[str, object]] = field(default_factory=list)
    metrics: str = ""
    has_session: bool = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, SearchEvent):
            self.events.append(event)


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """Receives every span of this process."""
    return span_exporter()


@pytest.fixture
async def of_each_era(
    exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Mapping[str, Told]:
    """What is told of two searches, of a turn and of a call, of which a cap of two evicts tools."""
    monkeypatch.setenv("MCP_GRAPH_DEADLINE_MS", "60000")  # the turn is taken by a list, however slow the machine
    return {era: await told_in(era, exporter, caplog) for era in ("legacy", "auto")}


async def told_in(era: str, exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture) -> Told:
    exporter.clear()
    caplog.clear()
    server, told = office_server(), Told()
    told.has_session = era == "legacy"
    server.features.observe(told)
    asked = selection_headers(tool_search="on", max_active=2, query=QUERY, initial_k=3, disabled_tools=[DENIED])
    app, client = over_http(server, headers=asked, mode=era)
    with caplog.at_level(logging.INFO, "agent_utilities"):
        async with (
            app.router.lifespan_context(app),
            client,
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as web,
        ):
            await client.list_tools()
            await client.call_tool("tool_search", {"query": QUERY, "max_results": 2})
            await client.call_tool("tool_search", {"query": f"select:{DENIED},get_ticket,get_meeting,get_order"})
            await client.call_tool("export_payments", {})
            told.metrics = (await web.get("/metrics")).text
    names = {event.name for event in told.events}
    told.lines = [line for line in caplog.messages if line.split(" ")[0] in names]
    told.spans = [dict(event.attributes or {}) for span in exporter.get_finished_spans() for event in span.events]
    told.spans = [attributes for attributes in told.spans if "agent_utilities.event" in attributes]
    return told


@every_of("told", "of_each_era")
async def test_searches_are_told_and_what_they_and_turns_change_in_a_session(told: Told) -> None:
    changes = {"tools_attached", "window_step", "evicted"} if told.has_session else set()
    assert {event.name for event in told.events} - {"ranker_fallback"} == {"tool_search"} | changes


@every_of("told", "of_each_era")
async def test_each_event_is_one_log_line(told: Told) -> None:
    assert [line.split(" ")[0] for line in told.lines] == [event.name for event in told.events]


@every_of("told", "of_each_era")
async def test_each_event_is_one_event_of_a_span(told: Told) -> None:
    names = [attributes["agent_utilities.event"] for attributes in told.spans]
    assert sorted(map(str, names)) == sorted(event.name for event in told.events)


async def test_a_turn_that_a_call_opens_beside_itself_is_told_in_a_span_below_the_calls(
    exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_GRAPH_DEADLINE_MS", "60000")
    exporter.clear()
    server = office_server()
    app, client = over_http(server, headers=selection_headers(tool_search="on", query=QUERY), mode="legacy")
    async with app.router.lifespan_context(app), client:
        # As such: the client's own way to call lists tools besides, and the list might take the turn.
        params = mcp_types.CallToolRequestParams(name="get_ticket", arguments={"id": "A-17"})
        await client.session.send_request(mcp_types.CallToolRequest(params=params), mcp_types.CallToolResult)
        await until(lambda: any(span.name == TURN for span in exporter.get_finished_spans()))
    (turn,) = [span for span in exporter.get_finished_spans() if span.name == TURN]
    (call,) = [span for span in exporter.get_finished_spans() if span.name.startswith("tools/call")]
    assert turn.parent is not None
    assert turn.parent.span_id == call.get_span_context().span_id
    told = [(event.attributes or {}).get("agent_utilities.event") for event in turn.events]
    assert told[0] == "window_step"


@every_of("told", "of_each_era")
async def test_each_event_is_counted_once(told: Told) -> None:
    n_events = sum(
        float(line.rpartition(" ")[2])
        for line in told.metrics.splitlines()
        if line.startswith("mcp_tool_search_events_total{")
    )
    assert n_events == len(told.events)


@every_of("told", "of_each_era")
async def test_no_word_of_the_callers_and_no_tools_name_is_in_any_of_it(told: Told) -> None:
    everything = "\n".join([*told.lines, *map(str, told.spans), told.metrics, *map(str, told.events)])
    assert [
        word for word in ("xylophone", "select:", DENIED, "get_ticket", "create_invoice") if word in everything
    ] == []
