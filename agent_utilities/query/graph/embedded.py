"""The embedded graph: a file for each server in the user's cache folder, with no service to run."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import logging
import os
import re
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from agent_utilities.query.graph.base import GraphError, Statement
from agent_utilities.runtime.waiting import start_in_daemon_thread

_CLOSING_S = 2.0
"""Seconds to wait for a file that is being closed, where a server restarts in one process."""

_locks: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)
"""A lock for each file that this process has open; the engine's own lock excludes other processes alone."""

_OF_THE_FILE = re.compile(
    r"(Runtime|Storage|Catalog|Binder) exception: |Assertion failed in file |.*\bcorrupt", re.DOTALL
)
"""The engine's errors that blame a file's content. Others blame the machine (`IO exception`: no permission, a lock, no
space; `Buffer manager exception`: no memory), or a missing library."""


def is_damage(error: Exception) -> bool:
    """Whether an error at opening blames the file's content.

    The engine has no error class for that: it raises a `RuntimeError` that names the kind, or what C++ throws at an
    invalid length or index. `MemoryError` is not counted, though a damaged length may cause it: short memory is no
    reason to set a good file aside.
    """
    if isinstance(error, RuntimeError):
        return _OF_THE_FILE.match(str(error)) is not None
    return isinstance(error, ValueError | IndexError) and "::" in str(error)  # such as `vector::reserve`


logger = logging.getLogger("agent_utilities.graph")

_T = TypeVar("_T")
_MAX_BYTES = 1 << 30
_POOL_BYTES = 256 << 20
_CHUNK = 50
_SPARE_BYTES = 16 << 20
_LOCKED = "Could not set lock on file"
_NO_SPACE = os.strerror(errno.ENOSPC)
_DDL = (
    "CREATE NODE TABLE IF NOT EXISTS Server(name STRING PRIMARY KEY, digest STRING, updated_at INT64, "
    "gateway STRING, title STRING, description STRING, edges_digest STRING)",
    "CREATE NODE TABLE IF NOT EXISTS CallableResource(key STRING PRIMARY KEY, server STRING, name STRING, "
    "title STRING, description STRING, tags STRING[], digest STRING, kind STRING, read_only BOOL, text STRING, "
    "set_digest STRING)",
    # For a file of a release that did not keep these.
    "ALTER TABLE Server ADD IF NOT EXISTS gateway STRING",
    "ALTER TABLE Server ADD IF NOT EXISTS title STRING",
    "ALTER TABLE Server ADD IF NOT EXISTS description STRING",
    "ALTER TABLE Server ADD IF NOT EXISTS edges_digest STRING",
    "ALTER TABLE CallableResource ADD IF NOT EXISTS text STRING",
    "ALTER TABLE CallableResource ADD IF NOT EXISTS set_digest STRING",
    "CREATE REL TABLE IF NOT EXISTS PROVIDES(FROM Server TO CallableResource)",
    "CREATE REL TABLE IF NOT EXISTS USED_WITH(FROM CallableResource TO CallableResource, n INT64, scope STRING)",
    "CREATE REL TABLE IF NOT EXISTS FOLLOWED_BY(FROM CallableResource TO CallableResource, n INT64, scope STRING)",
)


class EmbeddedGraph:
    """The tool graph on ladybug, in a file, or in memory where the file can't be used.

    That is where another process or graph holds it, or its disk is full or read-only; it costs a fill at start.

    A kill in a write can leave a torn record at the end of the engine's log; what was committed before it is used. A
    damaged file is set aside, never deleted, and replaced by an empty one, which the next refresh fills.
    `graph/README.md` says how often that happens.

    Args:
        path: the database file, or None for memory only.
        or_memory: whether to fall back to memory; else `open` raises `GraphError`.
    """

    backend = "embedded"

    def __init__(self, path: Path | None, *, or_memory: bool = True) -> None:
        self.path = path
        self._or_memory = or_memory
        self._lock: threading.Lock | None = None
        self._opening: Future[None] | None = None
        self._is_wanted = False
        self._database: Any = None
        self._reader: Any = None
        self._writer: Any = None
        # One thread a connection: the engine runs one statement at a time on each.
        self._reading = ThreadPoolExecutor(1, "graph-read")
        self._writing = ThreadPoolExecutor(1, "graph-write")

    async def open(self) -> None:
        """Open the file or memory, and create the tables.

        That can't be stopped: it goes on where the caller is cancelled, and `close` waits for it; where `close` is
        cancelled too, the database is closed as soon as it is open.
        """
        self._is_wanted = True
        while True:
            if self._opening is None or self._opening.done():
                if self._database is not None:
                    return
                self._opening = start_in_daemon_thread(self._open)
            await _or_graph_error(asyncio.shield(asyncio.wrap_future(self._opening)))

    def _check_space(self) -> None:
        """Raise `OSError` where space is short: the engine would end the process when a write fails."""
        if self.path is not None and shutil.disk_usage(self.path.parent).free < _SPARE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    async def close(self) -> None:
        """Close the database, once it is open; interrupts running statements."""
        self._is_wanted = False
        if self._opening is not None:
            opening, self._opening = asyncio.wrap_future(self._opening), None
            await asyncio.wait([opening])
            opening.exception()  # `open` has raised it
        database, self._database = self._database, None
        if database is not None:
            try:
                self._check_space()
            except OSError:
                return self._abandon(database)
            await asyncio.get_running_loop().run_in_executor(None, self._close, database)

    async def read(self, statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """Run a read-only statement and return its rows, by column name."""
        loop = asyncio.get_running_loop()
        return await _or_graph_error(loop.run_in_executor(self._reading, self._read, statement, parameters))

    async def write(self, statements: Iterable[Statement]) -> None:
        """Run statements in one transaction; where the disk is full, once more in memory."""
        await _or_graph_error(asyncio.get_running_loop().run_in_executor(self._writing, self._write, statements))

    def _read(self, statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        self._reader.execute("BEGIN TRANSACTION READ ONLY")
        try:
            return _rows(self._reader.execute(statement, parameters))
        finally:
            self._reader.execute("ROLLBACK")

    def _open(self) -> None:
        import ladybug  # noqa: F401 - a missing engine is no fault of the file

        if self.path is None:
            self._use(":memory:")
        else:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._check_space()
                self._hold(self.path)
                self._use_file(self.path)
            except Exception as error:
                self._release()
                self._use_memory(f"can't use {self.path}", error)
        if not self._is_wanted:
            database, self._database = self._database, None
            self._close(database)

    def _hold(self, path: Path) -> None:
        """Lock a file within this process; blocks while another graph closes it."""
        lock = _locks[path.resolve()]
        if not lock.acquire(timeout=_CLOSING_S):
            raise GraphError("busy", "this process has it open already")
        self._lock = lock

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def _use_file(self, path: Path) -> None:
        """Open the file; a damaged one is renamed with its companions, and made anew.

        The file itself is renamed last: the engine would apply a log without its file to the new database.
        """
        try:
            return self._use(str(path))
        except Exception as error:
            if not (path.is_file() and is_damage(error)):
                raise
            damage = error
        aside = path.with_name(f"{path.name}.corrupt-{time.time_ns()}")
        for companion in path.parent.glob(f"{path.name}.*"):
            rest = companion.name.removeprefix(path.name)
            if not rest.startswith(".corrupt-"):
                companion.rename(aside.with_name(aside.name + rest))
        path.rename(aside)
        logger.warning("graph file %s is corrupt (%s); set aside as %s and made anew", path, _reason(damage), aside)
        self._use(str(path))

    def _use_memory(self, what: str, error: Exception) -> None:
        if not self._or_memory:
            is_busy = _LOCKED in str(error) or (isinstance(error, GraphError) and error.cause == "busy")
            raise GraphError("busy" if is_busy else "failed", f"{what}: {error}") from error
        logger.warning("%s (%s); the graph is in memory until the next start", what, _reason(error))
        self.path = None
        self._use(":memory:")

    def _use(self, where: str) -> None:
        """Open a database and create its tables; its log is read up to a torn record."""
        import ladybug

        database = ladybug.Database(
            where, max_db_size=_MAX_BYTES, buffer_pool_size=_POOL_BYTES, throw_on_wal_replay_failure=False
        )
        try:
            writer = ladybug.Connection(database)
            for statement in _DDL:
                writer.execute(statement)
            reader = ladybug.Connection(database)
        except Exception:
            database.close()
            raise
        self._database, self._writer, self._reader = database, writer, reader

    def _close(self, database: Any) -> None:
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()
        for executor in (self._reading, self._writing):
            executor.submit(lambda: None).result()  # waits for a running statement
        self._reader = self._writer = None
        try:
            database.close()
        finally:
            self._release()

    def _write(self, statements: Iterable[Statement]) -> None:
        try:
            self._check_space()
            self._transact(statements)
        except Exception as error:
            if self.path is None or _NO_SPACE not in str(error):
                raise
            self._abandon(self._database)
            self._use_memory(f"can't write {self.path}", error)
            self._transact(statements)

    def _abandon(self, database: Any) -> None:
        """Leak a database: closing it writes, and on a full disk that would end the process."""
        self._lock = None  # the file stays locked
        for leaked in (database, self._reader, self._writer):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(leaked))

    def _transact(self, statements: Iterable[Statement]) -> None:
        self._writer.execute("BEGIN TRANSACTION")
        try:
            for statement, parameters in statements:
                self._writer.execute(statement, parameters)
            self._writer.execute("COMMIT")
        except Exception:
            try:
                self._writer.execute("ROLLBACK")
            except Exception as error:
                logger.debug("rollback: %s", error)
            raise


async def _or_graph_error(call: Awaitable[_T]) -> _T:
    try:
        return await call
    except GraphError:
        raise
    except Exception as error:  # the engine has no class of errors of its own
        raise GraphError("failed", error) from error


def _reason(error: Exception) -> str:
    """Return the engine's message on one line, without its link."""
    return re.sub(r"\s+", " ", str(error)).split("See the docs")[0].strip()


def _rows(result: Any) -> list[dict[str, Any]]:
    """Fetch in chunks: the engine holds the interpreter while it converts, and the event loop must get its turn."""
    columns = result.get_column_names()
    rows: list[dict[str, Any]] = []
    while result.has_next():
        rows += [dict(zip(columns, row, strict=True)) for row in result.get_n(_CHUNK)]
    return rows
