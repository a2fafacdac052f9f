"""Gateways over real processes, for one test each or for a module."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

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
    """

    server: AgentServer
    upstreams: Upstreams
    provider: UpstreamProvider


@asynccontextmanager
async def gateway(*configs: UpstreamConfig, unreachable: Sequence[str] = (), **environ: str) -> AsyncIterator[Gateway]:
    """Run a gateway, all of whose upstreams but some have been listed.

    Args:
        configs: its upstreams.
        unreachable: the names of those that are not waited for.
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
        server = create_mcp_server("gateway", environ={"MCP_GRAPH": "off", **environ}, providers=[provider])
        async with asyncio.timeout(LONG_S):
            while any(each.snapshot is None for each in upstreams if each.config.name not in unreachable):
                await changed.wait()
                changed.clear()
        yield Gateway(server, upstreams, provider)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
