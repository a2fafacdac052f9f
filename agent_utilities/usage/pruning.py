"""Deleting what is too old or too much, in pieces that keep nobody waiting."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from types import MappingProxyType

from agent_utilities.usage.bounds import UsageBounds
from agent_utilities.usage.clock import DAY_MS, ClockSeen
from agent_utilities.usage.thinning import rows_to_take

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


def prune(connection: sqlite3.Connection, bounds: UsageBounds, now_ms: int) -> None:
    """Delete rows until a log keeps its bounds, and give back what the file no longer needs.

    Raises:
        sqlite3.Error: it can't be done, or not be finished.
    """
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
    return (_pragma(connection, "page_count") - _pragma(connection, "freelist_count")) * _pragma(
        connection, "page_size"
    )


def _shrink(connection: sqlite3.Connection, bounds: UsageBounds) -> None:
    """Give empty pages back to the system, where they are many or the file is larger than it may be."""
    n_pages, n_empty = _pragma(connection, "page_count"), _pragma(connection, "freelist_count")
    if n_empty > _TOO_MANY * n_pages or n_pages * _pragma(connection, "page_size") > bounds.file_bytes:
        give_back(connection)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def give_back(connection: sqlite3.Connection) -> None:
    """Cut the empty pages off the file.

    Raises:
        sqlite3.Error: it can't be done.
    """
    # A page at a time, each a row without columns, of which `execute` takes the first alone.
    connection.executescript("PRAGMA incremental_vacuum")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
