"""`isolate: true`: each session has a process of its own, which ends with it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import mcp_types
import psutil
import pytest
from fastmcp import Client

from agent_utilities.gateway.upstreams.config import GatewayConfig
from tests.gateway.gateways import Served, served
from tests.gateway.upstreams.supervised import PATIENCE_S, faulty, gateway_of
from tests.parts import upstreams_of

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    with served(faulty("own", isolate=True)) as made:
        yield made


async def process_of(client: Client[Any]) -> psutil.Process:
    """Return the upstream's process that a client's calls reach."""
    result = await client.call_tool("own_pid", {})
    return psutil.Process(json.loads(result.content[0].text)["pid"])  # type: ignore[union-attr]


async def reload(gateway: Served, config: GatewayConfig) -> None:
    """Have a gateway serve another config, and return once all of it is listed."""
    changed = asyncio.Event()
    gateway.provider.on_change(lambda lists: changed.set())
    await upstreams_of(gateway.gateway).reload(config)
    while any(upstream.snapshot is None for upstream in upstreams_of(gateway.gateway).upstreams):
        await changed.wait()
        changed.clear()


async def test_sessions_have_processes_of_their_own_that_end_with_them(gateway: Served) -> None:
    async with Client(f"{gateway.url}/mcp", mode="legacy") as one:
        first = await process_of(one)
        assert await process_of(one) == first
        async with Client(f"{gateway.url}/mcp", mode="legacy") as other:
            second = await process_of(other)
            assert second != first
        await asyncio.to_thread(second.wait, PATIENCE_S)
        assert await process_of(one) == first
    await asyncio.to_thread(first.wait, PATIENCE_S)


async def test_a_request_without_a_session_leaves_no_process_behind(gateway: Served) -> None:
    async with Client(f"{gateway.url}/mcp") as client:
        result = await client.call_tool("own_pid", {})
        with suppress(psutil.NoSuchProcess):  # it has ended already
            process = psutil.Process(json.loads(result.content[0].text)["pid"])  # type: ignore[union-attr]
            await asyncio.to_thread(process.wait, PATIENCE_S)


async def test_a_session_that_only_completes_leaves_no_process_behind(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with served(faulty("own", f"pids={pids}", isolate=True)) as gateway:
        async with Client(f"{gateway.url}/mcp", mode="legacy") as client:
            reference = mcp_types.PromptReference(type="ref/prompt", name="own_greet")
            assert (await client.complete(reference, {"name": "name", "value": "A"})).values == ["A!"]
            process = psutil.Process(int(pids.read_text().split()[-1]))
        await asyncio.to_thread(process.wait, PATIENCE_S)


async def test_a_session_that_outlives_an_edit_leaves_no_process_behind() -> None:
    with served(faulty("own", isolate=True)) as gateway:
        async with Client(f"{gateway.url}/mcp", mode="legacy") as client:
            first = await process_of(client)
            edited = gateway_of(faulty("own", isolate=True, env={"EDITED": "1"}))
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(reload(gateway, edited), gateway.loop))
            second = await process_of(client)
            assert second != first
        await asyncio.to_thread(second.wait, PATIENCE_S)


async def test_metrics_count_upstreams_and_name_none(gateway: Served) -> None:
    async with Client(f"{gateway.url}/mcp") as client, httpx2.AsyncClient() as web:
        await client.call_tool("own_pid", {})
        told = (await web.get(f"{gateway.url}/metrics")).text
    assert re.search(r'^mcp_upstreams\{state="\w+"\} 1.0$', told, re.MULTILINE)
    assert re.search(r'^mcp_upstream_calls_total\{outcome="answered"\} [1-9]', told, re.MULTILINE)
    assert re.search(r"^mcp_upstream_starts_total [1-9]", told, re.MULTILINE)
    others = "\n".join(line for line in told.split("\n") if "listed_tokens" not in line)
    assert "own" not in re.findall(r'"(\w+)"', others)
