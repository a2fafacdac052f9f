"""The routes of a server's application, merged into somebody else's, keep what their own application held for them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from agent_utilities import AgentServer
from tests.access.team import Team
from tests.every import every
from tests.server.servers import log_server
from tests.wire.wires import modern_request

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
PATHS = ["/mcp", "/sse", "/messages/", "/tools", "/health", "/ready", "/metrics", "/context", "/authors-own"]


def made_anew(routes: Iterable[BaseRoute]) -> list[BaseRoute]:
    """Return routes as FastAPI's `include_router` makes them of others, by their endpoints."""
    return [
        Route(route.path, route.endpoint, methods=list(route.methods or [])) if isinstance(route, Route) else route
        for route in routes
    ]


def appended(app: Starlette) -> Starlette:
    outer = Starlette()
    outer.router.routes.extend(app.router.routes)
    return outer


MERGED: dict[str, Callable[[Any], Starlette]] = {
    "given": lambda app: Starlette(routes=[*app.routes]),
    "appended": appended,
    "below a path": lambda app: Starlette(routes=[Mount("/api", routes=[*app.routes])]),
    "made anew": lambda app: Starlette(routes=made_anew(app.routes)),
    "into another server's": lambda app: appended_to(log_server().http_app("/other"), app),
}


def appended_to(outer: Any, app: Starlette) -> Any:
    outer.router.routes[:0] = app.routes
    return outer


def server(**options: Any) -> AgentServer:
    mcp = log_server(**options)

    @mcp.custom_route("/authors-own", methods=["GET"])
    async def own(request: Any) -> Any:
        raise AssertionError("it is not reached")

    return mcp


@asynccontextmanager
async def merged(way: str, mcp: AgentServer) -> AsyncIterator[tuple[httpx2.AsyncClient, str]]:
    app = mcp.http_app(json_response=True)
    outer = MERGED[way](app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=outer), base_url="http://localhost") as web,
    ):
        yield web, "/api" if way == "below a path" else ""


class TestEachRoute:
    @every("way", list(MERGED))
    @every("path", PATHS)
    async def test_answers_no_stranger(self, way: str, path: str) -> None:
        async with merged(way, server()) as (web, below):
            for headers, status in (
                ({"host": "evil.example"}, 421),
                ({"host": "[::ffff:9.9.9.9]:80"}, 421),
                ({"origin": "https://evil.example"}, 403),
            ):
                method = "POST" if path in ("/mcp", "/messages/") else "GET"
                answer = await web.request(method, f"{below}{path}", headers=headers)
                assert (answer.status_code, "error" in answer.json()) == (status, True), (headers, answer.text)

    @every("way", list(MERGED))
    async def test_still_answers_who_may_ask(self, way: str) -> None:
        async with merged(way, server()) as (web, below):
            body, routing = modern_request("tools/list")
            answer = await web.post(f"{below}/mcp?tools=tail_log", json=body, headers=dict(routing))
            assert [tool["name"] for tool in answer.json()["result"]["tools"]] == ["tail_log"]
            assert (await web.get(f"{below}/tools?tools=x", headers={"host": "[::1]:8000"})).json()["tools"] == []

    @every("way", list(MERGED))
    async def test_refuses_a_selection_that_cannot_be_read(self, way: str) -> None:
        async with merged(way, server()) as (web, below):
            body, routing = modern_request("tools/list")
            answer = await web.post(f"{below}/mcp?tool=x", json=body, headers=dict(routing))
            assert (answer.status_code, answer.json()["error"]["data"]["value"]) == (400, "tool")
            for path in ("/tools", "/context", "/sse"):
                assert (await web.get(f"{below}{path}?top_k=x")).status_code == 400

    @every("way", ["given", "made anew"])
    async def test_behind_a_login_lets_nobody_in_without_its_own_applications_middleware(
        self, way: str, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        team = Team(tmp_path_factory.mktemp(way.replace(" ", "")))
        token = team.token("ann")
        async with merged(way, team.server()) as (web, _):
            body, routing = modern_request("tools/list")
            assert (await web.post("/mcp", json=body, headers={**dict(routing), **token})).status_code == 401
            for path in ("/tools", "/metrics", "/context"):
                assert (await web.get(path, headers=token)).status_code in (401, 403)

    def test_that_is_a_mount_takes_no_web_socket_of_a_strangers(self) -> None:
        app = MERGED["given"](server().http_app())
        with TestClient(app, base_url="http://localhost") as web, pytest.raises(WebSocketDisconnect) as refused:
            web.websocket_connect("ws://evil/messages/").__enter__()
        assert refused.value.reason == "host not accepted"


@pytest.mark.outside
async def test_a_connection_of_sse_keeps_the_selection_that_it_was_opened_with() -> None:
    app = server().http_app()
    outer = Starlette(routes=[*app.routes], lifespan=lambda _: app.router.lifespan_context(app))
    web = uvicorn.Server(uvicorn.Config(outer, port=0, log_level="error", ws="none", timeout_graceful_shutdown=1))
    listening = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.create_task(web.serve([listening]))
    try:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/sse?tools=tail_log"
        async with httpx2.AsyncClient() as client, client.stream("GET", url) as stream:
            lines = stream.aiter_lines()
            endpoint = [await anext(lines) for _ in range(2)][1]
        assert endpoint.endswith("&tools=tail_log")
    finally:
        web.should_exit = True
        await serving


@pytest.mark.outside
async def test_a_request_of_http_1_0_that_names_no_host_is_refused() -> None:
    app = server().http_app()
    outer = Starlette(routes=[*app.routes], lifespan=lambda _: app.router.lifespan_context(app))
    web = uvicorn.Server(uvicorn.Config(outer, port=0, log_level="error", ws="none", timeout_graceful_shutdown=1))
    listening = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.create_task(web.serve([listening]))
    try:
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(b"GET /tools HTTP/1.0\r\n\r\n")
        assert b" 421 " in await reader.readline()
        writer.close()
    finally:
        web.should_exit = True
        await serving
