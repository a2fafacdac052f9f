"""A program that waits is everybody's who may go on with it, at any of the replicas that share a Redis."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_utilities.access.token_file import revoke_token
from agent_utilities.state.redis_state import RedisState
from tests.access.team import Team
from tests.fleet.processes.replicas import Shared, shared_redis, until
from tests.fleet.test_sessions import Talk
from tests.programs.servers import Tracker
from tests.programs.test_pauses import CALLS, WRITES, said_yes
from tests.server.in_process import web_of
from tests.wire.wires import modern_request

pytest.importorskip("pydantic_monty")
pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.timeout(120)]

RULES = """
[auth]
tokens = "{tokens}"
[[access]]
who = {{ subject = "ann" }}
profile = "all"
[[access]]
who = {{ subject = "bob" }}
profile = "all"
"""
VALUE = '[1,"wrote 3 characters","wrote 3 characters",2]'


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shared]:
    """A Redis of the test's own, which is waited for however busy the machine is."""
    monkeypatch.setattr(RedisState, "wait_s", 60.0)
    with shared_redis(tmp_path) as shared:
        yield shared


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path, RULES)


class Replica:
    """One of several servers that are the same, and what was called at it."""

    def __init__(self, tracker: Tracker, web: httpx2.AsyncClient) -> None:
        self.tracker, self.web = tracker, web

    async def ran(self, who: dict[str, str], code: str = "", **given: Any) -> dict[str, Any]:
        """Return what a program of a caller with a token came to."""
        arguments = {**({"code": code} if code else {}), **given}
        body, routing = modern_request("tools/call", {"name": "run_program", "arguments": arguments})
        answer = await self.web.post("/mcp", json=body, headers={**dict(routing), **who})
        result: dict[str, Any] = answer.json()["result"]
        return result


@asynccontextmanager
async def replicas(shared: Shared, **environ: str) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two replicas."""
    one, other = (Tracker(**shared.environ, **environ) for _ in range(2))
    async with web_of(one.server) as web, web_of(other.server) as web_of_other:
        yield Replica(one, web), Replica(other, web_of_other)


@asynccontextmanager
async def of_team(shared: Shared, team: Team) -> AsyncIterator[tuple[Replica, Replica, dict[str, str]]]:
    """Two replicas of a team's, and one of its members."""
    ann = team.token("ann")
    async with replicas(shared, MCP_CONFIG_FILE=str(team.settings)) as (one, other):
        yield one, other, ann


def text_of(result: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in result["content"])


def handle_in(result: dict[str, Any]) -> str:
    found = re.search(r'resume="(r_\w+)"', text_of(result))
    assert found is not None, text_of(result)
    return found[1]


async def test_it_is_begun_at_one_approved_at_another_and_goes_on_there(shared: Shared, team: Team):
    async with of_team(shared, team) as (one, other, ann):
        handle = handle_in(await one.ran(ann, WRITES))
        assert handle_in(await other.ran(ann, resume=handle)) == handle
        await said_yes(other.tracker.server)
        found = await other.ran(ann, resume=handle)
        again = [await each.ran(ann, resume=handle) for each in (one, other)]
    assert [block["text"] for block in found["content"]] == ["begun\n", VALUE]
    assert sorted(map(str, one.tracker.calls)) == sorted(map(str, CALLS[:2]))
    assert sorted(map(str, other.tracker.calls)) == sorted(map(str, CALLS[2:]))
    assert all("no program waits" in text_of(each) for each in again)


async def test_it_goes_on_in_a_session_that_goes_on_at_another(shared: Shared):
    async with replicas(shared) as (one, other):
        talk = Talk()
        await talk.begin(one.web)
        first = await talk.send(one.web, "tools/call", name="run_program", arguments={"code": WRITES})
        handle = handle_in(first.json()["result"])
        await said_yes(one.tracker.server)
        answer = await talk.send(other.web, "tools/call", name="run_program", arguments={"resume": handle})
        stranger = Talk()
        await stranger.begin(other.web)
        theirs = await stranger.send(other.web, "tools/call", name="run_program", arguments={"resume": handle})
    assert [block["text"] for block in answer.json()["result"]["content"]] == ["begun\n", VALUE]
    assert "no program waits" in text_of(theirs.json()["result"])


async def test_of_two_replicas_that_go_on_with_it_at_once_one_does(shared: Shared, team: Team):
    async with of_team(shared, team) as (one, other, ann):
        for i in range(5):
            handle = handle_in(await one.ran(ann, f"await write(path='{i}', text='a')\nawait count(n={i})"))
            await said_yes(one.tracker.server)
            both = await asyncio.gather(*[each.ran(ann, resume=handle) for each in (one, other)])
            assert sorted(bool(each.get("isError")) for each in both) == [False, True], both
    made = [*one.tracker.calls, *other.tracker.calls]
    assert sorted(call[1] for call in made if call[0] == "write") == ["0", "1", "2", "3", "4"]
    assert len(made) == 10


async def test_nobody_else_goes_on_with_it_at_the_other(shared: Shared, team: Team):
    bob = team.token("bob")
    async with of_team(shared, team) as (one, other, ann):
        handle = handle_in(await one.ran(ann, WRITES))
        await said_yes(one.tracker.server)
        never = "r_" + "a" * 26
        theirs, unknown = [await other.ran(bob, resume=each) for each in (handle, never)]
    assert text_of(theirs).replace(handle, "X") == text_of(unknown).replace(never, "X")
    assert len(one.tracker.calls) == 2
    assert other.tracker.calls == []


async def test_who_can_read_redis_learns_neither_the_program_nor_its_values(shared: Shared, team: Team):
    code = "key = 'pr1vate-of-ann'\nprint('pr1nted')\nr = await labels()\nawait write(path=key, text='pr1vate-text')"
    async with of_team(shared, team) as (one, _, ann):
        handle = handle_in(await one.ran(ann, code))
        told = shared.told()
    assert b"results" in told
    for secret in ("pr1vate", "pr1nted", "labels", "await", handle):
        assert secret.encode() not in told


async def test_what_was_tampered_with_in_redis_is_no_program(shared: Shared, team: Team):
    async with of_team(shared, team) as (one, other, ann):
        handle = handle_in(await one.ran(ann, WRITES))
        await said_yes(one.tracker.server)
        for key in shared.admin.scan_iter("*results*"):
            if shared.admin.type(key) == b"hash":
                piece = shared.admin.hget(key, "0")
                shared.admin.hset(key, "0", piece[:-1] + bytes([piece[-1] ^ 1]))
        found = await other.ran(ann, resume=handle)
    assert "no program waits" in text_of(found)
    assert other.tracker.calls == []


class TestWithoutRedis:
    async def test_what_would_have_to_wait_is_refused_in_the_program_and_not_made(self, shared: Shared, team: Team):
        async with of_team(shared, team) as (one, _, ann):
            shared.kill()
            found = await one.ran(ann, "await count(n=1)\nawait write(path='a', text='b')")
        assert found["isError"]
        assert "can't be kept now" in text_of(found)
        assert one.tracker.calls == [("count", 1)]

    async def test_what_waits_there_says_that_it_may_be_out_of_reach(self, shared: Shared, team: Team):
        async with of_team(shared, team) as (one, other, ann):
            handle = handle_in(await one.ran(ann, WRITES))
            shared.kill()
            for each in (one, other):
                found = await each.ran(ann, resume=handle)
                assert found["isError"]
                assert "can't be read now" in text_of(found)
        assert len(one.tracker.calls) == 2

    async def test_programs_that_need_nothing_of_it_run(self, shared: Shared, team: Team):
        async with of_team(shared, team) as (one, _, ann):
            shared.kill()
            found = await one.ran(ann, "await count(n=1) + 1")
        assert text_of(found) == "2"


async def test_what_one_that_has_gone_had_claimed_is_told_at_the_next(shared: Shared, team: Team):
    code = "await write(path='a', text='b')\nawait wait()"
    async with of_team(shared, team) as (one, other, ann):
        handle = handle_in(await one.ran(ann, code))
        await said_yes(one.tracker.server)
        task = asyncio.ensure_future(one.ran(ann, resume=handle))
        async with asyncio.timeout(20):
            await one.tracker.began.wait()
            meanwhile = await other.ran(ann, resume=handle)
            task.cancel()  # as where its process ends
            await one.tracker.was_cancelled.wait()
        await asyncio.gather(task, return_exceptions=True)
        after = await other.ran(ann, resume=handle)
    for each in (meanwhile, after):
        assert each["isError"]
        assert "it has gone on" in text_of(each)
    assert [*one.tracker.calls, *other.tracker.calls] == [("write", "a", "b"), "wait"]


async def test_a_token_that_is_revoked_meanwhile_goes_on_with_nothing(shared: Shared, team: Team):
    async with of_team(shared, team) as (one, other, ann):
        handle = handle_in(await one.ran(ann, WRITES))
        await said_yes(one.tracker.server)
        revoke_token(team.tokens, "ann")

        async def is_known() -> bool:
            body, routing = modern_request("tools/list")
            return (await other.web.post("/mcp", json=body, headers={**dict(routing), **ann})).status_code == 401

        await until(is_known)
        body, routing = modern_request("tools/call", {"name": "run_program", "arguments": {"resume": handle}})
        answer = await other.web.post("/mcp", json=body, headers={**dict(routing), **ann})
    assert answer.status_code == 401
    assert other.tracker.calls == []


async def test_its_search_for_tools_goes_on_with_it(shared: Shared, team: Team):
    search = "await tool_search(query='issues')"
    code = f"a = {search}\nawait write(path='a', text='b')\nb = {search}\na == b"
    ann = team.token("ann")
    async with replicas(shared, MCP_CONFIG_FILE=str(team.settings), MCP_TOOL_SEARCH="on") as (one, other):
        handle = handle_in(await one.ran(ann, code))
        await said_yes(one.tracker.server)
        found = await other.ran(ann, resume=handle)
    assert text_of(found) == "true"
