"""Usage logs on the disk, as servers leave them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent_utilities.usage.database import open_log
from agent_utilities.usage.model import HOUR_MS, Call, Entry, Search
from agent_utilities.usage.store import insert

NOW_MS = 1_800_000_000_000


def log_of(path: Path, events: Iterable[Entry] = ()) -> Path:
    """Write a log with these events, and return its file."""
    connection = open_log(path)
    write(connection, events)
    connection.close()
    return path


def write(connection: sqlite3.Connection, events: Iterable[Entry]) -> None:
    """Add events in one transaction."""
    connection.execute("BEGIN")
    insert(connection, list(events))
    connection.execute("COMMIT")


def call(tool: str, hours_ago: float = 0, session: str = "s", **more: Any) -> Call:
    """Return a call at the server `hub`."""
    given: dict[str, Any] = {
        "at_ms": int(NOW_MS - hours_ago * HOUR_MS),
        "server": "hub",
        "tool": tool,
        "session": session,
    }
    return Call(**(given | more))


def search(n_found: int, hours_ago: float = 0, **more: Any) -> Search:
    """Return a search at the server `hub`."""
    given: dict[str, Any] = {"at_ms": int(NOW_MS - hours_ago * HOUR_MS), "server": "hub", "n_found": n_found}
    return Search(**(given | more))
