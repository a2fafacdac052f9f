"""Requests to a server's real HTTP application, with no socket between."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from starlette.applications import Starlette
from starlette.routing import Mount

from agent_utilities import AgentServer
from tests.wire.wires import modern_request


@asynccontextmanager
async def web_of(mcp: AgentServer, prefix: str = "", path: str | None = None) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a server's HTTP application, which may be mounted below a prefix."""
    app = mcp.http_app(path, host_origin_protection=False, json_response=True)
    outer = Starlette(routes=[Mount(prefix, app=app)])
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=outer), base_url="http://127.0.0.1") as web,
    ):
        yield web


async def ask(web: httpx2.AsyncClient, url: str, method: str = "tools/list", **headers: str) -> httpx2.Response:
    """Return the answer to a request of 2026-07-28."""
    body, routing = modern_request(method)
    return await web.post(url, json=body, headers={**dict(routing), **headers})


async def listed(web: httpx2.AsyncClient, url: str, **headers: str) -> list[str]:
    """Return the names of the tools that are listed."""
    answer = await ask(web, url, **headers)
    assert answer.status_code == 200, answer.text
    return [tool["name"] for tool in answer.json()["result"]["tools"]]
