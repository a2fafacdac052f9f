"""A session goes on at whichever replica its client's next request comes to, with what was active in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.fleet import sessions
from agent_utilities.fleet.feature import Fleet
from agent_utilities.seam.host import find
from agent_utilities.server.wire import session_limits
from agent_utilities.state.redis_state import RedisState
from tests.access.team import Team
from tests.fleet.processes.replicas import Shared, until
from tests.server.in_process import ask, listed, web_of

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

ABOUT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}


def replica(redis: Shared, **environ: str) -> AgentServer:
    """Return one of several servers that are the same."""
    given = {**redis.environ, "MCP_GRAPH": "off", "MCP_TOOL_SEARCH": "on"}
    server = create_mcp_server("notes", environ={**given, **environ})
    for name in ("read_note", "write_note", "count_notes"):
        server.tool(name=name)(lambda: "done")
    return server


@asynccontextmanager
async def replicas(redis: Shared, n: int = 2, **environ: str) -> AsyncIterator[list[httpx2.AsyncClient]]:
    """Clients of several replicas."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(web_of(replica(redis, **environ))) for _ in range(n)]


class Talk:
    """A client's session, whose requests may go to any replica."""

    def __init__(self) -> None:
        self.headers = {"accept": "application/json, text/event-stream"}
        self._n = 0

    async def send(self, web: httpx2.AsyncClient, method: str, **params: Any) -> httpx2.Response:
        self._n += 1
        body: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if not method.startswith("notifications/"):
            body["id"] = self._n
        answer = await web.post("/mcp", json=body, headers=self.headers)
        if (given := answer.headers.get("mcp-session-id")) is not None:
            self.headers["mcp-session-id"] = given
        return answer

    async def begin(self, web: httpx2.AsyncClient) -> None:
        assert (await self.send(web, "initialize", **ABOUT)).status_code == 200
        assert (await self.send(web, "notifications/initialized")).status_code == 202

    async def call(self, web: httpx2.AsyncClient, name: str) -> httpx2.Response:
        return await self.send(web, "tools/call", name=name, arguments={})

    async def listed(self, web: httpx2.AsyncClient) -> list[str]:
        answer = await self.send(web, "tools/list")
        assert answer.status_code == 200, answer.text
        return [tool["name"] for tool in answer.json()["result"]["tools"]]


async def test_goes_on_at_another_replica_with_what_is_active(redis_here: Shared) -> None:
    async with replicas(redis_here) as (one, other):
        talk = Talk()
        await talk.begin(one)
        assert "write_note" not in await talk.listed(one)
        await talk.call(one, "write_note")
        assert "write_note" in await talk.listed(other)
        await talk.call(other, "count_notes")
        assert {"write_note", "count_notes"} <= set(await talk.listed(one))


async def test_goes_on_from_the_handshake_on(redis_here: Shared) -> None:
    async with replicas(redis_here) as (one, other):
        talk = Talk()
        assert (await talk.send(one, "initialize", **ABOUT)).status_code == 200
        assert (await talk.send(other, "notifications/initialized")).status_code == 202
        assert "read_note" not in await talk.listed(other)


async def test_that_is_unknown_everywhere_is_unknown(redis_here: Shared) -> None:
    async with replicas(redis_here) as (one, _):
        talk = Talk()
        talk.headers["mcp-session-id"] = "0" * 32
        assert (await talk.send(one, "tools/list")).status_code == 404


async def test_that_its_client_ended_is_gone_everywhere(redis_here: Shared) -> None:
    async with replicas(redis_here) as (one, other):
        talk = Talk()
        await talk.begin(one)
        await talk.listed(one)
        assert (await one.delete("/mcp", headers=talk.headers)).status_code == 200
        assert (await talk.send(other, "tools/list")).status_code == 404


async def test_that_its_client_ended_at_another_replica_is_gone_at_once(redis_here: Shared) -> None:
    async with replicas(redis_here) as (one, other):
        talk = Talk()
        await talk.begin(one)
        await talk.call(one, "write_note")
        await talk.listed(other)
        assert (await other.delete("/mcp", headers=talk.headers)).status_code == 200
        assert (await talk.send(one, "tools/list")).status_code == 404
        assert (await talk.send(other, "tools/list")).status_code == 404


async def test_that_its_client_ended_at_another_replica_ends_its_streams(redis_here: Shared) -> None:
    app = replica(redis_here).http_app(host_origin_protection=False)
    one = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1")
    async with app.router.lifespan_context(app), one, web_of(replica(redis_here)) as other:
        talk = Talk()
        await talk.begin(other)
        listening = asyncio.create_task(one.get("/mcp", headers=talk.headers))  # which is answered once it is over
        share = app.state.fastmcp_server.sessions.share
        await until(lambda: bool(share.here))
        assert (await other.delete("/mcp", headers=talk.headers)).status_code == 200
        async with asyncio.timeout(20):
            assert (await listening).status_code == 200


async def test_those_that_their_clients_ended_elsewhere_all_end_however_few_are_looked_at_together(
    redis_here: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_utilities.fleet.sessions._MOST_LOOKED", 2)
    monkeypatch.setattr("agent_utilities.fleet.news.COMPARE_S", 0.05)
    app = replica(redis_here).http_app(host_origin_protection=False)
    one = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1")
    async with app.router.lifespan_context(app), one, web_of(replica(redis_here)) as other:
        talks = [Talk() for _ in range(5)]
        for talk in talks:
            await talk.begin(other)
        listening = [asyncio.create_task(one.get("/mcp", headers=talk.headers)) for talk in talks]
        share = app.state.fastmcp_server.sessions.share
        await until(lambda: len(share.here) == 5)
        for talk in talks[:4]:
            assert (await other.delete("/mcp", headers=talk.headers)).status_code == 200
        async with asyncio.timeout(20):
            assert [(await each).status_code for each in listening[:4]] == [200] * 4
        assert not listening[4].done()
        assert (await one.delete("/mcp", headers=talks[4].headers)).status_code == 200
        await listening[4]


async def test_is_over_for_a_call_under_way_elsewhere_that_ends_later(redis_here: Shared) -> None:
    began, goes_on = asyncio.Event(), asyncio.Event()
    slow = replica(redis_here)

    @slow.tool
    async def wait() -> str:
        began.set()
        await goes_on.wait()
        return "done"

    async with web_of(slow) as one, web_of(replica(redis_here)) as other, web_of(replica(redis_here)) as third:
        talk = Talk()
        await talk.begin(one)
        await talk.call(one, "write_note")
        calling = asyncio.create_task(talk.call(one, "wait"))
        await began.wait()
        assert (await other.delete("/mcp", headers=talk.headers)).status_code == 200
        goes_on.set()
        await asyncio.wait([calling])
        for web in (one, other, third):
            assert (await talk.send(web, "tools/list")).status_code == 404


async def test_that_ended_while_redis_was_gone_is_over_elsewhere_once_it_answers(redis_here: Shared) -> None:
    async with replicas(redis_here) as (one, other):
        talk = Talk()
        await talk.begin(one)
        await talk.listed(other)
        redis_here.kill()
        try:
            assert (await other.delete("/mcp", headers=talk.headers)).status_code == 200
        finally:
            redis_here.start()

        async def is_over() -> bool:
            return (await talk.send(one, "tools/list")).status_code == 404

        await until(is_over)


async def test_that_ended_stays_so_after_redis_lost_that(redis_here: Shared) -> None:
    async with replicas(redis_here) as (one, other):
        talk = Talk()
        await talk.begin(one)
        await talk.listed(other)
        assert (await other.delete("/mcp", headers=talk.headers)).status_code == 200
        redis_here.flush()
        await until(lambda: len(redis_here.admin.keys("agent-utilities:notes:session:*")) == 1)

        async def is_over() -> bool:
            return (await talk.send(one, "tools/list")).status_code == 404

        await until(is_over)


async def test_that_is_gone_on_with_needs_a_place_there(redis_here: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_limits, "N_EACH", 2)
    server = replica(redis_here)
    async with web_of(replica(redis_here)) as one, web_of(server) as other:
        talks = [Talk() for _ in range(3)]
        for talk in talks[:2]:
            await talk.begin(one)
        await talks[2].begin(other)
        await talks[0].listed(other)
        refused = await talks[1].send(other, "tools/list")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, -32000)
        await talks[0].listed(other)  # which has its place
        assert (await other.delete("/mcp", headers=talks[0].headers)).status_code == 200
        await until(lambda: server.sessions.held.total() == 1)
        await talks[1].listed(other)


async def test_is_kept_in_few_bytes_however_long_its_handshake_was(redis_here: Shared) -> None:
    async with replicas(redis_here) as (one, other):
        talk, long = Talk(), "n" * 1_000_000
        about = {**ABOUT, "clientInfo": {"name": long, "version": long}, "capabilities": {"experimental": {long: {}}}}
        assert (await talk.send(one, "initialize", **about)).status_code == 200
        (key,) = redis_here.admin.keys("agent-utilities:notes:session:*")
        assert redis_here.admin.memory_usage(key) < 4_096
        assert "read_note" not in await talk.listed(other)


async def test_of_somebody_else_is_neither_gone_on_with_nor_ended(redis_here: Shared, tmp_path: Path) -> None:
    team = Team(tmp_path)
    ann, bob = team.token("ann"), team.token("bob")
    async with team.web(redis_here.environ) as one, team.web(redis_here.environ) as other:
        talk, stranger = Talk(), Talk()
        talk.headers |= ann
        await talk.begin(one)
        stranger.headers = talk.headers | bob
        assert (await stranger.send(other, "tools/list")).status_code == 404
        assert (await other.delete("/mcp", headers=stranger.headers)).status_code == 404
        assert "git_push" in await talk.listed(other)


async def test_loses_no_step_of_requests_at_several_replicas_at_once(redis_here: Shared) -> None:
    async with replicas(redis_here, 3) as webs:
        talk = Talk()
        await talk.begin(webs[0])
        await talk.listed(webs[0])
        names = ("read_note", "write_note", "count_notes")
        await asyncio.gather(*(talk.call(web, name) for web, name in zip(webs, names, strict=True)))
        assert set(names) <= set(await talk.listed(webs[0]))


async def test_that_somebody_else_wrote_in_redis_is_as_if_it_were_not(redis_here: Shared) -> None:
    async with replicas(redis_here) as (one, other):
        talk = Talk()
        await talk.begin(one)
        await talk.call(one, "write_note")
        (key,) = redis_here.admin.keys("agent-utilities:notes:session:*")
        redis_here.admin.hset(key, "values", b'{"record": {"owner": [], "version": "2025-11-25", "params": {}}}')
        assert (await talk.send(other, "tools/list")).status_code == 404
        assert "write_note" in await talk.listed(one)


async def test_what_is_kept_tells_neither_words_nor_the_clients_id(redis_here: Shared) -> None:
    async with replicas(redis_here) as (one, _):
        talk = Talk()
        await talk.begin(one)
        await talk.send(one, "tools/list", _meta={"agent-utilities/selection": {"query": "my secret plan"}})
        kept = redis_here.told()
    assert talk.headers["mcp-session-id"].encode() not in kept
    assert b"secret plan" not in kept


async def test_goes_on_here_while_redis_is_gone_and_is_told(redis_here: Shared) -> None:
    server = replica(redis_here)
    async with web_of(server) as one:
        talk = Talk()
        await talk.begin(one)
        redis_here.kill()
        try:
            await talk.call(one, "write_note")
            answer = (await talk.send(one, "tools/list")).json()["result"]
            ready = (await one.get("/ready")).json()
        finally:
            redis_here.start()
        told = answer["_meta"]["agent-utilities/selection"]["state"]
        assert "write_note" in [tool["name"] for tool in answer["tools"]]
        assert told["cause"].startswith("redis")
        assert ready["state"]["status"] == "apart"
        fleet = find(server, Fleet)
        assert fleet is not None
        fleet.state._rests_until_s = 0.0  # which is over a second later
        assert "write_note" in await talk.listed(one)
        assert fleet.state.cause == ""
    async with replicas(redis_here) as (other, _):
        assert "write_note" in await talk.listed(other)


async def test_goes_on_everywhere_with_what_is_active_after_redis_lost_what_it_had(redis_here: Shared) -> None:
    async with replicas(redis_here) as (one, other):
        talk = Talk()
        await talk.begin(one)
        await talk.call(one, "write_note")
        redis_here.flush()
        await talk.call(one, "count_notes")
        assert {"write_note", "count_notes"} <= set(await talk.listed(one))
        assert {"write_note", "count_notes"} <= set(await talk.listed(other))


async def test_is_written_back_by_a_replica_that_is_not_asked(redis_here: Shared) -> None:
    async with replicas(redis_here) as (one, other):
        talk = Talk()
        await talk.begin(one)
        await talk.call(one, "write_note")
        redis_here.flush()
        answers = []

        async def is_served() -> bool:
            answers.append(await talk.send(other, "tools/list"))
            return answers[-1].status_code == 200

        await until(is_served)
        assert {answer.status_code for answer in answers[:-1]} <= {503}
        assert "write_note" in await talk.listed(other)


async def test_tells_for_a_while_that_redis_lost_what_it_had_though_it_began_later(redis_here: Shared) -> None:
    def told(answer: httpx2.Response) -> Any:
        return answer.json()["result"]["_meta"]["agent-utilities/selection"].get("state")

    server = replica(redis_here)
    async with web_of(server) as one:
        early, late = Talk(), Talk()
        await early.begin(one)
        assert told(await early.send(one, "tools/list")) is None
        await until(lambda: find(server, Fleet)._news._begun == b"long ago")  # it has looked
        redis_here.flush()
        await until(lambda: len(redis_here.admin.keys("agent-utilities:notes:session:*")) == 1)
        await late.begin(one)
        assert "had nothing" in told(await late.send(one, "tools/list"))["cause"]


async def test_is_not_written_back_once_its_client_ended_it(redis_here: Shared) -> None:
    async with replicas(redis_here) as (one, other):
        ended, talk = Talk(), Talk()
        for each in (ended, talk):
            await each.begin(one)
            await each.call(one, "write_note")
        assert (await one.delete("/mcp", headers=ended.headers)).status_code == 200
        redis_here.flush()
        await until(lambda: len(redis_here.admin.keys("agent-utilities:notes:session:*")) == 2)  # one says it is over
        redis_here.admin.set("agent-utilities:notes:begun", "long ago", ex=1000)
        assert (await ended.send(other, "tools/list")).status_code == 404
        assert "write_note" in await talk.listed(other)


async def test_that_nobody_writes_back_is_unknown_in_the_end(
    redis_here: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_LOST_S", 0.5)
    async with replicas(redis_here) as (one, _):
        talk = Talk()
        talk.headers["mcp-session-id"] = "0" * 32
        redis_here.flush()
        assert (await talk.send(one, "tools/list")).status_code == 503
        redis_here.admin.set("agent-utilities:notes:begun", "long ago", ex=1000)

        async def is_unknown() -> bool:
            return (await talk.send(one, "tools/list")).status_code == 404

        await until(is_unknown)


async def test_is_not_unknown_while_another_replica_may_write_it_back_as_late_as_this_one(redis_here: Shared) -> None:
    server = replica(redis_here)
    async with web_of(server) as one:
        own, others = Talk(), Talk()
        await own.begin(one)
        others.headers["mcp-session-id"] = "0" * 32
        await until(lambda: find(server, Fleet)._news._begun == b"long ago")  # it has looked
        redis_here.flush()
        await until(lambda: find(server, Fleet)._news._begun != b"long ago")  # and has written back
        redis_here.admin.set("agent-utilities:notes:begun", "long ago", ex=1000)
        assert (await others.send(one, "tools/list")).status_code == 503


async def test_goes_on_with_what_its_replica_knows_where_redis_lost_the_last_writes(redis_here: Shared) -> None:
    async with replicas(redis_here) as (one, other):
        talk = Talk()
        await talk.begin(one)
        (key,) = redis_here.admin.keys("agent-utilities:notes:session:*")
        before = redis_here.admin.dump(key)
        await talk.call(one, "write_note")
        redis_here.admin.restore(key, 0, before, replace=True)
        assert "write_note" in await talk.listed(one)
        assert "write_note" in await talk.listed(other)


async def test_that_another_replica_opened_is_not_given_up_while_redis_hangs(
    redis_here: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicas(redis_here) as (one, other):
        talk = Talk()
        await talk.begin(one)
        redis_here.pause()
        monkeypatch.setattr(RedisState, "wait_s", 0.25)
        try:
            refused = await talk.send(other, "tools/list")
        finally:
            redis_here.go_on()
            monkeypatch.setattr(RedisState, "wait_s", 60.0)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    async with replicas(redis_here) as (later, _):
        assert "write_note" not in await talk.listed(later)


async def test_is_refused_where_state_is_required_and_cannot_be_had(redis_here: Shared) -> None:
    async with replicas(redis_here, MCP_STATE="required") as (one, _):
        talk = Talk()
        await talk.begin(one)
        redis_here.kill()
        try:
            await talk.call(one, "write_note")
            refused = (await talk.send(one, "tools/list")).json()
        finally:
            redis_here.start()
    assert "error" in refused


async def test_there_is_none_in_2026_07_28_whose_requests_ask_redis_for_nothing(redis_here: Shared) -> None:
    async with replicas(redis_here) as (one, _):
        redis_here.pause()  # who asks waits a minute
        try:
            async with asyncio.timeout(30):
                assert "tool_search" in await listed(one, "/mcp")
                assert (await ask(one, "/mcp", "server/discover")).status_code == 200
        finally:
            redis_here.go_on()
