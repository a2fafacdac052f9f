"""The SQLite file of a usage log: its tables, opening it for writing and for reading, and deleting rows on request."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from agent_utilities.runtime.process_io import open_regular
from agent_utilities.usage.model import DAY_MS, UsageError, usage_error

APPLICATION_ID = 0x61677574
"""In the file's header: `agut`. A file of another application is left alone."""

VERSION = 1
"""`PRAGMA user_version`; a file of a later one is read by nobody older. What they can leave alone changes none."""

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
_READS = """TABLE reads (
    id INTEGER PRIMARY KEY, server TEXT NOT NULL, tool TEXT NOT NULL, projection TEXT NOT NULL, day INTEGER NOT NULL,
    n_reads INTEGER NOT NULL, n_tokens INTEGER NOT NULL, n_selected INTEGER NOT NULL,
    UNIQUE (server, tool, projection, day))"""
ADDED = (
    "ALTER TABLE calls ADD COLUMN result_tokens INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE calls ADD COLUMN given_tokens INTEGER NOT NULL DEFAULT 0",
    f"CREATE {_READS}",
)
"""What a file without the table `reads` lacks; an older process goes on writing one that has it."""
_SHOWN = (
    "CREATE TEMP VIEW calls AS SELECT *, 0 AS result_tokens, 0 AS given_tokens FROM main.calls",
    f"CREATE TEMP {_READS}",
)
"""The same for a reader, who changes no file."""

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
    """Raise errors of SQLite and of the system as `UsageError`."""
    try:
        yield
    except UsageError:
        raise
    except (sqlite3.Error, OSError) as error:
        raise usage_error(error, path) from error


def check_header(path: Path) -> None:
    """Refuse a file that is neither empty nor a usage log, by its first bytes: SQLite may write what it opens."""
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
    """Return a connection to a log; the file and its folder are created where missing, readable by their user alone.

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
    """Create the tables where there are none, and what was added since; of several processes one does."""
    if not _table_version(connection, path):
        _make_first_tables(connection, path)
    if _lacks_added(connection):
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            for statement in ADDED if _lacks_added(connection) else ():
                connection.execute(statement)


def _lacks_added(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = 'reads'").fetchone() is None


def _make_first_tables(connection: sqlite3.Connection, path: Path) -> None:
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
    """Yield a read-only snapshot of a log, as of the first row that is read; None where nothing was logged yet.

    Only the calling thread may use it.
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
        if not has_tables or not _table_version(connection, path):
            yield None
            return
        for statement in _SHOWN if _lacks_added(connection) else ():
            connection.execute(statement)
        yield connection


@contextmanager
def connected(path: Path, mode: str, busy_s: float) -> Iterator[sqlite3.Connection]:
    """Yield a connection to an existing log, by parameters of SQLite's URI; it waits `busy_s` seconds for locks."""
    with explained(path):
        check_header(path)
        uri = f"{path.absolute().as_uri()}?{mode}"
        with closing(sqlite3.connect(uri, uri=True, timeout=busy_s, isolation_level=None)) as connection:
            yield connection


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
        ("reads", "tool", f"{DAY_MS} * (day + 1) - 1", "''"),
    )
}
"""By table, the condition for the rows that a `Forget` selects; a filter on a missing column selects none."""


@dataclass(frozen=True, slots=True)
class Forget:
    """A filter for rows to delete: all conditions must hold, and without any every row matches.

    Args:
        tool: of this tool alone; searches name none, and stay.
        before_ms: what is older, in UTC epoch milliseconds; of the day on which it falls lists and reads stay.
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
        n_calls, n_searches, n_lists, n_reads: rows that are gone, or that lost their words.
        is_clean: whether every byte is gone; otherwise a reader held the file, and later writes overwrite the bytes.
    """

    n_calls: int
    n_searches: int
    n_lists: int
    n_reads: int = 0
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
        _make_tables(connection, path)
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            n_rows = []
            for table, where in _MEANT.items():
                is_kept = what.words and table in ("calls", "searches")
                change = f"UPDATE {table} SET request = ''" if is_kept else f"DELETE FROM {table}"
                n_rows.append(connection.execute(f"{change} WHERE {where}", asdict(what)).rowcount)
        n_calls, n_searches, n_lists, n_reads = n_rows
        return Forgotten(n_calls, n_searches, n_lists, n_reads, is_clean=_wipe(connection))


def delete_files(path: Path) -> None:
    """Delete a log, such as a damaged one, with SQLite's files; a server that writes it creates a new one."""
    with explained(path):
        for suffix in _SUFFIXES:
            with suppress(FileNotFoundError):
                os.unlink(f"{path}{suffix}")


def _wipe(connection: sqlite3.Connection) -> bool:
    """Vacuum the file and truncate the write-ahead log; return False where another process's lock prevents it.

    SQLite leaves old pages in the write-ahead log until they are overwritten, and remnants in pages that are in use.
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
