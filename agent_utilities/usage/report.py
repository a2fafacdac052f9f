"""Reports of a usage log for its operator: calls, tools that are listed and never called, searches without a match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TypeVar

from agent_utilities.usage.database import snapshot
from agent_utilities.usage.model import DAY_MS

_R = TypeVar("_R", "CallRow", "UncalledTool", "EmptySearch")


@dataclass(frozen=True, slots=True)
class CallRow:
    """The calls of a tool, or of all tools of a server.

    Args:
        upstream: the server behind a gateway; empty for a server's own.
        tool: the tool; empty for all of the server, or of the upstream.
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
    """A tool that was listed and never called; how many lists it stood in, and what all these cost in prompts."""

    server: str
    upstream: str
    tool: str
    n_lists: int
    n_tokens: int


@dataclass(frozen=True, slots=True)
class EmptySearch:
    """The words of a search without a match, and how often they were sent."""

    server: str
    request: str
    n: int


@dataclass(frozen=True)
class UsageReport:
    """What was called in a period.

    Args:
        calls_by_day: the day, counted from the epoch in UTC, and how many calls it saw; days without one left out.
        servers: all calls of each server and upstream, by their number; `tools` likewise.
        uncalled: what was listed and never called, most tokens first.
        n_listed_tokens: what all lists cost in prompts.
        n_searches, n_empty_searches: how many there were, and how many of them had no match.
        empty_searches: those without a match whose words are logged, by their number.
    """

    calls_by_day: dict[int, int]
    servers: tuple[CallRow, ...] = ()
    tools: tuple[CallRow, ...] = ()
    uncalled: tuple[UncalledTool, ...] = ()
    n_listed_tokens: int = 0
    n_searches: int = 0
    n_empty_searches: int = 0
    empty_searches: tuple[EmptySearch, ...] = ()


_OF = "(:server IS NULL OR server = :server)"
_SINCE = f"{_OF} AND (:subject IS NULL OR subject = :subject) AND at_ms >= :ms"
_CALLS = f"""
    SELECT server, upstream, called, n, sum(NOT ok),
        round(min(ms) FILTER (WHERE place >= 0.5 * n), 3), round(min(ms) FILTER (WHERE place >= 0.95 * n), 3)
    FROM (
        SELECT *, row_number() OVER (of_one ORDER BY ms) AS place, count(*) OVER of_one AS n
        FROM (SELECT *, {{tool}} AS called FROM calls WHERE {_SINCE})
        WINDOW of_one AS (PARTITION BY server, upstream, called)
    ) GROUP BY server, upstream, called"""
_LISTED = f"""SELECT server, max(upstream), tool, sum(n_lists), sum(n_lists * n_tokens) FROM lists
    WHERE {_OF} AND day >= :day GROUP BY server, tool"""
_SEARCHES = f"SELECT count(*), coalesce(sum(n_found = 0), 0) FROM searches WHERE {_SINCE}"
_EMPTY_SEARCHES = f"""SELECT server, request, count(*) FROM searches
    WHERE {_SINCE} AND n_found = 0 AND request <> '' GROUP BY server, request"""


def read_report(
    path: Path, now_ms: int, *, server: str | None = None, days: int = 30, subject: str | None = None
) -> UsageReport:
    """Return the report of the last days, whole ones of UTC with today; an empty one where there is no log.

    Args:
        subject: whose calls and searches; None for everybody's. Lists are everybody's always.
    """
    first_day = now_ms // DAY_MS - days + 1
    of = {"server": server, "day": first_day, "ms": first_day * DAY_MS, "subject": subject}
    with snapshot(path) as connection:
        if connection is None:
            return UsageReport({})
        by_day = dict(connection.execute(f"SELECT at_ms / {DAY_MS}, count(*) FROM calls WHERE {_SINCE} GROUP BY 1", of))
        called = set(connection.execute(f"SELECT DISTINCT server, tool FROM calls WHERE {_SINCE}", of))
        n_searches, n_empty = connection.execute(_SEARCHES, of).fetchone()
        servers = tuple(CallRow(*row) for row in connection.execute(_CALLS.format(tool="''"), of))
        tools = tuple(CallRow(*row) for row in connection.execute(_CALLS.format(tool="tool"), of))
        listed = [UncalledTool(*row) for row in connection.execute(_LISTED, of)]
        empty = tuple(EmptySearch(*row) for row in connection.execute(_EMPTY_SEARCHES, of))
    uncalled = tuple(row for row in listed if (row.server, row.tool) not in called)
    n_tokens = sum(row.n_tokens for row in listed)
    return merged([UsageReport(by_day, servers, tools, uncalled, n_tokens, n_searches, n_empty, empty)])


def read_days(
    path: Path, now_ms: int, *, server: str, days: int, subject: str | None
) -> list[tuple[int, str, str, int]]:
    """Return how often each tool was called on each of the last days: day from the epoch, upstream, tool, number."""
    of = {"server": server, "ms": (now_ms // DAY_MS - days + 1) * DAY_MS, "subject": subject}
    with snapshot(path) as connection:
        if connection is None:
            return []
        by_day = f"SELECT at_ms / {DAY_MS}, upstream, tool, count(*) FROM calls WHERE {_SINCE} GROUP BY 1, 2, 3"
        return [(int(day), upstream, tool, int(n)) for day, upstream, tool, n in connection.execute(by_day, of)]


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
    return tuple(sorted(rows, key=lambda row: (-getattr(row, most), astuple(row))))
