"""FastMCP's client and the SDK's, against a server that defers its tools: they see it change, and none stumbles."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import mcp
import mcp_types
import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp import ClientSession, StdioServerParameters, stdio_client

from agent_utilities.selection.channels import META_KEY
from tests.every import every
from tests.wire.conversation import ENTRY, LAUNCH
from tests.wire.processes import served

pytestmark = [pytest.mark.outside, pytest.mark.anyio, pytest.mark.timeout(300)]

Wire = Literal["stdio", "sse", "session"]
WIRES: tuple[Wire, ...] = ("stdio", "sse", "session")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(LAUNCH) as process:
        yield process.url


class Heard:
    """Counts notices that lists of tools changed, and lists anew at each, as a host does."""

    def __init__(self) -> None:
        self.n_notices = 0
        self.news = anyio.Event()

    async def __call__(self, message: Any) -> None:
        """Take a message."""
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self.n_notices += 1
            self.news.set()


def transport(wire: Wire, url: str, log: Path) -> Any:
    """Return FastMCP's transport."""
    if wire == "stdio":
        command, *arguments = LAUNCH.command()
        return StdioTransport(command, arguments, env=LAUNCH.environ, keep_alive=False, log_file=log)
    return SSETransport(f"{url}/sse") if wire == "sse" else StreamableHttpTransport(f"{url}/mcp")


@every("wire", WIRES)
async def test_fastmcps_client_is_told_once_and_lists_what_was_found(url: str, wire: Wire, tmp_path: Path) -> None:
    heard = Heard()
    async with Client(transport(wire, url, tmp_path / "log"), mode="legacy", message_handler=heard) as client:
        before = [tool.name for tool in await client.list_tools()]
        await client.call_tool("tool_search", {"query": "select:tides,wind"})
        await heard.news.wait()
        after = [tool.name for tool in await client.list_tools()]
        called = await client.call_tool("tides", {"subject": "Kiel"})
    assert (before, after, heard.n_notices) == (ENTRY, [*ENTRY, "tides", "wind"], 1)
    assert called.content[0].text == "tides Kiel"


async def test_the_sdks_session_over_stdio_is_told_once_and_lists_what_was_found() -> None:
    heard = Heard()
    async with sdk_session(heard) as session:
        await session.call_tool("tool_search", {"query": "select:tides"})
        await heard.news.wait()
        names = [tool.name for tool in (await session.list_tools()).tools]
    assert (names, heard.n_notices) == ([*ENTRY, "tides"], 1)


async def test_a_result_by_a_schema_is_checked_by_the_sdks_session_though_its_tool_was_deferred(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It lists anew before it checks: the call has made the tool visible by then."""
    async with sdk_session(Heard()) as session:
        with caplog.at_level(logging.WARNING, "client"):
            result = await session.call_tool("snow_depth", {"subject": "Zugspitze"})
    assert isinstance(result, mcp_types.CallToolResult)
    assert result.structured_content == {"place": "Zugspitze", "cm": 42}
    assert caplog.messages == []


@every("mode", ["legacy", "auto"])
@every("wire", ["stdio", "session"])
class TestInBothEras:
    """`auto` is 2026-07-28 with these servers, where a call makes nothing visible."""

    async def test_a_client_that_never_lists_calls_a_deferred_tool_by_its_name(
        self, url: str, wire: Wire, mode: Any, tmp_path: Path
    ) -> None:
        async with Client(transport(wire, url, tmp_path / "log"), mode=mode) as client:
            result = await client.call_tool("snow_depth", {"subject": "Zugspitze"})
        assert result.structured_content == {"place": "Zugspitze", "cm": 42}

    async def test_a_client_that_never_lists_calls_it_by_call_tool(
        self, url: str, wire: Wire, mode: Any, tmp_path: Path
    ) -> None:
        steps: list[float] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            steps.append(progress)

        async with Client(transport(wire, url, tmp_path / "log"), mode=mode) as client:
            arguments = {"name": "snow_depth", "arguments": {"subject": "Zugspitze"}}
            result = await client.call_tool("call_tool", arguments)
            talking = {"name": "train_delays", "arguments": {"subject": "Bonn"}}
            await client.call_tool("call_tool", talking, progress_handler=on_progress)
        assert result.structured_content == {"place": "Zugspitze", "cm": 42}
        assert steps == [1, 2]

    async def test_the_sdks_client_calls_a_deferred_tool(self, url: str, wire: Wire, mode: Any, tmp_path: Path) -> None:
        if wire == "stdio":
            command, *arguments = LAUNCH.command()
            server: Any = StdioServerParameters(command=command, args=arguments, env=LAUNCH.environ)
        else:
            server = f"{url}/mcp"
        async with mcp.Client(server, mode=mode) as client:
            by_name = await client.call_tool("snow_depth", {"subject": "Zugspitze"})
            by_call_tool = await client.call_tool("call_tool", {"name": "snow_depth", "arguments": {}})
        assert (by_name.structured_content or {})["cm"] == (by_call_tool.structured_content or {})["cm"] == 42


@every("wire", ["stdio", "session"])
class TestStateless:
    async def test_what_a_search_told_brings_its_tools_into_the_list(
        self, url: str, wire: Wire, tmp_path: Path
    ) -> None:
        async with Client(transport(wire, url, tmp_path / "log")) as client:
            found = await client.call_tool("tool_search", {"query": "select:tides"})
            assert found.meta is not None
            brought = {META_KEY: {"active": found.meta[META_KEY]["active"]}}
            listed = await client.session.list_tools(params=mcp_types.PaginatedRequestParams(_meta=brought))
            without = await client.list_tools()
        assert [tool.name for tool in listed.tools] == [*ENTRY, "tides"]
        assert [tool.name for tool in without] == ENTRY


@asynccontextmanager
async def sdk_session(heard: Heard) -> AsyncIterator[ClientSession]:
    """A session of the SDK over stdio, in the handshake era."""
    command, *arguments = LAUNCH.command()
    environ: Mapping[str, str] = LAUNCH.environ
    parameters = StdioServerParameters(command=command, args=arguments, env=dict(environ))
    async with AsyncExitStack() as stack:
        streams = await stack.enter_async_context(stdio_client(parameters))
        session = await stack.enter_async_context(ClientSession(*streams, message_handler=heard))
        await session.initialize()
        yield session


async def test_over_one_connection_a_search_of_the_newer_era_activates_nothing(url: str, tmp_path: Path) -> None:
    async with Client(transport("stdio", url, tmp_path / "log"), mode="auto") as client:
        found = await client.call_tool("tool_search", {"query": "select:snow_depth"})
    assert (found.structured_content or {})["activated"] == []
