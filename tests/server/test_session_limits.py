"""Nobody has all sessions of a server: each caller has a share, and is told what would do where it is used up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.seam.caller import address_of
from agent_utilities.server.wire import session_limits
from tests.access.team import Team
from tests.every import every
from tests.fleet.processes.replicas import until
from tests.server.in_process import web_of
from tests.wire.wires import INITIALIZE, modern_request

pytestmark = pytest.mark.anyio

ACCEPT = {"accept": "application/json, text/event-stream"}
N_EACH, N_IDLERS, N_ALL = 3, 2, 7


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have shares be small, since ten thousand sessions take a minute."""
    monkeypatch.setattr(session_limits, "N_EACH", N_EACH)
    monkeypatch.setattr(session_limits, "N_IDLERS", N_IDLERS)
    monkeypatch.setattr(session_limits, "N_ALL", N_ALL)


async def opened(web: httpx2.AsyncClient, n: int = 1, **headers: str) -> list[httpx2.Response]:
    """Return the answers to so many handshakes."""
    return [await web.post("/mcp", json=INITIALIZE, headers={**ACCEPT, **headers}) for _ in range(n)]


def statuses(answers: list[httpx2.Response]) -> list[int]:
    return [answer.status_code for answer in answers]


async def ended(web: httpx2.AsyncClient, answer: httpx2.Response, **headers: str) -> None:
    """End the session that was opened."""
    own = {**ACCEPT, "mcp-session-id": answer.headers["mcp-session-id"], **headers}
    assert (await web.delete("/mcp", headers=own)).status_code == 200


@asynccontextmanager
async def stream(app: Any, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> AsyncIterator[int]:
    """Hold a request open, and yield the status that it is answered with."""
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in {**ACCEPT, **headers}.items()]
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
    began: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    given, left = [{"type": "http.request", "body": body, "more_body": False}], asyncio.Event()

    async def receive() -> dict[str, Any]:
        if given:
            return given.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start" and not began.done():
            began.set_result(message["status"])

    scope |= {"headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), *sent], "root_path": ""}
    serving = asyncio.create_task(app({**scope, "client": ("127.0.0.1", 1), "http_version": "1.1"}, receive, send))
    try:
        async with asyncio.timeout(20):
            yield await began
    finally:
        left.set()
        await asyncio.wait([serving], timeout=20)


class TestAPerson:
    async def test_leaves_room_for_others_and_is_told_what_would_do(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        ann, bob = team.token("ann"), team.token("bob")
        async with team.web() as web:
            *answers, refused = await opened(web, N_EACH + 1, **ann)
            assert statuses(answers) == [200] * N_EACH
            assert (refused.status_code, refused.headers["content-type"]) == (429, "application/json")
            assert refused.json()["error"]["message"].startswith("you have 3 sessions and streams open here")
            assert "DELETE" in refused.json()["error"]["message"]
            assert statuses(await opened(web, **bob)) == [200]

    async def test_has_one_share_whatever_token_or_client_they_come_with(self) -> None:
        tokens = {name: {"client_id": name, "sub": "ann", "iss": "https://login.example"} for name in ("x", "y")}
        server = create_mcp_server("notes", environ={}, auth=StaticTokenVerifier(tokens))
        async with web_of(server) as web:
            assert statuses(await opened(web, N_EACH, authorization="Bearer x")) == [200] * N_EACH
            assert statuses(await opened(web, authorization="Bearer y")) == [429]

    async def test_has_another_than_the_same_subject_of_another_issuer(self) -> None:
        tokens = {name: {"client_id": name, "sub": "ann", "iss": f"https://{name}.example"} for name in ("x", "y")}
        server = create_mcp_server("notes", environ={}, auth=StaticTokenVerifier(tokens))
        async with web_of(server) as web:
            assert statuses(await opened(web, N_EACH, authorization="Bearer x")) == [200] * N_EACH
            assert statuses(await opened(web, authorization="Bearer y")) == [200]

    async def test_opens_another_once_one_has_ended(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        ann = team.token("ann")
        server = team.server()
        async with web_of(server) as web:
            first, *_ = await opened(web, N_EACH, **ann)
            await ended(web, first, **ann)
            await until(lambda: server.sessions.held.total() == N_EACH - 1)
            assert statuses(await opened(web, 2, **ann)) == [200, 429]

    async def test_opens_another_once_one_was_idle_for_too_long(self) -> None:
        server = create_mcp_server("notes", environ={})
        app = server.http_app(host_origin_protection=False, json_response=True, session_idle_timeout=0.5)
        transport = httpx2.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as web,
        ):
            await opened(web, N_EACH)
            await until(lambda: not server.sessions.held)
            assert statuses(await opened(web)) == [200]

    async def test_has_no_more_where_all_come_at_once(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        ann = team.token("ann")
        async with team.web() as web:
            answers = await asyncio.gather(*(opened(web, **ann) for _ in range(3 * N_EACH)))
            assert sorted(status for each in answers for status in statuses(each)) == [200] * 3 + [429] * 6

    async def test_goes_on_with_the_sessions_that_they_have(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        ann = team.token("ann")
        async with team.web() as web:
            *_, last = await opened(web, N_EACH, **ann)
            own = {**ACCEPT, **ann, "mcp-session-id": last.headers["mcp-session-id"]}
            listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
            assert (await web.post("/mcp", json=listing, headers=own)).status_code == 200


class TestWhoMayUseNothing:
    async def test_has_few_together_with_all_others(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        nobody, other, ann = (team.token(name) for name in ("nobody", "other", "ann"))
        async with team.web() as web:
            assert statuses(await opened(web, N_IDLERS, **nobody)) == [200] * N_IDLERS
            (refused,) = await opened(web, **other)
            assert refused.status_code == 429
            assert "may use nothing" in refused.json()["error"]["message"]
            assert statuses(await opened(web, **ann)) == [200]


class TestAnAddress:
    async def test_from_which_nobody_logs_in_leaves_room_for_others(self) -> None:
        app = create_mcp_server("notes", environ={}).http_app(host_origin_protection=False, json_response=True)

        def of(address: str) -> httpx2.AsyncClient:
            transport = httpx2.ASGITransport(app=app, client=(address, 1))
            return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1")

        async with app.router.lifespan_context(app), of("2001:db8::1") as one, of("2001:db8::2") as same:
            assert statuses(await opened(one, N_EACH)) == [200] * N_EACH
            (refused,) = await opened(same)
            assert refused.json()["error"]["message"].startswith("callers from your address have")
            async with of("2001:db8:0:1::1") as other:
                assert statuses(await opened(other)) == [200]

    @every(
        ("address", "network"),
        [
            ("10.0.0.7", "10.0.0.7"),
            ("::ffff:10.0.0.7", "10.0.0.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("testclient", "testclient"),
            ("", ""),
        ],
    )
    def test_is_known_by_what_one_machine_has(self, address: str, network: str) -> None:
        assert address_of({"client": (address, 1)} if address else {}) == network


class TestAll:
    async def test_together_have_no_more_than_there_are(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        people = [team.token(name) for name in ("ann", "bob", "intern-1")]
        async with team.web() as web:
            answers = [answer for who in people for answer in await opened(web, N_EACH, **who)]
            assert statuses(answers) == [200] * N_ALL + [503] * 2
            assert answers[-1].json()["error"]["message"].startswith("all callers have 7 sessions and streams open")


class TestWhatCounts:
    async def test_is_a_session_whose_handshake_was_refused(self) -> None:
        server = create_mcp_server("notes", environ={})
        bad = {"agent-utilities/selection": {"denied_tools": "x"}}
        body = {**INITIALIZE, "params": {**INITIALIZE["params"], "_meta": bad}}
        async with web_of(server) as web:
            refused = await web.post("/mcp", json=body, headers=ACCEPT)
            assert "error" in refused.json()
            assert server.sessions.held.total() == 1

    async def test_is_no_request_that_opens_nothing(self) -> None:
        server = create_mcp_server("notes", environ={})
        async with web_of(server) as web:
            listing, headers = modern_request("tools/list")
            assert (await web.post("/mcp", json=listing, headers=dict(headers))).status_code == 200
            no_session = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
            assert (await web.post("/mcp", json=no_session, headers=ACCEPT)).status_code == 400
            assert not server.sessions.held

    async def test_is_nothing_where_there_are_no_sessions(self) -> None:
        server = create_mcp_server("notes", environ={})
        app = server.http_app(host_origin_protection=False, json_response=True, stateless_http=True)
        transport = httpx2.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as web,
        ):
            assert statuses(await opened(web, N_EACH + 1)) == [200] * (N_EACH + 1)

    @every("kind", ["sse", "listen"])
    async def test_is_a_stream_as_long_as_it_is_open(self, kind: str) -> None:
        server: AgentServer = create_mcp_server("notes", environ={})
        app = server.http_app(host_origin_protection=False)
        how: dict[str, Any] = {"path": "/sse"}
        if kind == "listen":
            body, headers = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            how = {"path": "/mcp", "method": "POST", "body": httpx2.Request("POST", "http://x", json=body).content}
            how |= dict(headers)
        async with app.router.lifespan_context(app):
            async with stream(app, **how) as one, stream(app, **how) as two, stream(app, **how) as three:
                async with stream(app, **how) as more:
                    assert (one, two, three, more) == (200, 200, 200, 429)
            assert not server.sessions.held
