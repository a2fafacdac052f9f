"""FastMCP's tools ask a caller of 2025-11-25 through a gateway what they ask them directly."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import mcp_types
import pytest
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport

from agent_utilities.gateway.upstreams.config import UpstreamConfig
from tests.every import every
from tests.gateway.gateways import Served, served
from tests.gateway.upstreams import talking_server
from tests.gateway.upstreams.supervised import script
from tests.server.servers import running

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

TOOLS = ["elicit", "sample", "roots"]
UPSTREAMS = ["stdio", "isolated", "http"]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    with running(talking_server.server) as url:
        told = {"name": "http", "source": "test", "transport": "http", "url": f"{url}/mcp"}
        upstreams = [
            script("stdio", "talking_server.py"),
            script("isolated", "talking_server.py", isolate=True),
            UpstreamConfig.model_validate(told),
        ]
        with served(*upstreams) as made:
            assert all(made.protocol_version(name) >= "2026" for name in UPSTREAMS)
            yield made


def client(transport: Any, name: str = "Ada", asked: list[Any] | None = None) -> Client[Any]:
    """Return a caller of 2025-11-25 who answers all that they are asked, and notes the questions."""

    async def elicited(message: str, response_type: Any, params: Any, context: Any) -> Any:
        if asked is not None:
            asked.append(params.model_dump(by_alias=True, mode="json", exclude={"meta"}))
        return ElicitResult(action="accept", content={"size": "small", "n": len(name)})

    async def sampled(messages: Any, params: Any, context: Any) -> str:
        return f"{name} says it"

    handlers: dict[str, Any] = {"elicitation_handler": elicited, "sampling_handler": sampled}
    return Client(transport, mode="legacy", roots=[f"file:///home/{name}"], **handlers)


async def answer(caller: Client[Any], tool: str) -> tuple[bool, str]:
    result = await caller.call_tool_mcp(tool, {})
    (content,) = result.content
    assert isinstance(content, mcp_types.TextContent)
    return bool(result.is_error), content.text


async def test_a_caller_is_asked_and_answers_as_directly(gateway: Served) -> None:
    directly: list[Any] = []
    async with client(StdioTransport(sys.executable, [talking_server.__file__]), asked=directly) as caller:
        expected = [await answer(caller, tool) for tool in TOOLS]
    assert [is_error for is_error, _ in expected] == [False, False, False]
    for upstream in UPSTREAMS:
        through: list[Any] = []
        async with client(f"{gateway.url}/mcp", asked=through) as caller:
            assert [await answer(caller, f"{upstream}_{tool}") for tool in TOOLS] == expected, upstream
        assert through == directly, upstream


async def test_over_http_many_at_once_are_each_asked_their_own(gateway: Served) -> None:
    async def one(name: str) -> tuple[bool, str]:
        async with client(f"{gateway.url}/mcp", name) as caller:
            return await answer(caller, "http_sample")

    names = [f"person{n}" for n in range(8)]
    answers = await asyncio.gather(*map(one, names))
    assert answers == [(False, f"{name} says it") for name in names]


@every("mode", ["legacy", "auto"])
async def test_a_caller_who_offers_nothing_is_told_what_the_server_tells_them(gateway: Served, mode: str) -> None:
    async with Client(f"{gateway.url}/mcp", mode=mode) as caller:
        is_error, text = await answer(caller, "stdio_elicit")
    assert is_error
    assert "unavailable" in text
