"""What a usage log tells its operator: calls, what was listed for nothing, searches that found nothing."""

from __future__ import annotations

import math
import sqlite3
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, TypeVar

from agent_utilities.usage.database import snapshot
from agent_utilities.usage.model import DAY_MS

_R = TypeVar("_R", "CallRow", "UncalledTool", "EmptySearch")


@dataclass(frozen=True, slots=True)
class CallRow:
    """The calls of a tool, or of all tools of a server.

    Args:
        server: the server or gateway that was called.
        upstream: the server behind a gateway; empty for a server's own.
        tool: the tool; empty for all of the server, or of the upstream.
        n_calls, n_errors: how many there were, and how many of them failed.
        p50_ms, p95_ms: milliseconds that half of them, and 95 of 100, took at most.
    """

    server: str
    upstream: str
    tool: str
    n_calls: int
    n_errors: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class UncalledTool:
    """A tool that was listed and never called.

    Args:
        server, upstream, tool: as for `CallRow`.
        n_lists: how many lists it stood in.
        n_tokens: what all these cost in prompts.
    """

    server: str
    upstream: str
    tool: str
    n_lists: int
    n_tokens: int


@dataclass(frozen=True, slots=True)
class EmptySearch:
    """A search that found nothing.

    Args:
        server: the server or gateway that was asked.
        request: its words; empty where they are not kept.
        n: how often it was made.
    """

    server: str
    request: str
    n: int


@dataclass(frozen=True)
class UsageReport:
    """What was called since a moment.

    Args:
        calls_by_day: the day, counted from the epoch in UTC, and how many calls it saw; days without one left out.
        servers: all calls of each server and upstream, by their number.
        tools: the calls of each tool, by their number.
        uncalled: what was listed and never called, the dearest first.
        n_listed_tokens: what all lists cost in prompts.
        n_searches, n_empty_searches: how many there were, and how many of them found nothing.
        empty_searches: those that found nothing and whose words are kept, by their number.
    """

    calls_by_day: dict[int, int]
    servers: tuple[CallRow, ...] = ()
    tools: tuple[CallRow, ...] = ()
    uncalled: tuple[UncalledTool, ...] = ()
    n_listed_tokens: int = 0
    n_searches: int = 0
    n_empty_searches: int = 0
    empty_searches: tuple[EmptySearch, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        return asdict(self)


def read_report(path: Path, now_ms: int, *, server: str | None = None, days: int = 30) -> UsageReport:
    """Return what a log tells of the last days, whole ones of UTC with today; nothing where there is no log."""
    first_day = now_ms // DAY_MS - days + 1
    of = {"server": server, "day": first_day, "ms": first_day * DAY_MS}
    with snapshot(path) as connection:
        if connection is None:
            return UsageReport({})
        by_day, servers, tools = _calls(connection, of)
        uncalled, n_listed_tokens = _uncalled(connection, of)
        n_searches, n_empty, empty = _searches(connection, of)
    return merged([UsageReport(by_day, servers, tools, uncalled, n_listed_tokens, n_searches, n_empty, empty)])


def merged(reports: Sequence[UsageReport]) -> UsageReport:
    """Return one report of several logs, its rows in order."""
    by_day: Counter[int] = Counter()
    for report in reports:
        by_day.update(report.calls_by_day)
    return UsageReport(
        dict(sorted(by_day.items())),
        _in_order((row for report in reports for row in report.servers), "n_calls"),
        _in_order((row for report in reports for row in report.tools), "n_calls"),
        _in_order((row for report in reports for row in report.uncalled), "n_tokens"),
        sum(report.n_listed_tokens for report in reports),
        sum(report.n_searches for report in reports),
        sum(report.n_empty_searches for report in reports),
        _in_order((row for report in reports for row in report.empty_searches), "n"),
    )


def _in_order(rows: Iterable[_R], most: str) -> tuple[_R, ...]:
    """Return rows by a number, those of one number in order of their names."""
    return tuple(sorted(rows, key=lambda row: (-getattr(row, most), astuple(row))))


_OF = "(:server IS NULL OR server = :server) AND"
_Row = tuple[str, str, str]


def _calls(
    connection: sqlite3.Connection, of: dict[str, Any]
) -> tuple[dict[int, int], tuple[CallRow, ...], tuple[CallRow, ...]]:
    took: dict[_Row, array[float]] = defaultdict(lambda: array("f"))
    n_errors: Counter[_Row] = Counter()
    by_day: Counter[int] = Counter()
    statement = f"SELECT server, upstream, tool, ok, ms, at_ms FROM calls WHERE {_OF} at_ms >= :ms"
    for server, upstream, tool, ok, ms, at_ms in connection.execute(statement, of):
        by_day[at_ms // DAY_MS] += 1
        for key in ((server, upstream, tool), (server, upstream, "")):
            took[key].append(ms)
            n_errors[key] += not ok
    rows = [_call_row(key, times, n_errors[key]) for key, times in took.items()]
    servers, tools = (tuple(row for row in rows if bool(row.tool) is of_tool) for of_tool in (False, True))
    return by_day, servers, tools


def _call_row(key: _Row, times: array[float], n_errors: int) -> CallRow:
    in_order = sorted(times)
    p50_ms, p95_ms = (round(in_order[math.ceil(share * len(in_order)) - 1], 3) for share in (0.5, 0.95))
    return CallRow(*key, len(in_order), n_errors, p50_ms, p95_ms)


def _uncalled(connection: sqlite3.Connection, of: dict[str, Any]) -> tuple[tuple[UncalledTool, ...], int]:
    called = set(connection.execute(f"SELECT DISTINCT server, tool FROM calls WHERE {_OF} at_ms >= :ms", of))
    statement = f"""SELECT server, max(upstream), tool, sum(n_lists), sum(n_lists * n_tokens) FROM lists
        WHERE {_OF} day >= :day GROUP BY server, tool"""
    listed = [UncalledTool(*row) for row in connection.execute(statement, of)]
    uncalled = tuple(row for row in listed if (row.server, row.tool) not in called)
    return uncalled, sum(row.n_tokens for row in listed)


def _searches(connection: sqlite3.Connection, of: dict[str, Any]) -> tuple[int, int, tuple[EmptySearch, ...]]:
    statement = f"SELECT count(*), total(n_found = 0) FROM searches WHERE {_OF} at_ms >= :ms"
    n_searches, n_empty = connection.execute(statement, of).fetchone()
    statement = f"""SELECT server, request, count(*) FROM searches
        WHERE {_OF} at_ms >= :ms AND n_found = 0 AND request <> '' GROUP BY server, request"""
    return n_searches, int(n_empty), tuple(EmptySearch(*row) for row in connection.execute(statement, of))
