"""Whether a file is a usage log that this version can read or write, before anything is done to it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from agent_utilities.usage import schema
from agent_utilities.usage.errors import UsageError

_MAGIC = b"SQLite format 3\0"
_APPLICATION = slice(68, 72)  # of the header, big-endian


def check_header(path: Path) -> None:
    """Check by a file's first bytes that it is a usage log, or empty; SQLite might write to one that it opens.

    Raises:
        OSError: it can't be read.
        UsageError: `foreign`: it is something else.
    """
    with open(path, "rb") as file:
        header = file.read(_APPLICATION.stop)
    application = int.from_bytes(header[_APPLICATION], "big")
    if header and (not header.startswith(_MAGIC) or application != schema.APPLICATION_ID):
        raise UsageError("foreign", path)


def table_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of a log's tables; 0 where it has none yet.

    Raises:
        UsageError: `newer`: it is of a later version than this one knows.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > schema.VERSION:
        raise UsageError("newer", path, f"version {version}, not {schema.VERSION}")
    return version
