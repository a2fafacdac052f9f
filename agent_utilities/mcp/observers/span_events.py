"""What tool search and capabilities did, as events of the OpenTelemetry span of the request that it did it for."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from opentelemetry import trace

from agent_utilities.mcp.observers.base import CapabilitiesSwitched, Observer, SearchEvent, WordsRouted

EVENT = "agent_utilities.tool_search"
"""The name of every event of tool search; the attribute `agent_utilities.event` says which it is."""
SWITCHED, ROUTED = "agent_utilities.capabilities", "agent_utilities.routed"
"""The names of events on capabilities that came or went, and on where words led."""

TURN = "agent_utilities.turn"
"""The name of the span of a turn that is opened beside a request, which may have been answered before."""


def turn_span() -> AbstractContextManager[trace.Span]:
    """Return a span for a turn that is opened beside a request, below the request's own."""
    return trace.get_tracer("agent_utilities").start_as_current_span(TURN)


class SpanEvents(Observer):
    """Adds to the span in force; does nothing where there is none, or nobody records it."""

    def searched(self, event: SearchEvent) -> None:
        """Add an event with its name, counts, seconds and cause as attributes."""
        span = trace.get_current_span()
        if not span.is_recording():
            return
        attributes: dict[str, str | int | float] = {"event": event.name, **event.counts}
        if event.seconds is not None:
            attributes["seconds"] = event.seconds
        if event.cause:
            attributes["cause"] = event.cause
        span.add_event(EVENT, {f"agent_utilities.{key}": value for key, value in attributes.items()})

    def switched(self, event: CapabilitiesSwitched) -> None:
        """Add an event with the names of capabilities that came and went, and what switched them."""
        attributes = {"by": event.by, "on": ",".join(event.on), "off": ",".join(event.off)}
        _add(SWITCHED, {key: value for key, value in attributes.items() if value})

    def routed(self, event: WordsRouted) -> None:
        """Add an event with where words led, and how long it took to tell."""
        nearest = ",".join(f"{name}:{score:.3f}" for name, score in event.nearest)
        _add(ROUTED, {"outcome": event.outcome, "nearest": nearest, "seconds": event.seconds})


def _add(name: str, attributes: Mapping[str, str | float]) -> None:
    span = trace.get_current_span()
    if span.is_recording():
        span.add_event(name, {f"agent_utilities.{key}": value for key, value in attributes.items()})
