"""Web pages of named origins may call MCP and read every answer; no other page may, and they may nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from agent_utilities import AgentServer
from tests.access.team import Team
from tests.every import every
from tests.server.servers import log_server
from tests.server.test_merged_routes import MERGED
from tests.wire.raw_clients import HELLO
from tests.wire.wires import jsonrpc, modern_request

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
ORIGIN, STRANGER, BESIDE = "https://app.example", "https://evil.example", "http://localhost:3000"
NAMED = {"MCP_ALLOWED_ORIGINS": f"{ORIGIN},http://*.lan:81"}
ASKED = "authorization,content-type,mcp-protocol-version,mcp-session-id,mcp-method,x-mcp-tools,last-event-id"
WAYS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda app: app,
    "mounted": lambda app: Starlette(routes=[Mount("/api", app)]),
    **{way: merged for way, merged in MERGED.items() if way != "into another server's"},  # whose own guard holds
}
MCP = ["/mcp", "/mcp/x/read", "/sse", "/messages/?session_id=1", "/mcp?tool=x"]
NOT_MCP = ["/", "/page/static/page.js", "/page/login", "/tools", "/health", "/ready", "/metrics", "/context"]


def preflight(method: str = "POST", **more: str) -> dict[str, str]:
    return {"access-control-request-method": method, "access-control-request-headers": ASKED, **more}


@asynccontextmanager
async def web_of(mcp: AgentServer, way: str = "itself", **given: Any) -> AsyncIterator[tuple[httpx2.AsyncClient, str]]:
    app = mcp.http_app(json_response=True, **given)
    transport = httpx2.ASGITransport(app=WAYS[way](app))
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=9) as web,
    ):
        yield web, "/api" if way in ("mounted", "below a path") else ""


def opened(answer: httpx2.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


class TestAPreflight:
    @every("way", list(WAYS))
    @every("path", ["/mcp", "/sse", "/messages/?session_id=1"])
    @every("auth", [False, True])
    async def test_of_a_named_origin_is_answered(self, way: str, path: str, auth: bool, tmp_path: Path) -> None:
        mcp = Team(tmp_path).server(NAMED) if auth else log_server(environ=NAMED)
        async with web_of(mcp, way) as (web, root):
            answer = await web.options(root + path, headers={"origin": ORIGIN, **preflight()})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, ORIGIN)
        assert answer.headers["access-control-allow-headers"] == ASKED
        assert {"GET", "POST", "DELETE"} == set(answer.headers["access-control-allow-methods"].split(", "))
        assert "origin" in answer.headers["vary"].lower()
        assert "access-control-allow-credentials" not in answer.headers

    @every("path", ["/mcp/x/read", "/mcp/", "/sse/x/read"])
    async def test_of_a_path_with_a_selection_is_answered(self, path: str) -> None:
        async with web_of(log_server(environ=NAMED)) as (web, _):
            answer = await web.options(path, headers={"origin": ORIGIN, **preflight("DELETE")})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, ORIGIN)

    async def test_for_a_private_network_is_answered(self) -> None:
        headers = {"origin": ORIGIN, **preflight(**{"access-control-request-private-network": "true"})}
        async with web_of(log_server(environ=NAMED)) as (web, _):
            answer = await web.options("/mcp", headers=headers)
        assert answer.headers["access-control-allow-private-network"] == "true"

    @every("origin", [STRANGER, f"{ORIGIN}:8443", "http://app.example", "null", BESIDE, "http://localhost"])
    @every("path", MCP)
    async def test_of_another_origin_is_not(self, origin: str, path: str) -> None:
        async with web_of(log_server(environ=NAMED)) as (web, _):
            answer = await web.options(path, headers={"origin": origin, **preflight()})
        assert (answer.status_code, opened(answer)) == (405 if "localhost" in origin else 403, {})

    @every("path", NOT_MCP)
    async def test_of_another_route_is_not(self, path: str) -> None:
        async with web_of(log_server(environ=NAMED)) as (web, _):
            answer = await web.options(path, headers={"origin": ORIGIN, **preflight("GET")})
        assert opened(answer) == {}

    async def test_for_another_host_is_not(self) -> None:
        async with web_of(log_server(environ=NAMED)) as (web, _):
            answer = await web.options("http://evil.example/mcp", headers={"origin": ORIGIN, **preflight()})
        assert (answer.status_code, opened(answer)) == (421, {})

    @every("path", ["/mcp", "/sse", "/messages/"])
    @every("headers", [{"origin": ORIGIN}, {}, {"access-control-request-method": "POST"}])
    async def test_that_is_none_opens_nothing(self, path: str, headers: dict[str, str]) -> None:
        async with web_of(log_server(environ=NAMED)) as (web, _):
            assert (await web.options(path, headers=headers)).status_code == 405

    @every("named", ["*", "null", "http://*.lan:81"])
    async def test_of_what_a_pattern_names_is_answered_by_its_name(self, named: str) -> None:
        origin = {"*": STRANGER, "null": "null"}.get(named, "http://a.lan:81")
        async with web_of(log_server(environ={"MCP_ALLOWED_ORIGINS": named})) as (web, _):
            answer = await web.options("/mcp", headers={"origin": origin, **preflight()})
        assert answer.headers["access-control-allow-origin"] == origin

    async def test_of_an_origin_that_the_author_names_is_answered(self) -> None:
        async with web_of(log_server(), allowed_origins=[ORIGIN]) as (web, _):
            assert (await web.options("/mcp", headers={"origin": ORIGIN, **preflight()})).status_code == 200

    async def test_where_nothing_is_named_is_not(self) -> None:
        async with web_of(log_server()) as (web, _):
            answer = await web.options("/mcp", headers={"origin": BESIDE, **preflight()})
        assert (answer.status_code, opened(answer)) == (405, {})


def assert_readable(answer: httpx2.Response) -> None:
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    exposed = set(answer.headers["access-control-expose-headers"].lower().split(", "))
    assert exposed >= {"mcp-session-id", "mcp-protocol-version", "www-authenticate", "retry-after"}
    assert "origin" in answer.headers["vary"].lower()


class TestAnAnswer:
    @every("way", list(WAYS))
    @every("era", ["handshake", "modern"])
    async def test_is_readable(self, way: str, era: str) -> None:
        body, routing = modern_request("tools/list") if era == "modern" else (jsonrpc("initialize", HELLO), [])
        headers = {"accept": "application/json, text/event-stream", **dict(routing), "origin": ORIGIN}
        async with web_of(log_server(environ=NAMED), way) as (web, root):
            answer = await web.post(f"{root}/mcp", json=body, headers=headers)
        assert answer.status_code == 200
        assert_readable(answer)

    @every("way", ["itself", "given", "mounted"])
    async def test_to_who_is_not_let_in_is_readable(self, way: str, tmp_path: Path) -> None:
        async with web_of(Team(tmp_path).server(NAMED), way) as (web, root):
            for path in ("/mcp", "/sse", "/messages/"):
                answer = await web.request("GET" if path == "/sse" else "POST", root + path, headers={"origin": ORIGIN})
                assert answer.status_code == 401
                assert "www-authenticate" in answer.headers
                assert_readable(answer)

    @every("way", ["itself", "given", "mounted"])
    @every("path", ["/mcp?tool=x", "/sse?top_k=a"])
    async def test_to_a_selection_that_cannot_be_read_is_readable(self, way: str, path: str) -> None:
        async with web_of(log_server(environ=NAMED), way) as (web, root):
            answer = await (web.get if "sse" in path else web.post)(root + path, headers={"origin": ORIGIN})
        assert answer.status_code == 400
        assert_readable(answer)

    async def test_to_a_path_of_nothing_is_readable(self) -> None:
        async with web_of(log_server(environ=NAMED)) as (web, _):
            answer = await web.post("/mcp/x/nonesuch", json=jsonrpc("ping"), headers={"origin": ORIGIN})
        assert answer.status_code == 404
        assert_readable(answer)

    @every("origin", [STRANGER, BESIDE])
    async def test_to_another_origin_is_not(self, origin: str) -> None:
        body, routing = modern_request("tools/list")
        async with web_of(log_server(environ=NAMED)) as (web, _):
            answer = await web.post("/mcp", json=body, headers={**dict(routing), "origin": origin})
        assert (answer.status_code, opened(answer)) == (403 if origin == STRANGER else 200, {})

    @every("path", NOT_MCP)
    async def test_of_another_route_is_not(self, path: str) -> None:
        async with web_of(log_server(environ=NAMED)) as (web, _):
            assert opened(await web.get(path, headers={"origin": ORIGIN})) == {}

    async def test_without_an_origin_says_that_it_varies_by_it(self) -> None:
        body, routing = modern_request("tools/list")
        async with web_of(log_server(environ=NAMED)) as (web, _):
            answer = await web.post("/mcp", json=body, headers=dict(routing))
        assert (answer.headers["vary"].lower(), opened(answer)) == ("origin", {})


@every("path", ["/sse", "/events"])
async def test_the_older_transport_alone_is_open_too(path: str) -> None:
    app = log_server(environ=NAMED).http_app(transport="sse", path=path)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as web:
        for each in (path, "/messages/"):
            answer = await web.options(each, headers={"origin": ORIGIN, **preflight("GET")})
            assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, ORIGIN)
