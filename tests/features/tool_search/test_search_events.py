"""What tool search did is one log line, one metric and one span event, without a word of the user's."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import get_args
from unittest.mock import Mock

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agent_utilities import create_mcp_server
from agent_utilities.features.tool_search.events import EventName, SearchEvent
from agent_utilities.mcp.events import Observers
from agent_utilities.mcp.metrics import Metrics

ATTACHED = SearchEvent("tools_attached", {"added": 4, "active": 34})
SEARCHED = SearchEvent("tool_search", {"found": 10, "loaded": 4, "evicted": 2, "deferred": 47}, seconds=0.0031)
STEPPED = SearchEvent("window_step", {"turn": 3, "turns": 7})
FELL_BACK = SearchEvent("ranker_fallback", {"found": 0}, cause="ranked by words alone")
EVICTED = SearchEvent("evicted", {"evicted": 2, "active": 24}, cause="max_active")
EVENTS = (ATTACHED, SEARCHED, STEPPED, FELL_BACK, EVICTED)
NAMES = [event.name for event in EVENTS]
every_event = pytest.mark.parametrize("event", EVENTS, ids=NAMES)


def test_these_are_all_the_events() -> None:
    assert tuple(NAMES) == get_args(EventName)


def samples(*events: SearchEvent, tells_denied: bool = False) -> dict[str, float]:
    """Return what `/metrics` says of tool search after some events."""
    server = create_mcp_server("searched")
    metrics = Metrics(server.operator_bounds, server.features)
    for event in events:
        server.notify(event)
    lines = metrics.text(tells_denied=tells_denied).decode().splitlines()
    told = (line.rpartition(" ") for line in lines if line.startswith("mcp_tool_search_"))
    return {name: float(value) for name, _, value in told if "_created" not in name}


class TestLogLine:
    @pytest.mark.parametrize(
        ("event", "line"),
        [
            (ATTACHED, "tools_attached added=4 active=34"),
            (SEARCHED, "tool_search found=10 loaded=4 evicted=2 deferred=47 ms=3.1"),
            (STEPPED, "window_step turn=3 turns=7"),
            (FELL_BACK, 'ranker_fallback found=0 cause="ranked by words alone"'),
            (EVICTED, "evicted evicted=2 active=24 cause=max_active"),
        ],
        ids=NAMES,
    )
    def test_names_the_event_its_counts_its_time_and_its_cause(
        self, caplog: pytest.LogCaptureFixture, event: SearchEvent, line: str
    ) -> None:
        with caplog.at_level(logging.INFO, "agent_utilities.wire"):
            event.log()
        assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("INFO", line)]

    def test_stays_one_line_whatever_its_cause_holds(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO, "agent_utilities.wire"):
            SearchEvent("ranker_fallback", {}, cause='no answer\nok="yes"').log()
        assert caplog.messages == ['ranker_fallback cause="no answer\\nok=\\"yes\\""']

    def test_is_not_made_where_nobody_logs_it(self, caplog: pytest.LogCaptureFixture) -> None:
        counts = Mock(spec=Mapping)
        with caplog.at_level(logging.WARNING, "agent_utilities.wire"):
            SearchEvent("tool_search", counts).log()
        assert counts.mock_calls == []


class TestMetrics:
    @every_event
    def test_each_event_is_counted_by_its_name(self, event: SearchEvent) -> None:
        counted = {name: samples(event)[f'mcp_tool_search_events_total{{event="{name}"}}'] for name in NAMES}
        assert counted == {name: float(name == event.name) for name in NAMES}

    def test_before_the_first_event_every_count_is_there_and_0(self) -> None:
        counts = {name: value for name, value in samples().items() if "_total" in name}
        assert counts == {
            **{f'mcp_tool_search_events_total{{event="{name}"}}': 0.0 for name in NAMES},
            'mcp_tool_search_tools_total{change="added"}': 0.0,
            'mcp_tool_search_tools_total{change="evicted"}': 0.0,
        }

    def test_what_came_and_went_for_a_search_is_counted_once_though_it_tells_it_too(self) -> None:
        for change, n_tools in [("added", 4), ("evicted", 2)]:
            told = samples(ATTACHED, EVICTED, SEARCHED)
            assert told[f'mcp_tool_search_tools_total{{change="{change}"}}'] == n_tools

    def test_how_many_tools_a_search_found_is_a_histogram(self) -> None:
        told = samples(SEARCHED, FELL_BACK, ATTACHED)
        assert (told["mcp_tool_search_found_count"], told["mcp_tool_search_found_sum"]) == (1, 10)

    def test_a_search_that_found_nothing_is_in_it(self) -> None:
        told = samples(SearchEvent("tool_search", {"found": 0, "loaded": 0, "evicted": 0, "deferred": 51}))
        assert told['mcp_tool_search_found_bucket{le="0.0"}'] == 1

    def test_how_long_a_search_took_is_a_histogram(self) -> None:
        told = samples(SEARCHED, ATTACHED)
        assert (told["mcp_tool_search_seconds_count"], told["mcp_tool_search_seconds_sum"]) == (1, 0.0031)

    def test_a_time_that_was_not_measured_is_in_no_histogram(self) -> None:
        assert samples(SearchEvent("tool_search", {"found": 1}))["mcp_tool_search_seconds_count"] == 0

    def test_neither_a_cause_nor_a_count_of_deferred_tools_is_told(self) -> None:
        assert not [name for name in samples(*EVENTS) if "words" in name or "max_active" in name or "deferred" in name]

    def test_nothing_more_is_told_to_those_who_may_know_of_denied_tools(self) -> None:
        assert samples(*EVENTS, tells_denied=True) == samples(*EVENTS)


class TestSpanEvent:
    @pytest.fixture
    def exporter(self) -> Iterator[InMemorySpanExporter]:
        exporter = InMemorySpanExporter()
        yield exporter
        exporter.shutdown()

    def span_of(self, exporter: InMemorySpanExporter, *events: SearchEvent) -> ReadableSpan:
        """Return the finished span of a request during which tool search did something."""
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        with provider.get_tracer("test").start_as_current_span("tools/call tool_search"):
            for event in events:
                Observers().notify(event)
        (span,) = exporter.get_finished_spans()
        return span

    @pytest.mark.parametrize(
        ("event", "attributes"),
        [
            (ATTACHED, {"event": "tools_attached", "added": 4, "active": 34}),
            (
                SEARCHED,
                {"event": "tool_search", "found": 10, "loaded": 4, "evicted": 2, "deferred": 47, "seconds": 0.0031},
            ),
            (STEPPED, {"event": "window_step", "turn": 3, "turns": 7}),
            (FELL_BACK, {"event": "ranker_fallback", "found": 0, "cause": "ranked by words alone"}),
            (EVICTED, {"event": "evicted", "evicted": 2, "active": 24, "cause": "max_active"}),
        ],
        ids=NAMES,
    )
    def test_is_on_the_requests_span_with_the_counts(
        self, exporter: InMemorySpanExporter, event: SearchEvent, attributes: dict[str, object]
    ) -> None:
        (told,) = self.span_of(exporter, event).events
        assert told.name == "agent_utilities.tool_search"
        assert dict(told.attributes or {}) == {f"agent_utilities.{key}": value for key, value in attributes.items()}

    def test_each_event_is_one_of_its_span(self, exporter: InMemorySpanExporter) -> None:
        told = [dict(each.attributes or {}) for each in self.span_of(exporter, *EVENTS).events]
        assert [attributes["agent_utilities.event"] for attributes in told] == NAMES

    def test_without_a_span_nothing_happens(self) -> None:
        assert not trace.get_current_span().is_recording()
        Observers().notify(SEARCHED)
