"""Changes are noted from any thread, and told from the server's own."""

from __future__ import annotations

import asyncio
import threading

import pytest
from fastmcp import Client

from tests.mcp.servers import log_server

pytestmark = pytest.mark.anyio


async def test_a_change_noted_in_another_thread_is_handled_in_the_servers():
    loop, here = asyncio.get_running_loop(), threading.get_ident()
    loop.set_debug(True)  # whatever touches the loop from another thread raises there
    server = log_server()
    told_in: list[int] = []
    told = asyncio.Event()

    def on_tools() -> None:
        told_in.append(threading.get_ident())
        told.set()

    server.changes.on_tools = on_tools
    async with Client(server):
        await asyncio.to_thread(server.changes.note, {"tools"})
        await told.wait()
    assert told_in == [here]


async def test_before_the_server_runs_and_after_nothing_is_kept():
    server = log_server()
    server.changes.note({"tools"})
    async with Client(server):
        pass
    server.changes.note({"tools"})
    assert server.changes.pending == frozenset()
