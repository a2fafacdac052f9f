"""One log line for each list of tools: every fallback, unknown name and truncation is in it (law L8)."""

from __future__ import annotations

import logging

from agent_utilities.mcp.observers.base import Observer, ToolsListed

logger = logging.getLogger("agent_utilities.wire")


class LogLines(Observer):
    """Logs what callers are told of their lists."""

    def listed(self, listing: ToolsListed) -> None:
        """Log a list: how it was asked for, and what its caller is told beside it."""
        if logger.isEnabledFor(logging.INFO):
            told = " ".join(f"{key}={value}" for key, value in listing.summary.items())
            logger.info("%s %s", listing.asked, told)
