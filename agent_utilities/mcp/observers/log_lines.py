"""One log line for each list of tools, with every fallback, unknown name and truncation (law L8), and each search."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

from agent_utilities.mcp.observers.base import CapabilitiesSwitched, Observer, SearchEvent, ToolsListed, WordsRouted

logger = logging.getLogger("agent_utilities.wire")


class LogLines(Observer):
    """Logs what callers are told of their lists, and what tool search did for them."""

    def listed(self, listing: ToolsListed) -> None:
        """Log a list: how it was asked for, and what its caller is told beside it."""
        if logger.isEnabledFor(logging.INFO):
            told = " ".join(f"{key}={value}" for key, value in listing.summary.items())
            logger.info("%s %s", listing.asked, told)

    def searched(self, event: SearchEvent) -> None:
        """Log an event of tool search: its counts, its time, its cause."""
        if logger.isEnabledFor(logging.INFO):
            logger.info("%s", " ".join(_words(event)))

    def switched(self, event: CapabilitiesSwitched) -> None:
        """Log which capabilities came and went, and by what."""
        if logger.isEnabledFor(logging.INFO):
            told = {"on": event.on, "off": event.off}
            names = " ".join(f"{key}={json.dumps(','.join(value))}" for key, value in told.items() if value)
            logger.info("capabilities by=%s %s", event.by, names)

    def routed(self, event: WordsRouted) -> None:
        """Log where words led, without the words."""
        if logger.isEnabledFor(logging.INFO):
            nearest = ",".join(f"{name}:{score:.3f}" for name, score in event.nearest)
            cause = f" cause={json.dumps(event.cause)}" if event.cause else ""
            ms = 1000 * event.seconds
            logger.info("routed outcome=%s nearest=%s ms=%.1f%s", event.outcome, json.dumps(nearest), ms, cause)


def _words(event: SearchEvent) -> Iterator[str]:
    yield event.name
    yield from (f"{key}={value}" for key, value in event.counts.items())
    if event.seconds is not None:
        yield f"ms={1000 * event.seconds:.1f}"
    if event.cause:
        # What more than one word is, is quoted: whatever it holds, the line is one, and its keys are read as such.
        yield f"cause={event.cause if event.cause.isidentifier() else json.dumps(event.cause)}"
