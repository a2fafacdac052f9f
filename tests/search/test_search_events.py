"""What tool search did is one log line, one metric and one span event, without a word of the user's."""

from __future__ import annotations

import logging
from typing import get_args

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agent_utilities import create_mcp_server
from agent_utilities.search.active_set import EventName, SearchEvent
from agent_utilities.server.feature_list import FeatureList
from agent_utilities.server.metrics import Metrics

ATTACHED = SearchEvent("tools_attached", {"added": 4, "active": 34})
SEARCHED = SearchEvent("tool_search", {"found": 10, "loaded": 4, "evicted": 2, "deferred": 47}, seconds=0.0031)
STEPPED = SearchEvent("window_step", {"turn": 3, "turns": 7})
FELL_BACK = SearchEvent("ranker_fallback", {"found": 0}, cause="ranked by words alone")
EVICTED = SearchEvent("evicted", {"evicted": 2, "active": 24}, cause="max_active")
EVENTS = (ATTACHED, SEARCHED, STEPPED, FELL_BACK, EVICTED)
NAMES = [event.name for event in EVENTS]


def test_these_are_all_the_events() -> None:
    assert tuple(NAMES) == get_args(EventName)


def samples(*events: SearchEvent, tells_denied: bool = False) -> dict[str, float]:
    """Return what `/metrics` says of tool search after some events."""
    server = create_mcp_server("searched")
    metrics = Metrics(server)
    for event in events:
        server.notify(event)
    lines = metrics.text(tells_denied=tells_denied).decode().splitlines()
    told = (line.rpartition(" ") for line in lines if line.startswith("mcp_tool_search_"))
    return {name: float(value) for name, _, value in told if "_created" not in name}


class TestLogLine:
    def test_names_the_event_its_counts_its_time_and_its_cause(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO, "agent_utilities.wire"):
            for event in EVENTS:
                event.log()
        assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
            ("INFO", "tools_attached added=4 active=34"),
            ("INFO", "tool_search found=10 loaded=4 evicted=2 deferred=47 ms=3.1"),
            ("INFO", "window_step turn=3 turns=7"),
            ("INFO", 'ranker_fallback found=0 cause="ranked by words alone"'),
            ("INFO", "evicted evicted=2 active=24 cause=max_active"),
        ]

    def test_stays_one_line_whatever_its_cause_holds(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO, "agent_utilities.wire"):
            SearchEvent("ranker_fallback", {}, cause='no answer\nok="yes"').log()
        assert caplog.messages == ['ranker_fallback cause="no answer\\nok=\\"yes\\""']


class TestMetrics:
    def test_before_the_first_event_every_count_is_there_and_0(self) -> None:
        counts = {name: value for name, value in samples().items() if "_total" in name}
        assert counts == {
            **{f'mcp_tool_search_events_total{{event="{name}"}}': 0.0 for name in NAMES},
            'mcp_tool_search_tools_total{change="added"}': 0.0,
            'mcp_tool_search_tools_total{change="evicted"}': 0.0,
        }

    def test_each_event_is_counted_once_and_so_is_what_came_and_went_though_a_search_tells_it_too(self) -> None:
        told = samples(*EVENTS, STEPPED)
        counted = {name: told[f'mcp_tool_search_events_total{{event="{name}"}}'] for name in NAMES}
        assert counted == {**dict.fromkeys(NAMES, 1.0), "window_step": 2.0}
        assert told['mcp_tool_search_tools_total{change="added"}'] == 4
        assert told['mcp_tool_search_tools_total{change="evicted"}'] == 2

    def test_how_many_tools_a_search_found_and_how_long_it_took_are_histograms(self) -> None:
        found_nothing = SearchEvent("tool_search", {"found": 0, "loaded": 0, "evicted": 0, "deferred": 51})
        told = samples(*EVENTS, found_nothing)
        assert (told["mcp_tool_search_found_count"], told["mcp_tool_search_found_sum"]) == (2, 10)
        assert told['mcp_tool_search_found_bucket{le="0.0"}'] == 1
        assert (told["mcp_tool_search_seconds_count"], told["mcp_tool_search_seconds_sum"]) == (1, 0.0031)

    def test_neither_a_cause_nor_a_count_of_deferred_tools_is_told(self) -> None:
        assert not [name for name in samples(*EVENTS) if "words" in name or "max_active" in name or "deferred" in name]
        assert samples(*EVENTS, tells_denied=True) == samples(*EVENTS)


def test_each_is_an_event_of_the_requests_span_with_its_counts() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    FeatureList(()).notify(SEARCHED)  # without a span nothing happens
    with provider.get_tracer("test").start_as_current_span("tools/call tool_search"):
        for event in EVENTS:
            FeatureList(()).notify(event)
    (span,) = exporter.get_finished_spans()
    assert {event.name for event in span.events} == {"agent_utilities.tool_search"}
    told = [
        {key.removeprefix("agent_utilities."): value for key, value in (event.attributes or {}).items()}
        for event in span.events
    ]
    assert told == [
        {"event": "tools_attached", "added": 4, "active": 34},
        {"event": "tool_search", "found": 10, "loaded": 4, "evicted": 2, "deferred": 47, "seconds": 0.0031},
        {"event": "window_step", "turn": 3, "turns": 7},
        {"event": "ranker_fallback", "found": 0, "cause": "ranked by words alone"},
        {"event": "evicted", "evicted": 2, "active": 24, "cause": "max_active"},
    ]
