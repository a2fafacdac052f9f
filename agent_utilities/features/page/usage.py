"""Usage: what was called, how it went, what searches did not find, and what is listed for nothing."""

from __future__ import annotations

import json
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request as HttpRequest

from agent_utilities.features.page.panel import PageError, Panel, Reader, Table
from agent_utilities.features.page.surface import asked, rows_of
from agent_utilities.features.usage.feature import Usage
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.usage.model import DAY_MS
from agent_utilities.usage.report import CallRow, read_days, read_report

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer

_MOST_DAYS = 365
_COLUMNS = ("server", "tool", "calls", "failed", "p50_ms", "p95_ms")
_IDLE = ("server", "tool", "lists", "tokens")


async def look(host: AgentServer, reader: Reader, request: HttpRequest) -> dict[str, Any]:
    """Return what the log tells of tools that a reader may use; to an operator of all, and which words found nothing.

    Raises:
        PageError: the number of days can't be read.
        UsageError: the log can't.
    """
    days, feature = _days(request.query_params.get("days", "")), host.feature(Usage)
    if feature is None or feature.mode == "off":
        return {"mode": "off", "days": days, "tables": {}}
    now_ms, path = int(time.time() * 1000), feature.path
    report = await in_daemon_thread(partial(read_report, path, now_ms, server=host.name, days=days))
    by_day = await in_daemon_thread(partial(read_days, path, now_ms, server=host.name, days=days))
    known = await rows_of(host, reader, await asked(host, reader, request))
    permitted = {row.name for row in known if row.verdict != "denied"}

    def may_know(tool: str) -> bool:
        return reader.operates or tool in permitted

    tools = [row for row in report.tools if may_know(row.tool)]
    by_day = [row for row in by_day if may_know(row[2])]
    uncalled = {row.tool: row for row in report.uncalled if may_know(row.tool)}
    idle = sorted(
        (row for row in known if row.verdict == "visible" and row.name in uncalled), key=lambda row: -row.tokens
    )
    names = [row.name for row in idle]
    first = now_ms // DAY_MS - days + 1
    return {
        "mode": feature.mode,
        "days": days,
        "n_calls": sum(row.n_calls for row in tools),
        "n_errors": sum(row.n_errors for row in tools),
        "in_all": _series([(day, "", n) for day, _, _, n in by_day], first, days).get("", []),
        "by_server": _series([(day, upstream or host.name, n) for day, upstream, _, n in by_day], first, days),
        "by_tool": _series([(day, tool, n) for day, _, tool, n in by_day], first, days),
        "tools": tools,
        "servers": report.servers if reader.operates else [],
        "idle": [(row, uncalled[row.name].n_lists) for row in idle],
        "idle_tokens": sum(row.tokens for row in idle),
        "in_file": f"disabled_tools = {json.dumps(names, ensure_ascii=False)}",
        "in_environ": f"MCP_DISABLED_TOOLS={','.join(names)}",
        "searches": (report.n_searches, report.n_empty_searches) if reader.operates else None,
        "empty_searches": report.empty_searches if reader.operates else [],
        "tables": {
            "calls": Table(_COLUMNS, [_cells(row) for row in tools]),
            "never called": Table(
                _IDLE, [(row.server, row.name, uncalled[row.name].n_lists, row.tokens) for row in idle]
            ),
        },
    }


def _cells(row: CallRow) -> tuple[Any, ...]:
    return row.upstream or row.server, row.tool, row.n_calls, row.n_errors, row.p50_ms, row.p95_ms


def _series(rows: list[tuple[int, str, int]], first: int, days: int) -> dict[str, list[int]]:
    """Return by name how many calls each day saw, the oldest first."""
    counted: dict[str, Counter[int]] = {}
    for day, name, n in rows:
        counted.setdefault(name, Counter())[day - first] += n
    return {name: [by_day[day] for day in range(days)] for name, by_day in counted.items()}


def _days(text: str) -> int:
    try:
        days = int(text.strip() or 30)
        if not 1 <= days <= _MOST_DAYS:
            raise ValueError
    except ValueError:
        raise PageError(f"days can't be read: {text[:100]!r}; write a number from 1 to {_MOST_DAYS}") from None
    return days


PANEL = Panel("usage", "Usage", look)
