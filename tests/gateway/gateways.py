"""Gateways over real processes, served over HTTP on this machine."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import uvicorn

from agent_utilities import AgentServer, create_gateway
from agent_utilities.gateway.upstreams.config import GatewayConfig, UpstreamConfig
from tests.parts import upstreams_of

LONG_S = 60


class Served:
    """A gateway that is served.

    Args:
        gateway: the server.
    """

    def __init__(self, gateway: AgentServer) -> None:
        self.gateway = gateway
        self.upstreams = upstreams_of(gateway).upstreams
        self.provider = upstreams_of(gateway).provider
        self.url = ""
        """Where it is served, without a path."""
        self.loop = asyncio.get_running_loop()
        """The event loop that it runs in."""

    def protocol_version(self, upstream: str) -> str:
        """Return what an upstream speaks."""
        snapshot = self.upstreams[upstream].snapshot
        assert snapshot is not None
        return snapshot.protocol_version


@contextmanager
def served(*configs: UpstreamConfig, unreachable: Sequence[str] = (), **options: Any) -> Iterator[Served]:
    """Serve a gateway over HTTP for a block, in a thread of its own, once all its upstreams but some were listed.

    Args:
        configs: its upstreams.
        unreachable: the names of those that are not waited for.
        options: for `create_gateway`; `environ` is taken beside the tests' own.
    """
    ready = threading.Event()
    running: list[tuple[Served, uvicorn.Server]] = []

    async def serve(folder: str) -> None:
        environ = {
            **os.environ,
            "MCP_GRAPH": "off",
            "MCP_GROUPS": "off",
            "MCP_GATEWAY_FOLDER": folder,
            "MCP_RESULT_TOKENS": "off",  # lists are compared with those of the servers
            "MCP_INVISIBLE": "keep",
            **options.pop("environ", {}),
        }
        made = Served(create_gateway(GatewayConfig(upstreams=configs), environ=environ, **options))
        server = uvicorn.Server(uvicorn.Config(made.gateway.http_app(), port=0, log_level="error", ws="none"))
        running.append((made, server))
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(server.serve())
            try:
                async with asyncio.timeout(LONG_S):
                    await _listed(made, unreachable, serving)
            except TimeoutError:
                server.should_exit = True
                return
            made.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
            ready.set()

    def run() -> None:
        try:
            with tempfile.TemporaryDirectory() as folder:
                asyncio.run(serve(folder))
        finally:
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(2 * LONG_S), "the gateway did not start"
        made, _ = running[0]
        assert made.url, "the gateway did not start"
        yield made
    finally:
        for _, server in running:
            server.should_exit = True
        thread.join()


async def _listed(made: Served, unreachable: Sequence[str], serving: asyncio.Task[None]) -> None:
    """Return once all upstreams but some were listed."""
    changed = asyncio.Event()
    made.provider.on_change(lambda lists: changed.set())
    waited_for = [each for each in made.upstreams if each.config.enabled and each.config.name not in unreachable]
    while any(each.snapshot is None for each in waited_for):
        waiting = asyncio.ensure_future(changed.wait())
        await asyncio.wait([waiting, serving], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        changed.clear()
        assert not serving.done(), "the gateway ended"
