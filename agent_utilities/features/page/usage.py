"""Usage: what was called, how it went, what searches did not find, and what is listed for nothing."""

from __future__ import annotations

import json
import shlex
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.requests import Request as HttpRequest

from agent_utilities.features.page.panel import PageError, Panel, Reader, Table
from agent_utilities.features.page.surface import Row, asked, rows_of
from agent_utilities.features.usage.feature import Usage
from agent_utilities.mcp.agent_server import AgentServer
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.selection.model import Channel, NameSet, fold
from agent_utilities.usage.model import DAY_MS, EVERYBODY, NOBODY
from agent_utilities.usage.report import read_days, read_report

_MOST_DAYS = 365
_NONE = "?"
"""The subject of no call."""
_COLUMNS = ("server", "tool", "calls", "failed", "p50_ms", "p95_ms")
_IDLE = ("server", "tool", "lists", "tokens")


async def look(host: AgentServer, reader: Reader, request: HttpRequest) -> dict[str, Any]:
    """Return what the log tells of a reader's own calls; to an operator of everybody's, and what comes to nothing.

    Where usage is counted for all together (`MCP_USAGE_SCOPE`) nobody's own calls are known apart.

    Raises:
        PageError: the number of days can't be read.
        UsageError: the log can't.
    """
    days, feature = _days(request.query_params.get("days", "")), host.feature(Usage)
    if feature is None or feature.mode == "off":
        return {"mode": "off", "days": days, "tables": {}}
    now_ms, own = int(time.time() * 1000), feature.subject()
    subject = None if reader.operates else own if own not in (EVERYBODY, NOBODY) else _NONE
    of: dict[str, Any] = {"server": host.name, "days": days, "subject": subject}
    report = await in_daemon_thread(partial(read_report, feature.path, now_ms, **of))
    by_day = await in_daemon_thread(partial(read_days, feature.path, now_ms, **of))
    known = await rows_of(host, reader, await asked(host, reader, request))
    permitted = {row.name for row in known if row.verdict != "denied"}
    tools = [row for row in report.tools if reader.operates or row.tool in permitted]
    by_day = [row for row in by_day if reader.operates or row[2] in permitted]
    uncalled = {row.tool: row for row in report.uncalled if reader.operates}
    idle = [row for row in known if row.verdict == "visible" and row.name in uncalled]
    idle.sort(key=lambda row: -row.tokens)
    names = _deniable(idle, known)
    calls = [(row.upstream or row.server, row.tool, row.n_calls, row.n_errors, row.p50_ms, row.p95_ms) for row in tools]
    never = [(row.server, row.name, uncalled[row.name].n_lists, row.tokens) for row in idle]
    series = partial(_series, first=now_ms // DAY_MS - days + 1, days=days)
    return {
        "in_all": series([(day, "", n) for day, _, _, n in by_day]).get("", []),
        "by_server": series([(day, upstream or host.name, n) for day, upstream, _, n in by_day]),
        "by_tool": series([(day, tool, n) for day, _, tool, n in by_day]),
        "mode": feature.mode,
        "days": days,
        "n_calls": sum(row.n_calls for row in tools),
        "n_errors": sum(row.n_errors for row in tools),
        "tools": tools,
        "servers": report.servers if reader.operates else [],
        "idle": [(row, uncalled[row.name].n_lists) for row in idle],
        "idle_tokens": sum(row.tokens for row in idle),
        "n_ended": len(names),
        "ends": _ends(host, names) if names else (),
        "is_known": subject != _NONE,
        "searches": (report.n_searches, report.n_empty_searches) if reader.operates else None,
        "empty_searches": report.empty_searches if reader.operates else [],
        "tables": {"calls": Table(_COLUMNS, calls), "never called": Table(_IDLE, never)},
    }


def _deniable(idle: Sequence[Row], known: Sequence[Row]) -> list[str]:
    """Return the names of tools that a setting can deny with nothing else: no pattern, and no other's name or tag."""
    used = Counter(fold(text) for row in known for text in {row.name, row.server, *row.tags})
    used.update(("all", "none"))
    names = [row.name for row in idle if used[fold(row.name)] == 1]
    return [name for name in names if name.isprintable() and name == name.strip() and not {",", "*"} & set(name)]


def _ends(host: AgentServer, names: Sequence[str]) -> tuple[str, str]:
    """Return the lines of a settings file and of a shell that deny tools, and what is denied there already.

    A line takes the place of the one that is there: without what that denies, it would permit it again.
    """

    def with_denied(channel: Channel) -> list[str]:
        given = host.surface.operator.selection.get("deny_tools", channel)
        denied = given.value.spelled() if given is not None and isinstance(given.value, NameSet) else ()
        return [*(name for name in denied if name != "none"), *names]

    in_file = json.dumps(with_denied("file"), ensure_ascii=False)
    return f"disabled_tools = {in_file}", f"MCP_DISABLED_TOOLS={shlex.quote(','.join(with_denied('env')))}"


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
