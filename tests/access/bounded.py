"""A team's server whose calls are bounded, and callers of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError

from agent_utilities import AgentServer
from agent_utilities.state import counts
from tests.access.team import Team
from tests.server.servers import over_http

TOKENS = """
[auth]
tokens = "{tokens}"
"""


class Clock:
    """The time that windows go by, which stands until it is set forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.monotonic()
        monkeypatch.setattr(counts, "monotonic", lambda: self.now)

    def forward(self, seconds: float) -> None:
        """Set it forward."""
        self.now += seconds


class Work:
    """What the server's tools do: they can be held, told to fail, and asked how many are under way."""

    def __init__(self) -> None:
        self.n_now = self.n_most = self.n_done = 0
        self.began, self.left, self.may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.may_end.set()

    async def do(self, text: str = "done", fails: bool = False) -> str:
        """Return a text, once that may be."""
        self.n_now += 1
        self.n_most = max(self.n_most, self.n_now)
        self.began.set()
        try:
            await self.may_end.wait()
        finally:
            self.n_now -= 1
            self.left.set()
        if fails:
            raise ToolError("out of paper")
        self.n_done += 1
        return text


class Bounded(Team):
    """A team with a server of two tools of its own, and one, `look`, of another server that is mounted in it."""

    def __init__(self, folder: Path, quotas: str) -> None:
        super().__init__(folder, TOKENS + quotas)
        self.work = Work()

    def server(self, environ: dict[str, str] | None = None, **options: Any) -> AgentServer:
        """Return the server."""
        given = {"MCP_CONFIG_FILE": str(self.settings), "MCP_GRAPH": "off", **(environ or {})}
        mcp, mounted = AgentServer("team", environ=given, **options), FastMCP[None]("archive")
        for name in ("git_log", "git_push"):
            mcp.tool(name=name)(self.work.do)
        mounted.tool(name="look")(self.work.do)
        mcp.mount(mounted)
        return mcp

    @asynccontextmanager
    async def callers(
        self, *names: str, server: AgentServer | None = None, url: str = "/mcp", mode: str = "auto"
    ) -> AsyncIterator[list[Client[Any]]]:
        """Clients of one application, each with a token of its own."""
        headers = [self.token(name) for name in names]  # before the server reads them
        app, first = over_http(server or self.server(), url=url, mode=mode)
        async with app.router.lifespan_context(app), AsyncExitStack() as opened:
            transport = first.transport
            assert isinstance(transport, StreamableHttpTransport)
            clients: list[Client[Any]] = []
            for each in headers:
                theirs = StreamableHttpTransport(transport.url, headers=each)
                theirs.httpx_client_factory = transport.httpx_client_factory
                clients.append(await opened.enter_async_context(Client(theirs, mode=mode)))
            yield clients


async def said(client: Client[Any], tool: str = "git_log", **arguments: Any) -> str:
    """Return what a call is answered, after `! ` where that is an error."""
    result = await client.call_tool_mcp(tool, arguments)
    text = " / ".join(getattr(part, "text", "?") for part in result.content)
    return f"! {text}" if result.is_error else text


async def metrics(web: httpx2.AsyncClient, **headers: str) -> dict[str, float]:
    """Return how many calls were refused by each kind of quota, as the metrics tell it."""
    lines = (await web.get("/metrics", headers=headers)).text.splitlines()
    told = (line.rsplit(" ", 1) for line in lines if line.startswith("mcp_quota_refusals_total{"))
    return {name.split('"')[1]: float(number) for name, number in told}
