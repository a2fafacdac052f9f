"""`UsageStore` writes events to a usage log and prunes it by age and size; synchronous, one thread at a time."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from operator import attrgetter
from pathlib import Path

from agent_utilities.usage.database import explained, open_log
from agent_utilities.usage.model import (
    DAY_MS,
    PRUNE_S,
    Call,
    Entry,
    Listed,
    Read,
    Search,
    UsageBounds,
    UsageError,
)

_CHECKS_PER_FILL = 50
"""How often the rows are counted while a log fills: it may have a fiftieth too many for each process that writes it."""

_TOO_MANY = 0.25
"""How much of the file may be empty pages before it shrinks; what is written next fills them."""
_WHOSE = {
    "calls": "coalesce(nullif(subject, ''), nullif(session, ''), tool)",
    "searches": "coalesce(nullif(subject, ''), session)",
    "reads": "tool",
}
"""Whose quota of a full log a row uses; a request without a session uses that of its tool."""
_IS_OLD = {"calls": "at_ms < :ms", "searches": "at_ms < :ms", "lists": "day < :day", "reads": "day < :day"}
_SHARE = 0.01
"""The share of a full log's rows that each may keep before those with fewer rows lose any."""

_Value = str | int | float
_Row = tuple[_Value, ...]

_AT_ONCE = 64
"""Rows of one statement. Every statement lets go of Python's lock and has to get it back, which a busy event loop gives
every 5 ms only: row by row, 200 take a second. Older SQLites take 999 values at once."""
_TABLES: tuple[tuple[type[Call | Search], str], ...] = ((Call, "calls"), (Search, "searches"))
"""The table of a kind of event, whose fields are its columns."""
_LISTED = """INSERT INTO lists (server, tool, upstream, day, n_lists, n_tokens) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (server, tool, day) DO UPDATE
    SET upstream = excluded.upstream, n_lists = n_lists + excluded.n_lists, n_tokens = excluded.n_tokens"""

_READ = """INSERT INTO reads (server, tool, projection, day, n_reads, n_tokens, n_selected) VALUES (?, ?, ?, ?, 1, ?, ?)
    ON CONFLICT (server, tool, projection, day) DO UPDATE
    SET n_reads = n_reads + 1, n_tokens = n_tokens + excluded.n_tokens, n_selected = n_selected + excluded.n_selected"""
_READS_SHARE = 10  # one in so many rows may be of reads: callers can make any number of projections

_PAGES = "SELECT * FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
"""How many pages a file has, how many of them are empty, and the bytes of one."""


class UsageStore:
    """An open usage log; several processes may have one file open."""

    def __init__(self, path: Path, bounds: UsageBounds) -> None:
        self._path = path
        self._bounds = bounds
        self._connection = open_log(path)
        self._file = _identity(path)
        self._n_unchecked = 0
        self._prune_at_s = 0.0

    def write(self, events: Sequence[Entry]) -> None:
        """Add events, all or none."""
        if not events:
            return
        with explained(self._path):
            self._follow()
            self._check_room()
            self._connection.execute("BEGIN IMMEDIATE")
            with self._connection:
                insert(self._connection, events)
        self._n_unchecked += len(events)

    @property
    def is_due(self) -> bool:
        """Whether the log should be pruned: much was written since the last time, or that was long ago."""
        return self._n_unchecked * _CHECKS_PER_FILL >= self._bounds.rows or time.monotonic() >= self._prune_at_s

    def prune(self, now_ms: int) -> None:
        """Delete rows until the log is within its bounds, and return free pages to the system."""
        self._n_unchecked, self._prune_at_s = 0, time.monotonic() + PRUNE_S
        connection, bounds = self._connection, self._bounds
        with explained(self._path):
            oldest_ms = now_ms - bounds.days * DAY_MS
            for table, is_old in _IS_OLD.items():
                connection.execute(f"DELETE FROM {table} WHERE {is_old}", {"ms": oldest_ms, "day": oldest_ms // DAY_MS})
            rows = bounds.rows
            while True:
                for table in _WHOSE:
                    _thin(connection, table, rows // _READS_SHARE if table == "reads" else rows)
                connection.execute(
                    "DELETE FROM lists WHERE day <= (SELECT day FROM lists ORDER BY day DESC LIMIT 1 OFFSET ?)", (rows,)
                )
                n_pages, n_empty, page_bytes = connection.execute(_PAGES).fetchone()
                if (n_pages - n_empty) * page_bytes <= bounds.file_bytes or rows == 0:
                    break
                rows //= 2  # rows much longer than most: the bound in bytes holds all the same
            # Empty pages go back to the system where they are many, or the file is larger than it may be.
            if n_empty > _TOO_MANY * n_pages or n_pages * page_bytes > bounds.file_bytes:
                # A page at a time, each a row without columns, of which `execute` takes the first alone.
                connection.executescript("PRAGMA incremental_vacuum")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close the file; the last process to do so checkpoints the write-ahead log."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def _follow(self) -> None:
        """Open a new file where the old one was moved or deleted: SQLite would go on writing to one without a name."""
        if _identity(self._path) != self._file:
            self.close()
            self._connection = open_log(self._path)
            self._file = _identity(self._path)

    def _check_room(self) -> None:
        """Raise `UsageError` where the disk is nearly full, or the file may not grow."""
        if shutil.disk_usage(self._path.parent).free < self._bounds.free_bytes:
            raise UsageError("full", self._path, f"less than {self._bounds.free_bytes} bytes are free")
        size = 0  # of the log, and of what was not yet worked into it
        for suffix in ("", "-wal"):
            with suppress(FileNotFoundError):
                size += os.stat(f"{self._path}{suffix}").st_size
        if size > self._bounds.disk_bytes:
            raise UsageError("full", self._path, f"it takes over {self._bounds.disk_bytes} bytes")


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of a file, by which a later one at the same path differs; None where there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def insert(connection: sqlite3.Connection, events: Sequence[Entry]) -> None:
    """Add events to the tables, in their order; of one day lists are one row a tool, and reads one a projection."""
    for kind, table in _TABLES:
        columns = [field.name for field in fields(kind)]
        rows: list[_Row] = list(map(attrgetter(*columns), [event for event in events if type(event) is kind]))
        places = f"({', '.join('?' * len(columns))})"
        for start in range(0, len(rows), _AT_ONCE):
            piece = rows[start : start + _AT_ONCE]
            statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([places] * len(piece))}"
            connection.execute(statement, [_clean(value) for row in piece for value in row])
    listed: list[_Row] = [
        (event.server, event.tool, event.upstream, event.at_ms // DAY_MS, event.n_lists, event.n_tokens)
        for event in events
        if type(event) is Listed
    ]
    read: list[_Row] = [
        (event.server, event.tool, event.projection, event.at_ms // DAY_MS, event.n_tokens, event.n_selected)
        for event in events
        if type(event) is Read
    ]
    for statement, rows in ((_LISTED, listed), (_READ, read)):
        connection.executemany(statement, [tuple(map(_clean, row)) for row in rows])


def _clean(value: _Value) -> _Value:
    """Return a value as SQLite takes it: a text without halves of surrogate pairs."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _thin(connection: sqlite3.Connection, table: str, most: int) -> None:
    """Delete the rows of a table that are too many: of those who have most first, then those written first."""
    n_over = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] - most
    if n_over > 0:
        # Whose rows are many has the oldest ones with the highest numbers: all come down to one level.
        ranked = f"SELECT id, row_number() OVER (PARTITION BY {_WHOSE[table]} ORDER BY id DESC) AS n FROM {table}"
        chosen = f"SELECT id FROM ({ranked}) ORDER BY max(n, ?) DESC, id LIMIT ?"
        connection.execute(f"DELETE FROM {table} WHERE id IN ({chosen})", (int(most * _SHARE), n_over))
