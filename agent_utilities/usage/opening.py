"""Opening the file of a usage log: only one of our own, in this version or an earlier one, is ever written."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from agent_utilities.usage import schema
from agent_utilities.usage.errors import usage_error
from agent_utilities.usage.file_format import check_header, table_version

_BUSY_S = 5.0
"""Seconds that a statement waits for other processes."""
_WAL_BYTES = 1 << 20
"""What may be written beside the file before it is worked in, unless somebody reads the older state."""


def open_log(path: Path) -> sqlite3.Connection:
    """Return a connection to a log, which is made where there is none, with a folder of its user's own.

    Only the thread that calls this may use it.

    Raises:
        UsageError: it can't be opened, or is not ours to write.
    """
    try:
        _make(path)
        check_header(path)
        connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
    except Exception as error:
        raise usage_error(error, path) from error
    try:
        _set_up(connection, path)
    except Exception as error:
        connection.close()
        raise usage_error(error, path) from error
    return connection


def _make(path: Path) -> None:
    """Make an empty file that only its user can read, as what SQLite puts beside it then is too."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _set_up(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA secure_delete = ON")
    _make_tables(connection, path)
    _switch_to_wal(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_BYTES // 4096}")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")


def _make_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the tables to this version: of several processes one does, and the others find it done."""
    version = table_version(connection, path)
    if version == schema.VERSION:
        return
    # Not IMMEDIATE, which begins an empty file: how it is vacuumed can't be chosen any more. Nor may that be chosen in
    # a transaction of its own: it begins the file too, and who finds it so takes it for another application's.
    connection.execute("BEGIN" if version == 0 else "BEGIN IMMEDIATE")
    try:
        if version == 0:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        version = table_version(connection, path)
        if version == 0:
            for statement in schema.TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        else:
            for older in range(version, schema.VERSION):
                for statement in schema.MIGRATIONS[older]:
                    connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {schema.VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Have writes go to a file beside the log; SQLite does not wait by itself for others that are about to do so."""
    until_s = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until_s:
                raise
        time.sleep(0.01)
