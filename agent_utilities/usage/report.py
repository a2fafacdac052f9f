"""Reports of a usage log for its operator: calls, what results cost, tools never called, searches without a match."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from sqlite3 import Connection
from typing import TypeVar

from agent_utilities.usage.database import snapshot
from agent_utilities.usage.model import DAY_MS

_R = TypeVar("_R", "CallRow", "ResultRow", "UncalledTool", "EmptySearch")


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
class ResultRow:
    """What the results of a tool cost in prompts, and the part of them that would do.

    Args:
        n_calls: its calls whose results were counted.
        n_tokens: of the whole results.
        n_given: those of them that were given.
        projection: the fields that callers selected most often as they read on; empty where they did so less than 3
            times, or where that is the whole.
        n_reads: how often they did.
        saved: how much less than the whole it is, from 0 to 1.
        share: its part of all that is paid, which is the tokens of all lists and those given of results; from 0 to 1.
    """

    server: str
    upstream: str
    tool: str
    n_calls: int
    n_tokens: int
    n_given: int
    projection: str = ""
    n_reads: int = 0
    saved: float = 0.0
    share: float = 0.0

    @property
    def setting(self) -> str:
        """The lines of a settings file by which calls are answered with that part; empty where none is known."""
        if not self.projection or not self.tool.isprintable():
            return ""
        name = self.tool if re.fullmatch(r"[\w-]+", self.tool, re.ASCII) else json.dumps(self.tool, ensure_ascii=False)
        return f"[results.{name}]\nselect = {json.dumps(self.projection)}"


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
        results: what results cost by tool, most tokens given first; of tools whose results were counted.
        uncalled: what was listed and never called, most tokens first.
        n_listed_tokens: what all lists cost in prompts.
        n_searches, n_empty_searches: how many there were, and how many of them had no match.
        empty_searches: those without a match whose words are logged, by their number.
    """

    calls_by_day: dict[int, int]
    servers: tuple[CallRow, ...] = ()
    tools: tuple[CallRow, ...] = ()
    results: tuple[ResultRow, ...] = ()
    uncalled: tuple[UncalledTool, ...] = ()
    n_listed_tokens: int = 0
    n_searches: int = 0
    n_empty_searches: int = 0
    empty_searches: tuple[EmptySearch, ...] = ()

    @property
    def n_given_tokens(self) -> int:
        """What all results that were counted cost in prompts."""
        return sum(row.n_given for row in self.results)


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
_RESULTS = f"""SELECT server, max(upstream), tool, count(*), sum(result_tokens), sum(given_tokens) FROM calls
    WHERE {_SINCE} AND result_tokens > 0 GROUP BY server, tool"""
_READS = f"""SELECT server, tool, projection, sum(n_reads) AS n, 1.0 - 1.0 * sum(n_selected) / sum(n_tokens) FROM reads
    WHERE {_OF} AND day >= :day AND projection <> '' GROUP BY server, tool, projection
    HAVING n >= 3 AND sum(n_selected) < sum(n_tokens) ORDER BY n, projection DESC"""
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
        subject: whose calls and searches; None for everybody's. Lists and reads are everybody's always.
    """
    of = _of(now_ms, server, days, subject)
    with snapshot(path) as connection:
        if connection is None:
            return UsageReport({})
        by_day = dict(connection.execute(f"SELECT at_ms / {DAY_MS}, count(*) FROM calls WHERE {_SINCE} GROUP BY 1", of))
        called = set(connection.execute(f"SELECT DISTINCT server, tool FROM calls WHERE {_SINCE}", of))
        n_searches, n_empty = connection.execute(_SEARCHES, of).fetchone()
        servers = tuple(CallRow(*row) for row in connection.execute(_CALLS.format(tool="''"), of))
        tools = tuple(CallRow(*row) for row in connection.execute(_CALLS.format(tool="tool"), of))
        results = _results(connection, of)
        listed = [UncalledTool(*row) for row in connection.execute(_LISTED, of)]
        empty = tuple(EmptySearch(*row) for row in connection.execute(_EMPTY_SEARCHES, of))
    uncalled = tuple(row for row in listed if (row.server, row.tool) not in called)
    n_tokens = sum(row.n_tokens for row in listed)
    return merged([UsageReport(by_day, servers, tools, results, uncalled, n_tokens, n_searches, n_empty, empty)])


def read_results(path: Path, now_ms: int, *, server: str | None, days: int, subject: str | None) -> UsageReport:
    """Return of the report of the last days what lists and results cost."""
    of = _of(now_ms, server, days, subject)
    with snapshot(path) as connection:
        if connection is None:
            return UsageReport({})
        n_tokens = sum(row[-1] for row in connection.execute(_LISTED, of))
        return merged([UsageReport({}, results=_results(connection, of), n_listed_tokens=n_tokens)])


def _of(now_ms: int, server: str | None, days: int, subject: str | None) -> dict[str, str | int | None]:
    first_day = now_ms // DAY_MS - days + 1
    return {"server": server, "day": first_day, "ms": first_day * DAY_MS, "subject": subject}


def _results(connection: Connection, of: dict[str, str | int | None]) -> tuple[ResultRow, ...]:
    most = {(server, tool): read for server, tool, *read in connection.execute(_READS, of)}  # the last one of each
    return tuple(ResultRow(*row, *most.get((row[0], row[2]), ())) for row in connection.execute(_RESULTS, of))


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
    n_paid = sum(report.n_listed_tokens + report.n_given_tokens for report in reports) or 1
    results = (replace(row, share=row.n_given / n_paid) for report in reports for row in report.results)
    return UsageReport(
        dict(sorted(by_day.items())),
        _in_order((row for report in reports for row in report.servers), "n_calls"),
        _in_order((row for report in reports for row in report.tools), "n_calls"),
        _in_order(results, "n_given"),
        _in_order((row for report in reports for row in report.uncalled), "n_tokens"),
        sum(report.n_listed_tokens for report in reports),
        sum(report.n_searches for report in reports),
        sum(report.n_empty_searches for report in reports),
        _in_order((row for report in reports for row in report.empty_searches), "n"),
    )


def _in_order(rows: Iterable[_R], most: str) -> tuple[_R, ...]:
    return tuple(sorted(rows, key=lambda row: (-getattr(row, most), astuple(row))))
