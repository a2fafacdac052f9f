"""Events as rows of the log's tables, whatever their texts and numbers are."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from itertools import islice

from agent_utilities.usage.clock import DAY_MS
from agent_utilities.usage.events import Call, Event, Listed, Search

Row = tuple[str | int | float, ...]

_AT_ONCE = 64
"""Rows of one statement. Every statement lets go of Python's lock and has to get it back, which a busy event loop gives
every 5 ms only: row by row, 200 take a second. Older SQLites take 999 values at once."""
_LARGEST = 2**63 - 1
_INSERTS: dict[type[Event], str] = {
    Call: "INSERT INTO calls (at_ms, server, tool, upstream, version, session, turn, ok, ms, revision, subject, "
    "request) VALUES ",
    Search: "INSERT INTO searches (at_ms, server, n_found, session, subject, request) VALUES ",
}
_LISTED = """INSERT INTO lists (server, tool, upstream, day, n_lists, n_tokens) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (server, tool, day) DO UPDATE
    SET upstream = excluded.upstream, n_lists = n_lists + excluded.n_lists, n_tokens = excluded.n_tokens"""


def insert(connection: sqlite3.Connection, events: Sequence[Event]) -> None:
    """Add events to the tables, in their order; what was listed on one day is one row a tool.

    Raises:
        sqlite3.Error: they can't be written.
    """
    for kind, statement in _INSERTS.items():
        rows = iter([_row(event) for event in events if type(event) is kind])
        while some := list(islice(rows, _AT_ONCE)):
            places = f"({', '.join('?' * len(some[0]))})"
            connection.execute(statement + ", ".join([places] * len(some)), [value for row in some for value in row])
    connection.executemany(_LISTED, [_row(event) for event in events if type(event) is Listed])


def _row(event: Event) -> Row:
    """Return the values of an event's row, in the order of its statement."""
    at_ms, server = _int(event.at_ms), _text(event.server)
    if isinstance(event, Listed):
        day = at_ms // DAY_MS
        return server, _text(event.tool), _text(event.upstream), day, _int(event.n_lists), _int(event.n_tokens)
    who = (_text(event.session), _text(event.subject))
    if isinstance(event, Search):
        return at_ms, server, _int(event.n_found), *who, _text(event.request)
    session, subject = who
    return (
        at_ms,
        server,
        _text(event.tool),
        _text(event.upstream),
        _text(event.version),
        session,
        _int(event.turn),
        int(event.ok),
        event.ms if math.isfinite(event.ms) else 0.0,
        _text(event.revision),
        subject,
        _text(event.request),
    )


def _text(text: str) -> str:
    """Return a text as SQLite takes it: a half of a surrogate pair is replaced."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _int(number: int) -> int:
    return max(-_LARGEST, min(_LARGEST, number))
