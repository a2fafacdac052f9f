"""The tables of a usage log, and their version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    """CREATE TABLE IF NOT EXISTS clock (
        id INTEGER PRIMARY KEY CHECK (id = 1), since_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL)""",
)
"""Columns are the fields of the events; `day` is `at_ms` in whole days of UTC since the epoch.

`clock` is what `agent_utilities.usage.clock` knows of the machine's.
"""

MIGRATIONS: Mapping[int, Sequence[str]] = {}
"""What makes a file of a version one of the next, by that version."""
