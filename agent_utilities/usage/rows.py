"""Events as rows of the log's tables, whatever their texts and numbers are."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType

from agent_utilities.usage.clock import DAY_MS
from agent_utilities.usage.events import Call, Event, Listed, Search

Value = str | int | float
Row = tuple[Value, ...]

_AT_ONCE = 64
"""Rows of one statement. Every statement lets go of Python's lock and has to get it back, which a busy event loop gives
every 5 ms only: row by row, 200 take a second. Older SQLites take 999 values at once."""
_LARGEST = 2**63 - 1
_COLUMNS: Mapping[type[Event], tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        Call: (
            "calls",
            (
                *("at_ms", "server", "tool", "upstream", "version", "session", "turn"),
                *("ok", "ms", "revision", "subject", "request"),
            ),
        ),
        Search: ("searches", ("at_ms", "server", "n_found", "session", "subject", "request")),
    }
)
"""The table of a kind of event, and the fields that are its columns."""
_LISTED = """INSERT INTO lists (server, tool, upstream, day, n_lists, n_tokens) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (server, tool, day) DO UPDATE
    SET upstream = excluded.upstream, n_lists = n_lists + excluded.n_lists, n_tokens = excluded.n_tokens"""


def insert(connection: sqlite3.Connection, events: Sequence[Event]) -> None:
    """Add events to the tables, in their order; what was listed on one day is one row a tool.

    Raises:
        sqlite3.Error: they can't be written.
    """
    for kind, (table, columns) in _COLUMNS.items():
        rows: list[Row] = list(map(attrgetter(*columns), [event for event in events if type(event) is kind]))
        for start in range(0, len(rows), _AT_ONCE):
            _insert(connection, table, columns, rows[start : start + _AT_ONCE])
    listed = [event for event in events if type(event) is Listed]
    connection.executemany(_LISTED, [_cleaned(_row(event)) for event in listed])


def _insert(connection: sqlite3.Connection, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
    places = f"({', '.join('?' * len(columns))})"
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([places] * len(rows))}"
    try:
        connection.execute(statement, [value for row in rows for value in row])
    except (UnicodeEncodeError, OverflowError, sqlite3.IntegrityError):  # one in a million, that the others do not pay
        connection.execute(statement, [value for row in rows for value in _cleaned(row)])


def _row(event: Listed) -> Row:
    return event.server, event.tool, event.upstream, event.at_ms // DAY_MS, event.n_lists, event.n_tokens


def _cleaned(row: Row) -> Row:
    """Return a row as SQLite takes it: no halves of surrogate pairs, no numbers that it has not."""
    return tuple(map(_clean, row))


def _clean(value: Value) -> Value:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int):
        return max(-_LARGEST, min(_LARGEST, value))
    return value if math.isfinite(value) else 0.0
