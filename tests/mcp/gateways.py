"""Gateways over real processes, served over HTTP on this machine."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.mcp.upstream_provider import UpstreamProvider
from agent_utilities.upstream.config import GatewayConfig, UpstreamConfig
from agent_utilities.upstream.upstreams import Upstreams
from tests.upstream.supervised import KeptSnapshots

LONG_S = 60


@dataclass
class Gateway:
    """A server in front of upstreams that run.

    Args:
        server: what callers reach.
        upstreams: what it reaches.
        provider: what joins them.
        url: where it is served, without a path; empty where it isn't.
    """

    server: AgentServer
    upstreams: Upstreams
    provider: UpstreamProvider
    url: str = ""


@asynccontextmanager
async def gateway(
    *configs: UpstreamConfig, unreachable: Sequence[str] = (), options: dict[str, Any] | None = None, **environ: str
) -> AsyncIterator[Gateway]:
    """Run a gateway, all of whose upstreams but some have been listed.

    Args:
        configs: its upstreams.
        unreachable: the names of those that are not waited for.
        options: for `create_mcp_server`.
        environ: the server's environment.
    """
    changed = asyncio.Event()
    provider: UpstreamProvider | None = None

    def on_change(name: str) -> None:
        if provider is not None:
            provider.renew(name)
        changed.set()

    store = KeptSnapshots()
    upstreams = Upstreams(GatewayConfig(upstreams=configs), environ=os.environ, store=store, on_change=on_change)
    task = asyncio.create_task(upstreams.run())
    try:
        provider = UpstreamProvider(upstreams)
        environ = {"MCP_GRAPH": "off", **environ}
        server = create_mcp_server("gateway", environ=environ, providers=[provider], **(options or {}))
        server.add_completion_handler(provider.complete)
        async with asyncio.timeout(LONG_S):
            while any(each.snapshot is None for each in upstreams if each.config.name not in unreachable):
                await changed.wait()
                changed.clear()
        yield Gateway(server, upstreams, provider)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextmanager
def served(*configs: UpstreamConfig, **settings: Any) -> Iterator[Gateway]:
    """Serve a gateway over HTTP for a block, in a thread of its own.

    Args:
        configs, settings: as for `gateway`.
    """
    ready = threading.Event()
    running: list[tuple[Gateway, uvicorn.Server]] = []

    class Announced(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            ready.set()

    async def serve() -> None:
        try:
            async with gateway(*configs, **settings) as made:
                server = Announced(uvicorn.Config(made.server.http_app(), port=0, log_level="error", ws="none"))
                running.append((made, server))
                await server.serve()
        finally:
            ready.set()

    thread = _thread(lambda: asyncio.run(serve()))
    try:
        assert ready.wait(LONG_S), "the gateway did not start"
        made, server = running[0]
        made.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        yield made
    finally:
        for _, server in running:
            server.should_exit = True
        thread.join()


def _thread(target: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=target)
    thread.start()
    return thread
