"""One log line for each list of tools, with every fallback, unknown name and truncation (law L8), and each search."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

from agent_utilities.mcp.observers.base import Observer, SearchEvent, ToolsListed

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


def _words(event: SearchEvent) -> Iterator[str]:
    yield event.name
    yield from (f"{key}={value}" for key, value in event.counts.items())
    if event.seconds is not None:
        yield f"ms={1000 * event.seconds:.1f}"
    if event.cause:
        # What more than one word is, is quoted: whatever it holds, the line is one, and its keys are read as such.
        yield f"cause={event.cause if event.cause.isidentifier() else json.dumps(event.cause)}"
