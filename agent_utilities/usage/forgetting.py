"""Deleting what was logged because somebody wants it gone: from the tables, and from the disk's bytes."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_utilities.usage.clock import DAY_MS
from agent_utilities.usage.errors import usage_error
from agent_utilities.usage.opening import open_log
from agent_utilities.usage.pruning import give_back

_PATIENCE_S = 5.0
"""Seconds to wait for those who still read what is deleted."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was deleted.

    Args:
        n_calls, n_searches, n_lists: rows that are gone, or have lost their words.
        is_gone: whether no byte of it is left; else a program still reads the log, and the last one to close it ends
            what is left.
    """

    n_calls: int
    n_searches: int
    n_lists: int
    is_gone: bool


def forget(
    path: Path, *, before_ms: int | None = None, server: str = "", tool: str = "", requests_only: bool = False
) -> Forgotten:
    """Delete what meets every condition that is given: all of it where none is.

    What servers have not written yet is not met; they do so within a second.

    Args:
        path: the log.
        before_ms: only what was logged before this, in UTC epoch milliseconds.
        server: only what this server logged.
        tool: only calls and lists of this tool; searches name none.
        requests_only: delete the words that led to calls, and leave the rest.

    Raises:
        UsageError: it can't be done, and nothing is deleted.
    """
    if not path.exists():
        return Forgotten(0, 0, 0, is_gone=True)
    connection = open_log(path)
    try:
        counts = _delete(connection, before_ms, server, tool, requests_only)
        with suppress(sqlite3.Error):  # what is deleted is overwritten already: only the file stays as long as it was
            give_back(connection)
        return Forgotten(*counts, is_gone=_is_worked_in(connection))
    except Exception as error:
        raise usage_error(error, path) from error
    finally:
        with suppress(sqlite3.Error):
            connection.close()


def remove_log(path: Path) -> None:
    """Delete a log's files whole, as where it is damaged; servers that write it begin it anew.

    Raises:
        UsageError: they can't be deleted.
    """
    try:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                os.unlink(f"{path}{suffix}")
    except OSError as error:
        raise usage_error(error, path) from error


def _delete(
    connection: sqlite3.Connection, before_ms: int | None, server: str, tool: str, requests_only: bool
) -> tuple[int, int, int]:
    """Return how many rows of each table were met."""
    times = [("at_ms < ?", before_ms)] if before_ms is not None else []
    servers = [("server = ?", server)] if server else []
    tools = [("tool = ?", tool)] if tool else []
    days = [("day < ?", before_ms // DAY_MS)] if before_ms is not None else []
    verb = "UPDATE {} SET request = ''" if requests_only else "DELETE FROM {}"
    words = [("request <> ?", "")] if requests_only else []
    connection.execute("BEGIN IMMEDIATE")
    try:
        n_calls = _change(connection, verb.format("calls"), [*times, *servers, *tools, *words])
        n_searches = 0 if tool else _change(connection, verb.format("searches"), [*times, *servers, *words])
        n_lists = 0 if requests_only else _change(connection, "DELETE FROM lists", [*days, *servers, *tools])
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    return n_calls, n_searches, n_lists


def _change(connection: sqlite3.Connection, verb: str, conditions: list[tuple[str, int | str]]) -> int:
    where = " AND ".join(condition for condition, _ in conditions) or "1"
    return connection.execute(f"{verb} WHERE {where}", [value for _, value in conditions]).rowcount


def _is_worked_in(connection: sqlite3.Connection) -> bool:
    """Work what was written into the file and empty what held it, once nobody reads the older state of the file."""
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        (is_busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if not is_busy or time.monotonic() > until_s:
            return not is_busy
        time.sleep(0.05)
