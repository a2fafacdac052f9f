"""A tool that calls a server of ours does so within the bounds of the request that it serves (law L1)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.from_thread import run as from_thread
from fastmcp import Client, Context, FastMCP
from fastmcp.contrib.bulk_tool_caller import BulkToolCaller
from fastmcp.server import create_proxy
from mcp_types import PromptReference

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.features.usage.feature import Usage
from agent_utilities.mcp.request import ToolCalled
from agent_utilities.selection.channels import META_KEY
from tests.audit.records import of_file
from tests.every import every
from tests.features.access.team import Team, bearing
from tests.mcp.servers import log_server, over_http, tool_names

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
both_eras = every("mode", ["auto", "legacy"])
BOUNDS = {
    "a deny of tools": ("/mcp?disabled_tools=delete_log,cleanup,log://keys,secret_*", {}, {}),
    "a deny of tags": ("/mcp?disabled_tags=write", {}, {}),
    "an allow-list in a header": (
        "/mcp",
        {"x-mcp-enabled-tools": "do,tail_log,triage,log://status,log://?name?".replace("?name?", "{name}")},
        {},
    ),
    "its own _meta": ("/mcp", {}, {META_KEY: {"disabled_tags": "write"}}),
    "a path": ("/mcp/x/read,do", {}, {}),
}

Do = Callable[[Client[Any]], Awaitable[Any]]


async def outcome(asked: Awaitable[Any]) -> str:
    """What a request comes to, an error told as its text."""
    try:
        return str(await asked)
    except Exception as error:
        return f"! {error}"


def with_do(mcp: AgentServer, do: Do, target: Callable[[Context], Any] = lambda ctx: ctx.fastmcp) -> AgentServer:
    """Add a tool that has something done by a client in this process."""

    @mcp.tool(name="do", tags={"read", "do"}, annotations={"readOnlyHint": True})
    async def enter(ctx: Context) -> str:
        async with Client(target(ctx)) as client:
            return json.dumps(await do(client))

    return mcp


async def done(mcp: AgentServer, bound: str = "a deny of tags", mode: str = "auto") -> Any:
    """What the tool `do` of a server comes to for a caller under a bound."""
    url, headers, meta = BOUNDS[bound]
    app, client = over_http(mcp, url=url, headers=headers, mode=mode)
    async with app.router.lifespan_context(app), client:
        return json.loads((await client.call_tool("do", meta=meta)).data)


async def everything(client: Client[Any]) -> Any:
    """What a client in this process is listed, and what it is told of what is denied and of what never was."""
    listed = [
        sorted(tool.name for tool in await client.list_tools() if tool.name != "do"),
        [prompt.name for prompt in await client.list_prompts()],
        [str(resource.uri) for resource in await client.list_resources()],
        [template.uri_template for template in await client.list_resource_templates()],
    ]
    denied, absent = [], []
    for names, told in ((("delete_log", "cleanup", "log://keys"), denied), (("no_such", "nobody", "nil://nil"), absent)):
        for ask, name in zip((client.call_tool, client.get_prompt, client.read_resource), names, strict=True):
            told.append((await outcome(ask(name))).replace(name, "NAME"))
        reference = PromptReference(name=names[1])
        told.append((await outcome(client.complete(reference, {"name": "x", "value": ""}))).replace(names[1], "NAME"))
    return [listed, denied, absent]


PERMITTED = [["search_logs", "tail_log"], ["triage"], ["log://status"], ["log://{name}"]]


class TestWhatItsCallerIsDenied:
    @every("bound", list(BOUNDS))
    @both_eras
    async def test_is_neither_listed_nor_served_nor_told_from_what_never_was(self, bound: str, mode: str) -> None:
        listed, denied, absent = await done(with_do(log_server(), everything), bound, mode)
        tools = {"a deny of tools": ["rotate_log"], "an allow-list in a header": []}.get(bound, [])
        expected = [sorted({*PERMITTED[0], *tools}), *PERMITTED[1:]]
        if bound.startswith("an allow-list"):
            expected[0] = ["tail_log"]
        assert listed == expected
        assert denied == absent

    @both_eras
    async def test_is_not_called_in_bulk(self, mode: str) -> None:
        mcp = log_server()
        BulkToolCaller().register_tools(mcp)
        app, client = over_http(mcp, url="/mcp?disabled_tags=write", mode=mode)
        calls = [{"tool": name, "arguments": {}} for name in ("tail_log", "delete_log")]
        async with app.router.lifespan_context(app), client:
            told = (await client.call_tool("call_tools_bulk", {"tool_calls": calls})).structured_content["result"]
        assert [each["content"][0]["text"] for each in told] == ["tail of app.log", "Unknown tool: 'delete_log'"]

    @every("target", ["its own server", "another", "another's application", "a plain server's proxy"])
    async def test_stays_so_by_whichever_server_of_ours_is_entered(self, target: str) -> None:
        mcp, other, stack = log_server(), log_server(), AsyncExitStack()

        async def call(client: Client[Any]) -> str:
            return await outcome(client.call_tool("delete_log"))

        async with stack:
            targets = {"its own server": mcp, "another": other, "a plain server's proxy": create_proxy(other)}
            if target == "another's application":
                app, there = over_http(other)
                await stack.enter_async_context(app.router.lifespan_context(app))
                targets[target] = there.transport
            told = await done(with_do(mcp, call, lambda _: targets[target]))
        assert told == "! Unknown tool: 'delete_log'"

    @every("way", ["threads", "tasks", "a client of an earlier request", "a client of the lifespan"])
    @both_eras
    async def test_stays_so_from(self, way: str, mode: str) -> None:
        opened: list[Client[Any]] = []
        stack = AsyncExitStack()

        mcp = log_server()

        async def call() -> str:
            if opened:
                return await outcome(opened[0].call_tool("delete_log"))
            async with Client(mcp) as client:
                return await outcome(client.call_tool("delete_log"))

        @mcp.tool(name="do", tags={"read"})
        async def do() -> str:
            if way == "threads":
                return await anyio.to_thread.run_sync(from_thread, call)
            if way == "tasks":
                return await asyncio.create_task(call())
            return await call()

        @mcp.tool(name="open", tags={"read"})
        async def open_one() -> None:
            opened.append(await stack.enter_async_context(Client(mcp)))

        app, narrow = over_http(mcp, url="/mcp?disabled_tags=write", mode=mode)
        async with app.router.lifespan_context(app), stack, narrow:
            if way == "a client of the lifespan":
                opened.append(await stack.enter_async_context(Client(mcp)))
            elif way.startswith("a client"):
                wide = await stack.enter_async_context(Client(narrow.transport.__class__(
                    "http://127.0.0.1/mcp", httpx_client_factory=narrow.transport.httpx_client_factory
                ), mode=mode))
                await wide.call_tool("open")
                assert "deleted" in (await wide.call_tool("do")).data
            assert (await narrow.call_tool("do")).data == "! Unknown tool: 'delete_log'"
            if opened:  # and nothing of it is left in the client
                assert (await opened[0].call_tool("delete_log")).data == "deleted"
