"""The overview: what needs a person, calls of the last day, what lists cost, who is here, and how to connect."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fastmcp
from starlette.requests import Request as HttpRequest

from agent_utilities.context.feature import ContextReport
from agent_utilities.page import servers
from agent_utilities.page.surface import request_of, rows_of
from agent_utilities.page.usage import NONE, whose
from agent_utilities.runtime.waiting import in_daemon_thread, left_out
from agent_utilities.seam.feature import Feature
from agent_utilities.seam.host import Host, find
from agent_utilities.seam.panel import Panel, Reader, Table
from agent_utilities.usage.database import snapshot
from agent_utilities.usage.feature import Usage
from agent_utilities.usage.model import UsageError

_HOUR_MS = 3_600_000
_N_HOURS = 24
_BADGE_S = 0.5
"""Seconds that a badge may take; a page is not held up by one."""
_MOST_WAITING = 100
_COLUMNS = ("hour", "calls", "failed", "p50_ms", "p95_ms")


async def look(host: Host, reader: Reader, request: HttpRequest) -> dict[str, Any]:
    """Return what a reader may know of how the server does."""
    made = await request_of(host, reader, request)
    known = await rows_of(host, reader, made)
    day, why_none = await _day(host, reader, [row.name for row in known if row.verdict != "denied" and not row.is_own])
    report = None if (feature := find(host, ContextReport)) is None else (await feature.of(made))[0]
    behind = servers.states(host, reader, request) if servers.PANEL.is_there(host) else []
    is_here = [caller for _, caller in host.live_sessions() if _may_see(reader, caller)]
    people = sorted({f"{caller.subject} ({caller.issuer})" for caller in is_here if caller and caller.subject})
    endpoint = _endpoint(request)
    return {
        "failing": [each for each in behind if each["state"] == "failing"],
        "pending": [each for each in behind if each.get("n_pending")],
        "others": [each for each in behind if each["state"] != "failing"],
        "is_gateway": servers.PANEL.is_there(host),
        "day": day,
        "why_none": why_none,
        "report": report,
        "n_tools": sum(not row.is_own for row in known),
        "n_sessions": len(is_here),
        "people": people,
        "version": version("agent-utilities"),
        "up": _span(time.time() - request.state.tail.began_s),
        "endpoint": endpoint,
        "connects": connects(host.name, endpoint),
        "tables": {"hours": Table(_COLUMNS, day.rows() if day is not None else [])},
    }


def _may_see(reader: Reader, caller: Any) -> bool:
    own = reader.caller.person
    return reader.operates or (caller is not None and all(caller.person) and caller.person == own)


def _endpoint(request: HttpRequest) -> str:
    root = request.scope.get("root_path", "")
    return f"{request.url.scheme}://{request.url.netloc}{root}{fastmcp.settings.streamable_http_path}"


def _span(seconds: float) -> str:
    """Return a span of time in its largest unit: a page tells no more of it."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            n = int(seconds // size)
            return f"{n} {unit}{'s' * (n > 1)}"
    return "less than a minute"


# -- the last day's calls ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Day:
    """The calls of the last 24 hours.

    Args:
        n_calls, n_failed, p50_ms, p95_ms: of all of them.
        hours: the same of each hour that saw any, by its number from 0, the oldest.
    """

    n_calls: int = 0
    n_failed: int = 0
    p50_ms: float | None = None
    p95_ms: float | None = None
    hours: Mapping[int, tuple[int, int, float, float]] | None = None

    def bars(self, column: int, height: float) -> list[tuple[int, float]]:
        """Return where a column's bars stand, and how tall they are; the tallest takes all of the height."""
        hours = self.hours or {}
        most = max((row[column] for row in hours.values()), default=0) or 1
        most = most if column != 1 else max(row[0] for row in hours.values())  # failures, as a part of the calls
        return [(hour, height * row[column] / most) for hour, row in sorted(hours.items()) if row[column]]

    def line(self, column: int, width: float, height: float) -> list[str]:
        """Return the points of a column's lines: one for each run of hours that saw calls."""
        hours = self.hours or {}
        most, step = max((row[column] for row in hours.values()), default=0) or 1, width / _N_HOURS
        runs: list[list[str]] = []
        for hour in sorted(hours):
            y = height - 2 - (height - 4) * hours[hour][column] / most
            point = f"{step * (hour + 0.5):.1f},{y:.1f}"
            runs = [*runs, [point]] if hour - 1 not in hours else [*runs[:-1], [*runs[-1], point]]
        return [" ".join(run if len(run) > 1 else run * 2) for run in runs]

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of a table, by how many hours ago they were."""
        return [(hour - _N_HOURS + 1, *row) for hour, row in sorted((self.hours or {}).items())]


_CALLS = """
    SELECT hour, n, sum(NOT ok), round(min(ms) FILTER (WHERE place >= 0.5 * n), 3),
        round(min(ms) FILTER (WHERE place >= 0.95 * n), 3)
    FROM (
        SELECT *, row_number() OVER (of_one ORDER BY ms) AS place, count(*) OVER of_one AS n
        FROM (SELECT {hour} AS hour, ok, ms FROM calls WHERE server = :server AND at_ms > :ms
            AND (:subject IS NULL OR subject = :subject)
            AND (:tools IS NULL OR tool IN (SELECT value FROM json_each(:tools))))
        WINDOW of_one AS (PARTITION BY hour)
    ) GROUP BY hour"""


def read_day(path: Path, now_ms: int, *, server: str, subject: str | None, tools: Sequence[str] | None) -> Day:
    """Return the calls of the last 24 hours from a usage log.

    Args:
        subject: whose calls; None for everybody's.
        tools: those that count; None for all.

    Raises:
        UsageError: the log can't be read.
    """
    counted = None if tools is None else json.dumps(tools)
    of = {"server": server, "ms": now_ms - _N_HOURS * _HOUR_MS, "subject": subject, "tools": counted}
    with snapshot(path) as connection:
        if connection is None:
            return Day()
        by_hour = f"min((at_ms - 1 - :ms) / {_HOUR_MS}, {_N_HOURS - 1})"
        hours = {row[0]: row[1:] for row in connection.execute(_CALLS.format(hour=by_hour), of)}
        whole = connection.execute(_CALLS.format(hour="0"), of).fetchone()
    if whole is None:
        return Day()
    _, n_calls, n_failed, p50_ms, p95_ms = whole
    return Day(n_calls, n_failed, p50_ms, p95_ms, hours)


async def _day(host: Host, reader: Reader, permitted: Sequence[str]) -> tuple[Day | None, str]:
    """Return the last day's calls that a reader may know of, or None and why there is nothing of them: a key."""
    feature = find(host, Usage)
    if feature is None or feature.mode == "off":
        return None, "off"
    if (subject := whose(feature, reader)) == NONE:
        return None, "together"
    tools = None if reader.operates else permitted
    read = partial(read_day, feature.path, int(time.time() * 1000), server=host.name, subject=subject, tools=tools)
    try:
        return await in_daemon_thread(read), ""
    except UsageError:  # the panel of usage says why
        return None, "unread"


# -- what needs a person -----------------------------------------------------------------------------------------------


async def badges(host: Host, reader: Reader) -> dict[str, int]:
    """Return, by panel, how much waits for a person who operates the server; nothing for others.

    Failing servers and changed texts of servers, and calls that wait for a yes.
    """
    counts: dict[str, int] = {}
    if not reader.operates:
        return counts
    with left_out(servers.PANEL):
        counts["servers"] = servers.n_waiting(host)
    approvals: Any = next((each for each in host.offered(Feature) if each.name == "approvals"), None)
    if approvals is not None:
        with left_out(approvals):
            async with asyncio.timeout(_BADGE_S):
                counts["approvals"] = len((await approvals.store.waiting(_MOST_WAITING))[0])
    return {name: n for name, n in counts.items() if n}


# -- how to connect ----------------------------------------------------------------------------------------------------


def connects(name: str, url: str) -> dict[str, str]:
    """Return what hosts take to connect to a server over HTTP: a command, or an entry of their file."""
    entry = {"type": "http", "url": url}

    def in_json(**keys: Any) -> str:
        return json.dumps(keys, indent=2, ensure_ascii=False)

    return {
        "Claude Code": shlex.join(["claude", "mcp", "add", "--transport", "http", name, url]),
        "VS Code": shlex.join(["code", "--add-mcp", json.dumps({"name": name, **entry}, ensure_ascii=False)]),
        "Cursor (.cursor/mcp.json)": in_json(mcpServers={name: {"url": url}}),
        "Codex": shlex.join(["codex", "mcp", "add", name, "--url", url]),
        "Gemini CLI": shlex.join(["gemini", "mcp", "add", "--transport", "http", name, url]),
    }


PANEL = Panel("overview", "Overview", look)
