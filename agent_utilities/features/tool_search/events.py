"""What tool search tells of itself, in logs and spans: of tools that callers may use, never of denied ones."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from agent_utilities.mcp.events import Event

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
        if logger.isEnabledFor(logging.INFO):
            logger.info("%s", " ".join(self._words()))

    def _words(self) -> Iterator[str]:
        yield self.name
        yield from (f"{key}={value}" for key, value in self.counts.items())
        if self.seconds is not None:
            yield f"ms={1000 * self.seconds:.1f}"
        if self.cause:
            # What more than one word is, is quoted: whatever it holds, the line is one, and its keys are read as such.
            yield f"cause={self.cause if self.cause.isidentifier() else json.dumps(self.cause)}"

    def span_event(self) -> tuple[str, Mapping[str, str | int | float]]:
        """Return its name, counts, seconds and cause as attributes."""
        attributes: dict[str, str | int | float] = {"event": self.name, **self.counts}
        if self.seconds is not None:
            attributes["seconds"] = self.seconds
        if self.cause:
            attributes["cause"] = self.cause
        return SPAN_EVENT, attributes
