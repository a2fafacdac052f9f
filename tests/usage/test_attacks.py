"""Calls that are made, or requests that are worded, so as to move what others are shown: they move it within bounds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from agent_utilities import AgentServer
from agent_utilities.usage.database import Forget, delete_files, forget
from agent_utilities.usage.model import Call, UsageBounds
from agent_utilities.usage.store import UsageStore
from tests.every import every
from tests.usage.test_learning_server import QUERY, learned, office, serving, told, use, written

pytestmark = pytest.mark.anyio

MAILBOX = "round the corner to the mailbox"


def logged(folder: Path, *calls: Call, rows: int = 200_000) -> None:
    """Write calls straight to the log."""
    store = UsageStore(folder / "usage.db", UsageBounds(rows=rows, free_bytes=0))
    for start in range(0, len(calls), 5_000):
        store.write(calls[start : start + 5_000])
        store.prune(int(time.time() * 1000))
    store.close()


def call(tool: str, request: str = "", session: str = "s", at_ms: int | None = None) -> Call:
    now_ms = int(time.time() * 1000)
    return Call(now_ms if at_ms is None else at_ms, "office", tool, session=session, request=request)


class TestFlood:
    async def test_a_tool_that_one_session_calls_without_end_displaces_none_that_words_name(
        self, tmp_path: Path
    ) -> None:
        server = office(tmp_path)
        async with serving(server) as client:
            before = await told(client, top_k=1), await told(client, "sign", top_k=1)
            logged(tmp_path, *[call("post", QUERY)] * 3_000)
            await learned(server)
            after = await told(client, top_k=1), await told(client, "sign", top_k=1)
        assert [answer["ranked"] for answer in before] == [answer["ranked"] for answer in after]

    async def test_calls_of_others_stay_and_teach(self, tmp_path: Path) -> None:
        logged(tmp_path, call("sign", MAILBOX, "other"), rows=1_000)
        logged(tmp_path, *[call("post")] * 5_000, rows=1_000)
        server = office(tmp_path)
        async with serving(server) as client:
            await told(client)
            await learned(server)
            assert (await told(client, MAILBOX))["ranked"][0] == "sign"

    async def test_it_counts_little_more_than_a_few_calls_of_others(self, tmp_path: Path) -> None:
        logged(tmp_path, *[call("post")] * 2_000)
        logged(tmp_path, *(call("sign", session=str(number)) for number in range(20)))
        server = office(tmp_path)
        async with serving(server) as client:
            await told(client)
            await learned(server)
            assert (await told(client))["by_usage"] == ["sign", "post"]


class TestPoison:
    @every("query", ["delete everything", "delete_everything", "please delete everything now"])
    async def test_what_words_name_is_first_whatever_was_made_of_them_before(self, tmp_path: Path, query: str) -> None:
        logged(tmp_path, *(call("post", f"{query} {'x' * number}", str(number)) for number in range(1, 21)))
        server = with_deletion(office(tmp_path))
        async with serving(server) as client:
            await told(client)
            await learned(server)
            assert (await told(client, query))["ranked"][0] == "delete_everything"
            assert (await told(client, query, top_k=1))["ranked"] == ["delete_everything"]

    async def test_a_request_of_odd_characters_fails_nothing(self, tmp_path: Path) -> None:
        server = office(tmp_path)
        async with serving(server) as client:
            for odd in ("\u202eletter\u202c", "letter " * 1_000, "[red]letter[/] <b>x</b>", "'; DROP TABLE calls; --"):
                await told(client, odd)
                await client.call_tool("post")
            await learned(server)
            assert (await told(client))["ranked"][0] == "write_letter"
            assert server.health()["usage"]["n_written"] >= 4


def with_deletion(server: AgentServer) -> AgentServer:
    server.tool(lambda: "done", name="delete_everything", description="Delete everything.")
    return server


class TestForgetting:
    @every("way", ["forgotten", "deleted"])
    async def test_what_was_learned_is_forgotten_with_the_log_while_the_server_runs(
        self, tmp_path: Path, way: str
    ) -> None:
        server = office(tmp_path)
        async with serving(server) as client:
            before = await asked(client)
            await told(client, MAILBOX)
            await use(server, client, "post", "sign")
            assert await asked(client) != before
            if way == "forgotten":
                forget(tmp_path / "usage.db", Forget())
            else:
                delete_files(tmp_path / "usage.db")
            await learned(server)
            assert await asked(client) == before
            await client.call_tool("post")
            await written(server)
            assert server.health()["usage"]["state"] == "logging"


async def asked(client: Client[Any]) -> list[Any]:
    """Return what a session that has called nothing is shown."""
    return [(await told(client, query))["ranked"] for query in (QUERY, f"{MAILBOX} of a letter")]


class TestClock:
    async def test_calls_from_when_the_clock_was_ahead_count_for_nothing(self, tmp_path: Path) -> None:
        ahead_ms = int(time.time() * 1000) + 10 * 365 * 86_400_000
        logged(tmp_path, *(call("post", session=str(number), at_ms=ahead_ms) for number in range(50)), call("sign"))
        server = office(tmp_path)
        async with serving(server) as client:
            await told(client)
            await learned(server)
            assert (await told(client))["by_usage"] == ["sign"]
