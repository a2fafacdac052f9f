"""A client that stops reading keeps no other from hearing of changes, and is told no more."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import logging
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastmcp import Client
from fastmcp.client.messages import MessageHandler
from fastmcp.client.transports import StreamableHttpTransport

from agent_utilities import AgentServer
from tests.server.servers import log_server, running, when_tools_change

pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.timeout(60)]
_N_CHANGES = 5
_START = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "stalled", "version": "1"}}


class Heard(MessageHandler):
    """Counts notices, for a test to wait on."""

    def __init__(self) -> None:
        self.notices: asyncio.Queue[None] = asyncio.Queue()

    async def on_tool_list_changed(self, message: object) -> None:
        self.notices.put_nowait(None)


def _post(address: tuple[str, int], path: str, method: str, params: dict[str, Any], **message: Any) -> None:
    connection = http.client.HTTPConnection(*address)
    body = {"jsonrpc": "2.0", "method": method, "params": params, **message}
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    assert connection.getresponse().status == 202
    connection.close()


@contextmanager
def stalled(base: str, answers: threading.Event) -> Iterator[None]:
    """A client over SSE that asks for more than the socket holds, and reads none of it."""
    parts = urlsplit(base)
    address = (str(parts.hostname), int(parts.port or 0))
    with socket.create_connection(address) as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall(b"GET /sse HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n\r\n")
        received = b""
        while not (endpoint := re.search(rb"data: (\S+)\r\n", received)):
            received += reader.recv(4096)
        path = endpoint[1].decode()
        _post(address, path, "initialize", _START, id=1)
        while b'"id":1' not in received:
            received += reader.recv(4096)
        _post(address, path, "notifications/initialized", {})
        _post(address, path, "tools/call", {"name": "big", "arguments": {}}, id=2)
        assert answers.wait(30)
        yield


@pytest.fixture
def served() -> tuple[AgentServer, threading.Event]:
    answers, server = threading.Event(), log_server()

    @server.tool
    def big() -> str:
        answers.set()
        return "x" * 30_000_000

    return server, answers


async def hears(server: AgentServer, heard: Heard) -> None:
    """Change tools until the client hears of it: its stream opens in its own time, and is told nothing before."""
    for i in itertools.count():
        server.tool(lambda: "", name=f"early_{i}")
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                return await heard.notices.get()


async def test_others_are_told_and_so_is_the_graph(served: tuple[AgentServer, threading.Event]) -> None:
    server, answers = served
    refreshed: list[None] = []
    when_tools_change(server, lambda: refreshed.append(None))
    heard = Heard()
    with running(server) as base, stalled(base, answers):
        async with Client(StreamableHttpTransport(f"{base}/mcp"), mode="legacy", message_handler=heard) as client:
            await hears(server, heard)
            refreshed.clear()
            for i in range(_N_CHANGES):
                server.tool(lambda: "", name=f"new_{i}")
                await heard.notices.get()
                assert f"new_{i}" in [tool.name for tool in await client.list_tools()]
    assert len(refreshed) >= _N_CHANGES


async def test_it_is_told_no_more_once_it_took_too_long(served: tuple[AgentServer, threading.Event]) -> None:
    server, answers = served
    server.changes.limit_s = 0.05
    dropped = threading.Event()

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "read no notice" in record.getMessage():
                dropped.set()

    log, handler = logging.getLogger("agent_utilities.changes"), Listening()
    log.addHandler(handler)
    try:
        with running(server) as base, stalled(base, answers):
            for i in range(100):
                server.tool(lambda: "", name=f"new_{i}")
                if await asyncio.to_thread(dropped.wait, 0.2):
                    break
            assert dropped.is_set()
    finally:
        log.removeHandler(handler)
