"""Deleting what is too old or too much, in pieces that keep nobody waiting.

A clock that is wrong for a while, ahead by years or back at the epoch, must not cost anybody the log. So nothing is
deleted for its age until the clock has gone on for an hour without a jump, by whatever processes looked at it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from agent_utilities.usage.model import DAY_MS, HOUR_MS, UsageBounds

_AT_ONCE = 5_000
"""Rows deleted in one transaction, some 20 ms."""
_KEPT = 0.95
"""How much of what is allowed stays, so that not every batch finds the log full again."""
_TOO_MANY = 0.25
"""How much of the file may be empty pages before it shrinks; what is written next fills them."""
_SHARES: Mapping[str, float] = MappingProxyType({"session": 0.01, "subject": 0.1, "server, tool": 0.25})
"""Which part of a full log's calls one session, one subject or one tool may have before it is thinned: those who have
most first, and only as far as room is needed. Requests that stand alone have no session, and are thinned by their tool.
"""
_EARLIEST_MS = 1_735_689_600_000
"""The beginning of 2025: a clock that shows less was never set."""

_K = TypeVar("_K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ClockSeen:
    """What the processes that share a log saw of the clock, in UTC epoch milliseconds.

    Args:
        since_ms: from when on it went without a jump.
        last_ms: when it was looked at last.
    """

    since_ms: int
    last_ms: int

    def seen_at(self, now_ms: int, days: int) -> ClockSeen:
        """Return what is known once the clock was looked at again."""
        is_steady = self.last_ms - HOUR_MS <= now_ms <= self.last_ms + days * DAY_MS // 2
        return ClockSeen(self.since_ms if is_steady else now_ms, now_ms)

    def oldest_kept_ms(self, days: int) -> int | None:
        """Return the time before which rows are too old, or None where the clock is not believed."""
        if self.since_ms < _EARLIEST_MS or self.last_ms - self.since_ms < HOUR_MS:
            return None
        return self.last_ms - days * DAY_MS


def prune(connection: sqlite3.Connection, bounds: UsageBounds, now_ms: int) -> None:
    """Delete rows until a log keeps its bounds, and give back what the file no longer needs."""
    oldest_ms = _look_at_clock(connection, bounds, now_ms)
    if oldest_ms is not None:
        for table in ("calls", "searches"):
            _delete(connection, table, "at_ms < ?", (oldest_ms,))
        connection.execute("DELETE FROM lists WHERE day < ?", (oldest_ms // DAY_MS,))
    rows = bounds.rows
    while True:
        for table in ("calls", "searches"):
            _prune_rows(connection, table, rows)
        connection.execute(
            "DELETE FROM lists WHERE day <= (SELECT day FROM lists ORDER BY day DESC LIMIT 1 OFFSET ?)", (rows,)
        )
        if _used_bytes(connection) <= bounds.file_bytes or rows == 0:
            break
        rows //= 2  # rows much longer than most: the bound in bytes holds all the same
    _shrink(connection, bounds)


def _look_at_clock(connection: sqlite3.Connection, bounds: UsageBounds, now_ms: int) -> int | None:
    """Note what the clock shows, and return the time before which rows are too old, where it is believed."""
    row = connection.execute("SELECT since_ms, last_ms FROM clock").fetchone()
    seen = (ClockSeen(*row) if row else ClockSeen(now_ms, now_ms)).seen_at(now_ms, bounds.days)
    connection.execute("INSERT OR REPLACE INTO clock VALUES (1, ?, ?)", (seen.since_ms, seen.last_ms))
    return seen.oldest_kept_ms(bounds.days)


def _prune_rows(connection: sqlite3.Connection, table: str, most: int) -> None:
    """Delete the rows of a table that are too many: the greediest's first, then those that were written first."""
    n_rows = _count(connection, table)
    if n_rows <= most:
        return
    kept = int(most * _KEPT)
    for columns, share in _SHARES.items():
        if table == "searches" and columns not in ("session", "subject"):
            continue
        n_over = n_rows - kept
        counts = _counts(connection, table, columns)
        for key, n in rows_to_take(counts, n_over, max(1, int(most * share))).items():
            where = " AND ".join(f"{column} = ?" for column in columns.split(", "))
            _delete(connection, table, where, key, n)
        n_rows = _count(connection, table)
    _delete(connection, table, "1", (), max(0, n_rows - kept))


def _count(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _counts(connection: sqlite3.Connection, table: str, columns: str) -> dict[tuple[str, ...], int]:
    """Return how many rows each has, without those that bear no name."""
    counted = connection.execute(f"SELECT {columns}, count(*) FROM {table} GROUP BY {columns}")
    return {tuple(key): n for *key, n in counted if any(key)}


def _delete(
    connection: sqlite3.Connection, table: str, where: str, values: tuple[object, ...], limit: int | None = None
) -> None:
    """Delete the rows that are meant, first written first, in pieces."""
    left = limit
    while left is None or left > 0:
        piece = _AT_ONCE if left is None else min(left, _AT_ONCE)
        statement = f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE {where} ORDER BY id LIMIT ?)"
        n_deleted = connection.execute(statement, (*values, piece)).rowcount
        if n_deleted < piece:
            return
        left = None if left is None else left - n_deleted


def _used_bytes(connection: sqlite3.Connection) -> int:
    n_pages = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
    return n_pages * _pragma(connection, "page_size")


def _shrink(connection: sqlite3.Connection, bounds: UsageBounds) -> None:
    """Give empty pages back to the system, where they are many or the file is larger than it may be."""
    n_pages, n_empty = _pragma(connection, "page_count"), _pragma(connection, "freelist_count")
    if n_empty > _TOO_MANY * n_pages or n_pages * _pragma(connection, "page_size") > bounds.file_bytes:
        # A page at a time, each a row without columns, of which `execute` takes the first alone.
        connection.executescript("PRAGMA incremental_vacuum")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def rows_to_take(counts: Mapping[_K, int], n_over: int, share: int) -> dict[_K, int]:
    """Return how many rows to take from each, the greediest first, until enough are gone or nobody has too many.

    Those who have most are brought down to one level, and none below the share: up to that nobody is greedy.
    """
    level = _level(sorted((n for n in counts.values() if n > share), reverse=True), n_over, share)
    taken: dict[_K, int] = {}
    for key, n in sorted(counts.items(), key=lambda item: -item[1]):
        n_taken = min(n - level, n_over - sum(taken.values()))
        if n <= level or n_taken <= 0:
            break
        taken[key] = n_taken
    return taken


def _level(greedy: list[int], n_over: int, share: int) -> int:
    """Return the number of rows that nobody keeps more than: what is above it are at least `n_over`, if they can be."""
    total = 0
    for place, n in enumerate(greedy, start=1):
        total += n
        below = greedy[place] if place < len(greedy) else share
        if total - place * below >= n_over:
            return max(share, (total - n_over) // place)
    return share
