"""Who is refused over HTTP is told why by their client of MCP: the body is an error of the protocol."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from agent_utilities import AgentServer
from agent_utilities.server.wire import session_limits
from tests.access.team import Team, bearing
from tests.every import every
from tests.server.servers import log_server
from tests.wire.wires import jsonrpc, modern_request

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
REFUSED = {
    "/mcp?tool=x": (400, "tool", "did you mean tools"),
    "/mcp?top_k=abc": (400, "abc", "use a whole number from 1 up"),
    "/mcp/x/nonesuch": (404, "nonesuch", "leave /x/"),
    "http://evil.example/mcp": (421, "evil.example", "--allowed-hosts evil.example"),
}


@asynccontextmanager
async def web_of(mcp: AgentServer) -> AsyncIterator[httpx2.AsyncClient]:
    app = mcp.http_app(json_response=True)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as web,
    ):
        yield web


@every("mode", ["auto", "legacy", "2026-07-28"])
@every("url", list(REFUSED))
async def test_a_client_says_why(mode: str, url: str) -> None:
    app = log_server().http_app()

    def connect(*_: Any, **options: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(**{"transport": httpx2.ASGITransport(app=app), "timeout": None, **options})

    transport = StreamableHttpTransport(str(httpx2.URL("http://localhost").join(url)), httpx_client_factory=connect)
    async with app.router.lifespan_context(app):
        with pytest.raises(Exception, match=re.escape(REFUSED[url][2])):
            async with Client(transport, mode=mode) as client:
                await client.list_tools()


class TestTheBody:
    @every("url", list(REFUSED))
    @every("id_", [7, "seven", 0, ""])
    async def test_has_the_requests_id_a_sentence_and_its_parts(self, url: str, id_: object) -> None:
        body, routing = modern_request("tools/list")
        async with web_of(log_server()) as web:
            answer = await web.post(url, json={**body, "id": id_}, headers=dict(routing))
        status, value, hint = REFUSED[url]
        told = answer.json()
        assert (answer.status_code, told["jsonrpc"], told["id"]) == (status, "2.0", id_)
        assert answer.headers["content-type"] == "application/json"
        error = told["error"]
        assert set(error) == {"code", "message", "data"}
        assert (set(error["data"]), error["data"]["value"]) == ({"what", "value", "source", "hint"}, value)
        assert all(part in error["message"] for part in (value, hint, error["data"]["what"], error["data"]["source"]))

    @every(
        "content",
        [
            json.dumps([jsonrpc("tools/list"), jsonrpc("ping")]).encode(),
            json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode(),
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools',
            json.dumps({**jsonrpc("tools/list"), "id": {"a": 1}}).encode(),
            json.dumps({**jsonrpc("tools/list"), "id": True}).encode(),
            json.dumps({**jsonrpc("tools/call"), "params": {"text": "x" * 200_000}}).encode(),
            b'{"jsonrpc":' + b"[" * 60_000,
        ],
    )
    async def test_has_no_id_where_none_can_be_read(self, content: bytes) -> None:
        async with web_of(log_server()) as web:
            answer = await web.post("/mcp?tool=x", content=content, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["id"]) == (400, None)
        assert "did you mean tools" in answer.json()["error"]["message"]

    @every(
        ("method", "path"), [("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/tools"), ("GET", "/sse"), ("POST", "/mcp")]
    )
    async def test_is_as_it_was_where_no_message_came(self, method: str, path: str) -> None:
        async with web_of(log_server()) as web:
            answer = await web.request(method, f"{path}?tool=x")
        assert (answer.status_code, set(answer.json()["error"])) == (400, {"what", "value", "source", "hint"})

    async def test_of_a_token_that_lets_nobody_in_says_so_beside_its_challenge(self, tmp_path: Path) -> None:
        body, routing = modern_request("tools/list")
        async with web_of(Team(tmp_path).server()) as web:
            answer = await web.post("/mcp", json=body, headers={**dict(routing), **bearing("nobodys")})
        assert (answer.status_code, answer.json()["id"]) == (401, body["id"])
        assert answer.json()["error"]["data"]["error"] == "invalid_token"
        assert answer.json()["error"]["message"] == answer.json()["error"]["data"]["error_description"]
        assert answer.headers["www-authenticate"].startswith("Bearer ")

    @every(
        ("full", "status", "whose"), [("N_EACH", 429, "callers from your address have"), ("N_ALL", 503, "all callers")]
    )
    async def test_of_who_has_no_room_says_what_would_do(self, full: str, status: int, whose: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(session_limits, full, 0)
            async with web_of(log_server()) as web:
                answer = await web.post("/mcp", json=jsonrpc("initialize"))
                metrics = (await web.get("/metrics")).text
        error = answer.json()["error"]
        assert (answer.status_code, answer.headers["retry-after"], error["code"]) == (status, "60", -32000)
        assert answer.json()["id"] == jsonrpc("initialize")["id"]
        assert error["message"] == error["data"]["error_description"]
        assert error["message"].startswith(whose)
        assert "DELETE" in error["message"]
        assert f'mcp_refused_requests_total{{status="{status}"}} 1.0' in metrics

    async def test_of_a_strangers_page_names_its_origin(self) -> None:
        async with web_of(log_server()) as web:
            headers = {"origin": "http://evil.example"}
            answer = await web.post("/mcp", json=jsonrpc("tools/list"), headers=headers)
        error = answer.json()["error"]
        assert (answer.status_code, answer.json()["id"]) == (403, jsonrpc("tools/list")["id"])
        assert (error["code"], error["data"]["value"]) == (-32600, "http://evil.example")
        assert "--allowed-origins http://evil.example" in error["message"]


async def test_it_is_logged_and_counted_and_a_flood_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    body, routing = modern_request("tools/list")
    with caplog.at_level(logging.INFO, "agent_utilities.http"):
        async with web_of(log_server()) as web:
            for _ in range(2):
                for i in range(100):
                    await web.post(f"/mcp?top_k=x{i}", json=body, headers=dict(routing))
            await web.get("/tools", headers={"host": "evil.example"})
            metrics = (await web.get("/metrics")).text
    lines = [record.getMessage() for record in caplog.records if record.name == "agent_utilities.http"]
    assert lines[0] == "not a positive integer: 'x0' (from query top_k); use a whole number from 1 up, such as 5"
    assert len(lines) == len(set(lines)) == 16
    assert 'mcp_refused_requests_total{status="400"} 200.0' in metrics
    assert 'mcp_refused_requests_total{status="421"} 1.0' in metrics
