"""The server's tools with their tags and annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from logs_agent.comparing import compare_windows
from logs_agent.counting import count_by_level, log_histogram
from logs_agent.listing import list_logs
from logs_agent.rotating import delete_log, rotate_log
from logs_agent.searching import search_logs
from logs_agent.slowness import find_slow_requests
from logs_agent.summarizing import summarize_errors
from logs_agent.tailing import tail_log


class ToolEntry(NamedTuple):
    """A tool as it is registered."""

    fn: Callable[..., Any]
    tags: frozenset[str]
    annotations: dict[str, Any]


def _reads(fn: Callable[..., Any], title: str, *topics: str) -> ToolEntry:
    hints = dict[str, Any](
        title=title, readOnlyHint=True, destructiveHint=False, idempotentHint=True, openWorldHint=False
    )
    return ToolEntry(fn, frozenset({"logs", "read", *topics}), hints)


def _writes(fn: Callable[..., Any], title: str, *topics: str) -> ToolEntry:
    hints = dict[str, Any](
        title=title, readOnlyHint=False, destructiveHint=True, idempotentHint=False, openWorldHint=False
    )
    return ToolEntry(fn, frozenset({"logs", "write", *topics}), hints)


TOOLS = (
    _reads(list_logs, "List logs", "files", "discovery"),
    _reads(tail_log, "Tail a log", "view"),
    _reads(search_logs, "Search logs", "search", "analysis"),
    _reads(summarize_errors, "Summarize errors", "analysis", "errors"),
    _reads(count_by_level, "Count by level", "analysis", "levels", "errors"),
    _reads(log_histogram, "Log histogram", "analysis", "time"),
    _reads(find_slow_requests, "Find slow requests", "analysis", "performance", "access-log"),
    _reads(compare_windows, "Compare time windows", "analysis", "errors", "time"),
    _writes(rotate_log, "Rotate a log", "maintenance"),
    _writes(delete_log, "Delete a log", "delete", "maintenance"),
)
