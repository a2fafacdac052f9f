"""Counts and times of tool search, for Prometheus: of tools that callers may use, never of denied ones."""

from __future__ import annotations

from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Histogram

from agent_utilities.features.tool_search.events import EventName, SearchEvent

_FOUND = (0, 1, 2, 3, 5, 10, 15, 25)
"""No search returns more than 25."""
_SECONDS = (5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1)


class SearchMetrics:
    """Counts events, and the tools that became visible or went out by them.

    Args:
        registry: where the metrics are read from; every series is there, at 0, from the start.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._events = Counter(
            "mcp_tool_search_events", "What tool search did, by event.", ["event"], registry=registry
        )
        for name in get_args(EventName):
            self._events.labels(name)
        tools = Counter(
            "mcp_tool_search_tools",
            "Deferred tools that were made visible (added), or went out for others (evicted).",
            ["change"],
            registry=registry,
        )
        self._added, self._evicted = tools.labels("added"), tools.labels("evicted")
        self._found = Histogram(
            "mcp_tool_search_found", "Tools that a search found.", buckets=_FOUND, registry=registry
        )
        self._seconds = Histogram(
            "mcp_tool_search_seconds", "Time to answer a search.", buckets=_SECONDS, registry=registry
        )

    def count(self, event: SearchEvent) -> None:
        """Count an event; a tool's coming and going once each, though a search tells both too."""
        self._events.labels(event.name).inc()
        match event.name:
            case "tools_attached":
                self._added.inc(event.counts.get("added", 0))
            case "evicted":
                self._evicted.inc(event.counts.get("evicted", 0))
            case "tool_search":
                self._found.observe(event.counts.get("found", 0))
                if event.seconds is not None:
                    self._seconds.observe(event.seconds)
