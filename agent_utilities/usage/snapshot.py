"""Reading a usage log while servers write it: all of one moment, and nothing of it is changed or made."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from agent_utilities.usage.errors import usage_error
from agent_utilities.usage.file_format import check_header, table_version

_BUSY_S = 2.0
"""Seconds that a reader waits for whoever keeps the file to himself; writers of a log never do so for long."""
_CAN_NOT_BE_SHARED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


@contextmanager
def snapshot(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Yield a connection that sees a log as it was when the first row was read; None where nothing was logged yet.

    Only the thread that asks for it may use it.

    Raises:
        UsageError: there is a file and it can't be read: it is damaged, locked, of a later version, or no usage log.
    """
    if not os.path.lexists(path):
        yield None
        return
    try:
        check_header(path)
        with closing(_open(path)) as connection:
            yield connection if _has_tables(connection, path) else None
    except (sqlite3.Error, OSError) as error:
        raise usage_error(error, path) from error


def _open(path: Path) -> sqlite3.Connection:
    """Open a log for reading.

    One in a folder that can't be written is read as it stands, where nothing waits beside it to be worked in.
    """
    uri = path.absolute().as_uri()
    try:
        return _begun(f"{uri}?mode=ro")
    except sqlite3.OperationalError as error:
        wal = path.with_name(f"{path.name}-wal")
        if error.sqlite_errorcode & 0xFF not in _CAN_NOT_BE_SHARED or (wal.exists() and wal.stat().st_size):
            raise
        return _begun(f"{uri}?mode=ro&immutable=1")


def _begun(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _has_tables(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether a file is a log with tables; an empty one is about to be.

    Raises:
        UsageError: it is of a later version.
    """
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return False
    table_version(connection, path)
    return True
