"""What tool search tells of itself, in logs, spans and metrics: of tools that callers may use, never of denied ones."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from agent_utilities.mcp.events import Event

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

logger = logging.getLogger("agent_utilities.wire")

EventName = Literal["tools_attached", "tool_search", "window_step", "ranker_fallback", "evicted"]
"""What is told of tool search: tools were attached by a turn, or loaded by a call · a search was answered · a turn was
counted · a search or turn was answered by less than the ranker · loaded tools went out for others."""
SPAN_EVENT = "agent_utilities.tool_search"
"""The name of every event of tool search in a span; the attribute `agent_utilities.event` says which it is."""


@dataclass(frozen=True, slots=True)
class SearchEvent(Event):
    """Something that tool search did; there are no words of the user in it.

    Counts are of what the caller may use. A tool that becomes visible is counted as `added` of `tools_attached`, one
    that goes out as `evicted` of `evicted`. A `tool_search` that it was for tells both too, as `loaded` and `evicted`.

    Args:
        name: what.
        counts: how much of what: `added`, `loaded`, `evicted`, `found`, `deferred`, `turn`, in the order in which they
            are to be told; which there are depends on the event.
        cause: why, in words of ours; empty where there is nothing to explain.
        seconds: how long it took; None where that was not measured.
    """

    name: EventName
    counts: Mapping[str, int]
    cause: str = ""
    seconds: float | None = None

    def log(self) -> None:
        """Log its counts, its time, its cause."""
        words = [self.name, *(f"{key}={value}" for key, value in self.counts.items())]
        if self.seconds is not None:
            words.append(f"ms={1000 * self.seconds:.1f}")
        if self.cause:
            # What more than one word is, is quoted: whatever it holds, the line is one, and its keys are read as such.
            words.append(f"cause={self.cause if self.cause.isidentifier() else json.dumps(self.cause)}")
        logger.info("%s", " ".join(words))

    def span_event(self) -> tuple[str, Mapping[str, str | int | float]]:
        """Return its name, counts, seconds and cause as attributes."""
        told = {"seconds": self.seconds, "cause": self.cause or None}
        known = {key: value for key, value in told.items() if value is not None}
        return SPAN_EVENT, {"event": self.name, **self.counts, **known}


_CHANGES = ("added", "evicted")
_FOUND = (0, 1, 2, 3, 5, 10, 15, 25)
"""No search returns more than 25."""
_SECONDS = (5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1)


class SearchMetrics:
    """Counts events, and the tools that became visible or went out by them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Histogram

        self._events = Counter(
            "mcp_tool_search_events", "What tool search did, by event.", ["event"], registry=registry
        )
        for name in get_args(EventName):
            self._events.labels(name)
        self._tools = Counter(
            "mcp_tool_search_tools",
            "Deferred tools that were made visible (added), or went out for others (evicted).",
            ["change"],
            registry=registry,
        )
        for change in _CHANGES:
            self._tools.labels(change)
        self._found = Histogram(
            "mcp_tool_search_found", "Tools that a search found.", buckets=_FOUND, registry=registry
        )
        self._seconds = Histogram(
            "mcp_tool_search_seconds", "Time to answer a search.", buckets=_SECONDS, registry=registry
        )

    def count(self, event: SearchEvent) -> None:
        """Count an event; a tool's coming and going once each, though a search tells both too."""
        self._events.labels(event.name).inc()
        if event.name == "tool_search":
            self._found.observe(event.counts["found"])
            if event.seconds is not None:
                self._seconds.observe(event.seconds)
        else:
            for change in _CHANGES:
                self._tools.labels(change).inc(event.counts.get(change, 0))
