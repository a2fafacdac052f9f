"""A server's application that is mounted below a path of another holds its callers' bounds all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.every import every
from tests.server.servers import log_server
from tests.wire.wires import modern_request

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def mounted() -> AsyncIterator[httpx2.AsyncClient]:
    app = log_server().http_app(host_origin_protection=False, json_response=True)
    outer = Starlette(routes=[Mount("/logs", app=app)], lifespan=lambda _: app.router.lifespan_context(app))
    async with (
        outer.router.lifespan_context(outer),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=outer), base_url="http://127.0.0.1") as web,
    ):
        yield web


async def listed(web: httpx2.AsyncClient, url: str, **headers: str) -> Any:
    body, routing = modern_request("tools/list")
    return await web.post(url, json=body, headers=dict(routing) | headers)


async def test_a_query_bounds_the_list() -> None:
    async with mounted() as web:
        answer = await listed(web, "/logs/mcp?tools=tail_log")
        assert [tool["name"] for tool in answer.json()["result"]["tools"]] == ["tail_log"]


async def test_a_header_bounds_the_plain_list() -> None:
    async with mounted() as web:
        answer = await web.get("/logs/tools", headers={"x-mcp-enabled-tools": "tail_log"})
        assert [tool["name"] for tool in answer.json()["tools"]] == ["tail_log"]


@every("url", ["/logs/mcp?top_k=x", "/logs/tools?top_k=x", "/logs/sse?top_k=x"])
async def test_a_malformed_selection_is_a_400_with_its_reason(url: str) -> None:
    async with mounted() as web:
        answer = await (web.get(url) if "/mcp" not in url else listed(web, url))
        error = answer.json()["error"]
        assert (answer.status_code, error.get("data", error)["value"]) == (400, "x")
