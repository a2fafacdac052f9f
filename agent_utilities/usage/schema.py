"""The tables of a usage log, and their version."""

from __future__ import annotations

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
"""Columns are the fields of the events; `day` is `at_ms` in whole days of UTC since the epoch."""
