"""Many sessions at once: each call is logged with the words of its own, and a trail dies with its connection."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent_utilities.usage.feature import SessionUse
from tests.query.graph.wrapped import until
from tests.server.servers import over_http
from tests.usage.test_isolated_usage import another
from tests.usage.test_learning_server import office, told

pytestmark = pytest.mark.anyio

N_SESSIONS = 8
WORDS = ("amber", "birch", "cedar", "daisy", "ebony", "fern", "ginger", "hazel")


def words(number: int, turn: int) -> str:
    """Return words that no other session has in no other turn."""
    return f"letter {WORDS[number % 8]} {WORDS[number // 8]} turn {WORDS[turn]}"


async def test_each_call_of_sessions_that_interleave_has_its_own_words(tmp_path: Path) -> None:
    server = office(tmp_path)
    app, client = over_http(server, mode="legacy")

    async def converse(number: int) -> None:
        async with another(client, {}, "legacy") as session:
            for turn in range(3):
                await told(session, words(number, turn))
                await asyncio.sleep(0)
                await session.call_tool(f"other_{turn}")

    async with app.router.lifespan_context(app):
        async with asyncio.TaskGroup() as group:
            for number in range(N_SESSIONS):
                group.create_task(converse(number))
    with closing(sqlite3.connect(tmp_path / "usage.db")) as log:
        rows = log.execute("SELECT session, tool, turn, request FROM calls").fetchall()
    by_session: dict[str, list[tuple[str, int, str]]] = {}
    for session, *row in rows:
        by_session.setdefault(session, []).append(tuple(row))
    expected = {
        tuple((f"other_{turn}", turn + 1, words(number, turn)) for turn in range(3)) for number in range(N_SESSIONS)
    }
    assert {tuple(sorted(calls)) for calls in by_session.values()} == expected
    assert len(by_session) == N_SESSIONS


async def test_trails_go_with_their_connections(tmp_path: Path) -> None:
    server = office(tmp_path)
    app, client = over_http(server, mode="legacy")
    n_before = n_trails()
    async with app.router.lifespan_context(app):
        for _ in range(10):
            async with another(client, {}, "legacy") as session:
                await told(session)
                await session.call_tool("post")
        # What goes on in the background may have been started by one of the last of them.
        await until(lambda: n_trails() < n_before + 5, "trails freed")


def n_trails() -> int:
    """Return how many trails there are, without those that only wait to be collected."""
    gc.collect()
    return sum(type(thing) is SessionUse for thing in gc.get_objects())
