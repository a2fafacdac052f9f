"""No request keeps the event loop for long, whatever it asks of however many tools (law L7)."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import httpx2
import pytest
from fastmcp.tools.base import Tool

from agent_utilities import create_mcp_server
from agent_utilities.selection.parse import MAX_GLOBS, MAX_KEYS
from tests.pace import LONGEST, pace

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

N_TOOLS = 5_000


def globs(salt: int) -> str:
    """Globs whose parts stand in every name, and which fit none."""
    return ",".join(f"*o*o*{i % 10}*_*{chr(97 + (i + salt) % 26)}{i}*" for i in range(MAX_GLOBS))


LAST = ",".join("*" * i + f"_{N_TOOLS - 1}" for i in range(1, MAX_GLOBS + 1))
"""Globs that fit but the last tool, so that every one is tried on all before it."""
HOSTILE = {
    "globs": (f"tools={globs(0)}&disabled_toolsets={globs(1)}&tags={globs(2)}", {"x-mcp-disabled-tools": globs(3)}),
    "globs that fit the last": (f"tools={LAST}&disabled_tools={LAST}&disabled_tags={LAST}", {}),
    "unknown names": ("tools=" + ",".join(f"server_{i}_same_tool_gnome_{i}" for i in range(200)), {}),
    "unknown keys": ("&".join(f"all{i}tools=x" for i in range(MAX_KEYS - 1)), {}),
    "keys of one field": ("&".join(f"disabled_tools=n{i}" for i in range(MAX_KEYS - 1)), {}),
}


def work() -> str:
    """A tool."""
    return ""


@asynccontextmanager
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    server = create_mcp_server("many", environ={"MCP_GRAPH": "off"})
    base = Tool.from_function(work, name="x")
    for i in range(N_TOOLS):
        update = {"name": f"server_{i % 37}_some_tool_name_{i}", "tags": {f"tag_{i % 50}", f"own_{i}"}}
        server.add_tool(base.model_copy(update=update))
    app = server.http_app()
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8001", timeout=60) as http,
    ):
        yield http


@contextmanager
def turns() -> Iterator[list[float]]:
    """Measure the CPU seconds that this thread spends in each turn of the event loop."""
    gc.collect()
    loop, spent, started = asyncio.get_running_loop(), list[float](), time.thread_time()

    def turn() -> None:
        nonlocal started, handle
        now = time.thread_time()
        spent.append(now - started)
        started, handle = now, loop.call_soon(turn)

    handle = loop.call_soon(turn)
    gc.disable()  # a server freezes what it has made before it serves
    try:
        yield spent
    finally:
        spent.append(time.thread_time() - started)
        handle.cancel()
        gc.enable()


async def test_hostile_selections_take_turns() -> None:
    longest: dict[str, float] = {}
    async with client() as http:
        await http.get("/tools?tools=none")
        # The least of several: what else the machine does must not count.
        for i in range(12):
            for name, (query, headers) in HOSTILE.items():
                if longest.get(name, LONGEST + 1.0) <= LONGEST:
                    continue
                unit = pace()
                with turns() as spent:
                    answer = await http.get(f"/tools?{query}&top_k={i + 1}", headers=headers)
                assert answer.status_code == 200, answer.text
                longest[name] = min(max(spent) / unit, longest.get(name, max(spent) / unit))
    assert {name: turn for name, turn in longest.items() if turn > LONGEST} == {}
