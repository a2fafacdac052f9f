"""The embedded graph: a file for each server in the user's cache folder, with no service to run."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from agent_utilities.graph.base import GraphError, Statement

logger = logging.getLogger("agent_utilities.graph")

_T = TypeVar("_T")
_MAX_BYTES = 1 << 30
_POOL_BYTES = 256 << 20
_CHUNK = 50
_SPARE_BYTES = 16 << 20
_DDL = (
    "CREATE NODE TABLE IF NOT EXISTS Server(name STRING PRIMARY KEY, digest STRING, updated_at INT64)",
    "CREATE NODE TABLE IF NOT EXISTS CallableResource(key STRING PRIMARY KEY, server STRING, name STRING, "
    "title STRING, description STRING, tags STRING[], digest STRING, kind STRING, read_only BOOL, text STRING, "
    "set_digest STRING)",
    # For a file of a release that did not keep these.
    "ALTER TABLE CallableResource ADD IF NOT EXISTS text STRING",
    "ALTER TABLE CallableResource ADD IF NOT EXISTS set_digest STRING",
    "CREATE REL TABLE IF NOT EXISTS PROVIDES(FROM Server TO CallableResource)",
)


class EmbeddedGraph:
    """The tool graph on ladybug, in a file or in memory.

    In memory where the file can't be used: another process holds it, or its disk is full or read-only; that costs
    nothing but a fill at start. A file that is no database is set aside, never deleted, and made anew.

    Args:
        path: the database file, or None for memory only.
        or_memory: whether memory will do where the file can't be used; else `open` raises `GraphError`.
    """

    backend = "embedded"

    def __init__(self, path: Path | None, *, or_memory: bool = True) -> None:
        self.path = path
        self._or_memory = or_memory
        self._database: Any = None
        self._reader: Any = None
        self._writer: Any = None
        # One thread a connection: the engine runs one statement at a time on each.
        self._reading = ThreadPoolExecutor(1, "graph-read")
        self._writing = ThreadPoolExecutor(1, "graph-write")

    async def open(self) -> None:
        """Open the file, or memory where it can't be used, and make the tables."""
        if self._database is None:
            await self._in(self._writing, self._open)

    def _check_space(self) -> None:
        """The engine ends the whole process when a write fails for want of space, so it is looked for before.

        Raises:
            OSError: the disk is as good as full.
        """
        if self.path is not None and shutil.disk_usage(self.path.parent).free < _SPARE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    async def close(self) -> None:
        """Close the database; statements that still run are interrupted."""
        database, self._database = self._database, None
        if database is not None:
            try:
                self._check_space()
            except OSError:
                return self._abandon(database)
            await asyncio.get_running_loop().run_in_executor(None, self._close, database)

    async def read(self, statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """Run a read-only statement and return its rows, by column name."""
        return await self._in(self._reading, lambda: self._read(statement, parameters))

    async def write(self, statements: Sequence[Statement]) -> None:
        """Run statements in one transaction; where the disk is full, once more in memory."""
        await self._in(self._writing, lambda: self._write(statements))

    async def _in(self, executor: ThreadPoolExecutor, call: Callable[[], _T]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(executor, call)
        except GraphError:
            raise
        except Exception as error:  # the engine raises RuntimeError for everything
            raise GraphError("failed", error) from error

    def _read(self, statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        self._reader.execute("BEGIN TRANSACTION READ ONLY")
        try:
            return _rows(self._reader.execute(statement, parameters))
        finally:
            self._reader.execute("ROLLBACK")

    def _open(self) -> None:
        if self.path is None:
            return self._use(":memory:")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._check_space()
            self._use(str(self.path))
        except Exception as error:
            if self._is_damaged(error):
                self._set_aside(error)
            else:
                self._use_memory(f"can't use {self.path}", error)

    def _is_damaged(self, error: Exception) -> bool:
        """Whether the file itself is to blame: it is there, can be written, and no other process holds it."""
        if self.path is None or isinstance(error, OSError) or "lock" in str(error).lower():
            return False
        return self.path.is_file() and os.access(self.path, os.R_OK | os.W_OK)

    def _set_aside(self, error: Exception) -> None:
        assert self.path is not None
        aside = self.path.with_name(f"{self.path.name}.corrupt-{time.time_ns()}")
        try:
            self.path.rename(aside)
            logger.warning("graph file %s is corrupt (%s); set aside as %s and made anew", self.path, error, aside)
            for rest in self.path.parent.glob(f"{self.path.name}.*"):
                if ".corrupt-" not in rest.name:
                    rest.rename(aside.with_name(f"{aside.name}{rest.suffix}"))
            self._use(str(self.path))
        except Exception as second:
            self._use_memory(f"can't make {self.path} anew", second)

    def _use_memory(self, what: str, error: Exception) -> None:
        if not self._or_memory:
            raise GraphError("busy" if "lock" in str(error).lower() else "failed", f"{what}: {error}") from error
        reason = re.sub(r"\s+", " ", str(error)).split("See the docs")[0].strip()
        logger.warning("%s (%s); the graph is in memory until the next start", what, reason)
        self.path = None
        self._use(":memory:")

    def _use(self, where: str) -> None:
        import ladybug

        database = ladybug.Database(where, max_db_size=_MAX_BYTES, buffer_pool_size=_POOL_BYTES)
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
            executor.shutdown(wait=True)
        self._reader = self._writer = None
        database.close()
        self._reading = ThreadPoolExecutor(1, "graph-read")
        self._writing = ThreadPoolExecutor(1, "graph-write")

    def _write(self, statements: Sequence[Statement]) -> None:
        try:
            self._check_space()
            self._transact(statements)
        except Exception as error:
            if self.path is None or "space" not in str(error).lower():
                raise
            self._abandon(self._database)
            self._use_memory(f"can't write {self.path}", error)
            self._transact(statements)

    def _abandon(self, database: Any) -> None:
        """Leave a database open for good: closing it writes, and on a full disk that would end the process."""
        for each in (database, self._reader, self._writer):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))

    def _transact(self, statements: Sequence[Statement]) -> None:
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


def _rows(result: Any) -> list[dict[str, Any]]:
    """Fetch in chunks: the engine holds the interpreter while it converts, and the event loop must get its turn."""
    columns = result.get_column_names()
    rows: list[dict[str, Any]] = []
    while result.has_next():
        rows += [dict(zip(columns, row, strict=True)) for row in result.get_n(_CHUNK)]
    return rows
