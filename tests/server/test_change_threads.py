"""Changes are noted from any thread, and told from the server's own."""

from __future__ import annotations

import asyncio
import threading

import pytest
from fastmcp import Client

from tests.server.servers import log_server, when_tools_change

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

    when_tools_change(server, on_tools)
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
    assert server.changes._pending == set()


async def test_what_was_told_once_is_not_told_again_with_the_next_change():
    server = log_server()
    refreshed: list[None] = []
    when_tools_change(server, lambda: refreshed.append(None))
    events: asyncio.Queue[str] = asyncio.Queue()
    async with Client(server) as client, asyncio.timeout(60):
        for list_all in (client.list_tools, client.list_prompts, client.list_resources):
            await list_all()
        server.changes.subscribe(lambda event: events.put_nowait(type(event).__name__))
        server.local_provider.remove_tool("tail_log")
        assert await events.get() == "ToolsListChanged"
        server.local_provider.remove_prompt("triage")
        assert await events.get() == "PromptsListChanged"
        server.local_provider.remove_resource("log://status")
        assert await events.get() == "ResourcesListChanged"
    assert len(refreshed) == 1
