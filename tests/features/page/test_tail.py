"""Who does not read the live tail, on a real socket."""

from __future__ import annotations

import asyncio
import socket

import pytest
import uvicorn
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from agent_utilities import create_mcp_server
from agent_utilities.features.page import tail as module
from agent_utilities.features.page.panel import Reader
from agent_utilities.features.page.tail import N_KEPT, Tail
from agent_utilities.mcp.sessions import NOBODY

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


async def test_is_dropped_and_nothing_goes_on_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_READ_S", 0.2)
    tail, reader, is_over = Tail(create_mcp_server("x", environ={})), Reader(NOBODY, True), asyncio.Event()
    for number in range(N_KEPT):
        tail.operated(reader, f"restart {number}", "done", ok=True)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            # More than the system's buffers of a connection take.
            await tail.events(reader, Request(scope), lambda seen: "x" * 20_000)(scope, receive, send)
        finally:
            is_over.set()

    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="error"))
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as deaf:
        serving = asyncio.create_task(server.serve([listening]))
        deaf.connect(listening.getsockname())
        deaf.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        async with asyncio.timeout(60):
            await is_over.wait()
        server.should_exit = server.force_exit = True
        await serving
