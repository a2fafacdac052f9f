"""Deleting from a usage log, so that no byte of what is gone stays in its files, while servers go on writing."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agent_utilities.usage.database import connected, explained, snapshot
from agent_utilities.usage.model import DAY_MS

_BUSY_S = 30.0
"""Seconds to wait for servers that write; their transactions take milliseconds."""
_SUFFIXES = ("-wal", "-shm", "-journal", "")
_NONE = "0"
"""The condition that no row meets."""


@dataclass(frozen=True, slots=True)
class Forget:
    """What to delete: what all of these mean, and everything where they mean nothing.

    Args:
        server: of this one alone.
        tool: of this tool alone; searches name none, and stay.
        before_ms: what is older, in UTC epoch milliseconds; of the day on which it falls lists stay.
        words: only the requests; calls and searches stay without them.
    """

    server: str | None = None
    tool: str | None = None
    before_ms: int | None = None
    words: bool = False


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was deleted.

    Args:
        n_calls, n_searches, n_lists: rows that are gone, or that lost their words.
        is_clean: whether every byte is gone; else a reader held the file, and what is deleted goes when servers have
            written some more.
    """

    n_calls: int
    n_searches: int
    n_lists: int
    is_clean: bool = True


def count(path: Path, what: Forget) -> Forgotten:
    """Return what would be deleted."""
    with snapshot(path) as connection:
        return Forgotten(0, 0, 0) if connection is None else _count(connection, what)


def forget(path: Path, what: Forget) -> Forgotten:
    """Delete from a log, and return what was deleted; servers may write it all the while."""
    with snapshot(path) as there:  # refuses a file that is no log, before anything is written to it
        if there is None:
            return Forgotten(0, 0, 0)
    with connected(path, "mode=rw", _BUSY_S) as connection:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            forgotten = _count(connection, what)
            for table, where, values in _meant(what):
                change = f"UPDATE {table} SET request = ''" if what.words else f"DELETE FROM {table}"
                if where != _NONE:
                    connection.execute(f"{change} WHERE {where}", values)
        return replace(forgotten, is_clean=_wipe(connection))


def delete_files(path: Path) -> None:
    """Delete a log with what stands beside it, such as one that is damaged; a server that writes it begins it anew."""
    with explained(path):
        for suffix in _SUFFIXES:
            with suppress(FileNotFoundError):
                os.unlink(f"{path}{suffix}")


def _count(connection: sqlite3.Connection, what: Forget) -> Forgotten:
    counted = (
        connection.execute(f"SELECT count(*) FROM {table} WHERE {where}", values).fetchone()[0]
        for table, where, values in _meant(what)
    )
    return Forgotten(*counted)


def _meant(what: Forget) -> Iterator[tuple[str, str, dict[str, object]]]:
    """Yield each table with the condition for its rows that are meant."""
    for table, time, unit_ms in (("calls", "at_ms", 1), ("searches", "at_ms", 1), ("lists", "day", DAY_MS)):
        before = None if what.before_ms is None else what.before_ms // unit_ms
        values: dict[str, object] = {"server": what.server, "tool": what.tool, "before": before}
        conditions = {"server": "server = :server", "tool": "tool = :tool", "before": f"{time} < :before"}
        given = [conditions[name] for name, value in values.items() if value is not None]
        words = ["request <> ''"] if what.words else []
        lacks_column = (table == "searches" and what.tool is not None) or (table == "lists" and what.words)
        yield table, _NONE if lacks_column else " AND ".join(["1", *given, *words]), values


def _wipe(connection: sqlite3.Connection) -> bool:
    """Make the file anew without free pages, and empty the file of writes; False where somebody keeps that from it.

    SQLite leaves old pages in the file of writes until they are overwritten, and remnants in pages that are in use.
    """
    is_anew = True
    try:
        connection.execute("VACUUM")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL):
            raise
        is_anew = False
    busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return is_anew and not busy
