"""`isolate: true`: each session has a process of its own, which ends with it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx2
import psutil
import pytest
from fastmcp import Client

from tests.mcp.gateways import Served, served
from tests.upstream.supervised import PATIENCE_S, faulty

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    with served(faulty("own", isolate=True)) as made:
        yield made


async def process_of(client: Client[Any]) -> psutil.Process:
    """Return the upstream's process that a client's calls reach."""
    result = await client.call_tool("own_pid", {})
    return psutil.Process(json.loads(result.content[0].text)["pid"])  # type: ignore[union-attr]


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


async def test_metrics_count_upstreams_and_name_none(gateway: Served) -> None:
    async with Client(f"{gateway.url}/mcp") as client, httpx2.AsyncClient() as web:
        await client.call_tool("own_pid", {})
        told = (await web.get(f"{gateway.url}/metrics")).text
    assert re.search(r'^mcp_upstreams\{state="\w+"\} 1.0$', told, re.MULTILINE)
    assert re.search(r'^mcp_upstream_calls_total\{outcome="answered"\} [1-9]', told, re.MULTILINE)
    assert re.search(r"^mcp_upstream_starts_total [1-9]", told, re.MULTILINE)
    assert "own" not in re.findall(r'"(\w+)"', told)
