"""Usage logs on the disk, as servers leave them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

from agent_utilities.usage import schema
from agent_utilities.usage.events import Call, Event, Listed, Search

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def log_of(path: Path, events: Iterable[Event] = ()) -> Path:
    """Write a log with these events, and return its file."""
    connection = writer(path)
    write(connection, events)
    connection.close()
    return path


def writer(path: Path) -> sqlite3.Connection:
    """Return a connection that writes a log as a server does."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in schema.TABLES:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {schema.VERSION}")
    connection.execute("PRAGMA journal_mode = WAL")
    return connection


def write(connection: sqlite3.Connection, events: Iterable[Event]) -> None:
    """Add events in one transaction."""
    connection.execute("BEGIN")
    for event in events:
        if isinstance(event, Listed):
            row = (event.server, event.tool, event.upstream, event.at_ms // DAY_MS, event.n_lists, event.n_tokens)
            connection.execute("INSERT INTO lists VALUES (?, ?, ?, ?, ?, ?)", row)
            continue
        table = "calls" if isinstance(event, Call) else "searches"
        names = [field.name for field in fields(event)]
        statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
        connection.execute(statement, astuple(event))
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
