"""What tool search did, as events of the OpenTelemetry span of the request that it did it for."""

from __future__ import annotations

from opentelemetry import trace

from agent_utilities.mcp.observers.base import Observer, SearchEvent

EVENT = "agent_utilities.tool_search"
"""The name of every such event; the attribute `agent_utilities.event` says which it is."""


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
