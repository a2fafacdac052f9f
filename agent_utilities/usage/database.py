"""The file of a usage log: its tables, and opening it, to write it or to read it while servers write it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from agent_utilities.runtime.process_io import open_regular
from agent_utilities.usage.model import UsageError, usage_error

APPLICATION_ID = 0x61677574
"""In the file's header: `agut`. A file of another application is left alone."""

VERSION = 1
"""`PRAGMA user_version`; a file of a later one is read by nobody older."""

TABLES = (
    """CREATE TABLE IF NOT EXISTS calls (
        id INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, server TEXT NOT NULL, tool TEXT NOT NULL,
        upstream TEXT NOT NULL, version TEXT NOT NULL, session TEXT NOT NULL, turn INTEGER NOT NULL,
        ok INTEGER NOT NULL, ms REAL NOT NULL, revision TEXT NOT NULL, subject TEXT NOT NULL, request TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS searches (
        id INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, server TEXT NOT NULL, n_found INTEGER NOT NULL,
        session TEXT NOT NULL, subject TEXT NOT NULL, request TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS lists (
        server TEXT NOT NULL, tool TEXT NOT NULL, upstream TEXT NOT NULL, day INTEGER NOT NULL,
        n_lists INTEGER NOT NULL, n_tokens INTEGER NOT NULL, PRIMARY KEY (server, tool, day)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS calls_by_time ON calls (server, at_ms)",
)
"""Columns are the fields of the events; `day` is `at_ms` in whole days of UTC since the epoch.

A later version brings its tables over from this one where `_make_tables` finds an older `user_version`.
"""

_MAGIC = b"SQLite format 3\0"
_APPLICATION = slice(68, 72)  # of the header, big-endian
_WRITER_BUSY_S = 5.0
"""Seconds that a writer's statement waits for other processes."""
_READER_BUSY_S = 2.0
"""Seconds that a reader waits for a process that keeps the file to itself; servers never do so for long."""
_WAL_BYTES = 1 << 20
"""What may be written beside the file before it is worked in, unless somebody reads the older state."""


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise what SQLite and the system raise as an error of a usage log."""
    try:
        yield
    except UsageError:
        raise
    except (sqlite3.Error, OSError) as error:
        raise usage_error(error, path) from error


def check_header(path: Path) -> None:
    """Check by a file's first bytes that it is a usage log, or empty; SQLite might write to one that it opens."""
    with open_regular(path) as file:
        header = file.read(_APPLICATION.stop)
    application = int.from_bytes(header[_APPLICATION], "big")
    if header and (not header.startswith(_MAGIC) or application != APPLICATION_ID):
        raise UsageError("foreign", path)


def _table_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of a log's tables; 0 where it has none yet."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise UsageError("newer", path, f"version {version}, not {VERSION}")
    return version


def open_log(path: Path) -> sqlite3.Connection:
    """Return a connection to a log, which is made where there is none, with a folder of its user's own.

    One thread may use it at a time.
    """
    with explained(path):
        if not path.exists():  # made empty, so that only its user can read it and what SQLite puts beside it
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        check_header(path)
        connection = sqlite3.connect(path, timeout=_WRITER_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA secure_delete = ON")
            _make_tables(connection, path)
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_BYTES // 4096}")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        except BaseException:
            connection.close()
            raise
    return connection


def _make_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables where there are none: of several processes one does, and the others find it done."""
    if _table_version(connection, path):
        return
    # Not IMMEDIATE, which begins an empty file: how it is vacuumed can't be chosen any more. Nor may that be chosen in
    # a transaction of its own: it begins the file too, and who finds it so takes it for another application's.
    connection.execute("BEGIN")
    with connection:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        if _table_version(connection, path):
            return
        for statement in TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


@contextmanager
def snapshot(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Yield a connection that sees a log as it was when the first row was read; None where nothing was logged yet.

    Nothing of the log is changed or made. Only the thread that asks for it may use it.
    """
    if not os.path.lexists(path):
        yield None
        return
    # One in a folder that can't be written is read as it stands, where no server has it open.
    is_still = not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()
    with connected(path, "mode=ro&immutable=1" if is_still else "mode=ro", _READER_BUSY_S) as connection:
        connection.execute("BEGIN")
        # A file without tables is about to get them.
        has_tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        yield connection if has_tables and _table_version(connection, path) else None


@contextmanager
def connected(path: Path, mode: str, busy_s: float) -> Iterator[sqlite3.Connection]:
    """Yield a connection to a log that is there, by SQLite's parameters of a URI, waiting so long for others."""
    with explained(path):
        check_header(path)
        uri = f"{path.absolute().as_uri()}?{mode}"
        with closing(sqlite3.connect(uri, uri=True, timeout=busy_s, isolation_level=None)) as connection:
            yield connection
