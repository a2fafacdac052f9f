"""A task that is another caller's, or under a denied tool, is looked for by the same steps as one that never was."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import httpx2
import pytest
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from agent_utilities import create_gateway
from tests.fleet.processes.replicas import until
from tests.gateway.upstreams.supervised import gateway_of, script
from tests.parts import upstreams_of
from tests.server.task_clients import Ask, asking

pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.timeout(60)]

TOKENS = StaticTokenVerifier({name: {"client_id": "desk", "sub": name} for name in ("ann", "bob")})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def n_steps(ask: Ask, who: str, task: str, query: str) -> int:
    """Return how many functions are entered while a task is refused, the least of several times."""
    counts: list[int] = []

    def count(frame: object, event: str, argument: object) -> None:
        counts[-1] += event == "call"

    for _ in range(6):
        counts.append(0)
        sys.setprofile(count)
        try:
            answer = await ask("tasks/get", {"taskId": task}, who, query)
        finally:
            sys.setprofile(None)
        assert answer["error"]["message"] == f"Task {task} not found"
    return min(counts[1:])


async def test_it_is(tmp_path: Path) -> None:
    environ = {**os.environ, "MCP_GRAPH": "off", "MCP_GATEWAY_FOLDER": str(tmp_path)}
    gateway = create_gateway(gateway_of(script("up", "tasks_server.py", "stdio")), environ=environ, auth=TOKENS)
    app = gateway.http_app(json_response=True, host_origin_protection=False)
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as web,
    ):
        await until(lambda: upstreams_of(gateway).upstreams["up"].snapshot is not None)
        ask = asking(web)
        made = await ask("tools/call", {"name": "up_work", "arguments": {"waits": True}}, "ann")
        task = made["result"]["taskId"]
        for who, query in (("bob", ""), ("ann", "?disabled_tools=up_work")):
            hidden, unknown = [await n_steps(ask, who, each, query) for each in (task, task[:9] + task[:8:-1])]
            assert abs(hidden - unknown) < 0.01 * unknown
