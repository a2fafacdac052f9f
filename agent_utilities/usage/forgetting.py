"""Deleting from a usage log, so that no byte of what is gone stays in its files, while servers go on writing."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from agent_utilities.usage.database import connected, explained, snapshot
from agent_utilities.usage.model import DAY_MS

_BUSY_S = 30.0
"""Seconds to wait for servers that write; their transactions take milliseconds."""
_SUFFIXES = ("-wal", "-shm", "-journal", "")
_MEANT = {
    table: f"""(:server IS NULL OR server = :server) AND (:tool IS NULL OR {tool} = :tool)
        AND (:before_ms IS NULL OR {last_ms} < :before_ms) AND (NOT :words OR {request} <> '')"""
    for table, tool, last_ms, request in (
        ("calls", "tool", "at_ms", "request"),
        ("searches", "NULL", "at_ms", "request"),
        ("lists", "tool", f"{DAY_MS} * (day + 1) - 1", "''"),
    )
}
"""By table, the condition for the rows that a `Forget` means; what a table has no column of is met by none."""


@dataclass(frozen=True, slots=True)
class Forget:
    """What to delete: what all of these mean, and everything where they mean nothing.

    Args:
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
        if connection is None:
            return Forgotten(0, 0, 0)
        counts = (f"SELECT count(*) FROM {table} WHERE {where}" for table, where in _MEANT.items())
        return Forgotten(*(connection.execute(each, asdict(what)).fetchone()[0] for each in counts))


def forget(path: Path, what: Forget) -> Forgotten:
    """Delete from a log, and return what was deleted; servers may write it all the while."""
    with snapshot(path) as there:  # refuses a file that is no log, before anything is written to it
        if there is None:
            return Forgotten(0, 0, 0)
    with connected(path, "mode=rw", _BUSY_S) as connection:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            n_rows = []
            for table, where in _MEANT.items():
                is_kept = what.words and table != "lists"
                change = f"UPDATE {table} SET request = ''" if is_kept else f"DELETE FROM {table}"
                n_rows.append(connection.execute(f"{change} WHERE {where}", asdict(what)).rowcount)
        n_calls, n_searches, n_lists = n_rows
        return Forgotten(n_calls, n_searches, n_lists, is_clean=_wipe(connection))


def delete_files(path: Path) -> None:
    """Delete a log with what stands beside it, such as one that is damaged; a server that writes it begins it anew."""
    with explained(path):
        for suffix in _SUFFIXES:
            with suppress(FileNotFoundError):
                os.unlink(f"{path}{suffix}")


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
