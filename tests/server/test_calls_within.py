"""A tool that calls a server of ours does so within the bounds of the request that it serves (law L1)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
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
from agent_utilities.seam.request import ToolCalled
from agent_utilities.selection.channels import META_KEY
from tests.access.team import Team
from tests.every import every
from tests.server.servers import log_server, over_http, tool_names

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


async def test_a_caller_who_wants_nothing_destroyed_has_nothing_destroyed_by_what_they_call() -> None:
    app, client = over_http(with_do(log_server(), names_of), url="/mcp?no_destructive")
    async with app.router.lifespan_context(app), client:
        listed = [tool.name for tool in await client.list_tools()]
        assert json.loads((await client.call_tool("do")).data) == listed
        assert "delete_log" not in listed


async def names_of(client: Client[Any]) -> list[str]:
    return [tool.name for tool in await client.list_tools()]


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
    for names, told in (
        (("delete_log", "cleanup", "log://keys"), denied),
        (("no_such", "nobody", "nil://nil"), absent),
    ):
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
                wide = await stack.enter_async_context(
                    Client(
                        narrow.transport.__class__(
                            "http://127.0.0.1/mcp", httpx_client_factory=narrow.transport.httpx_client_factory
                        ),
                        mode=mode,
                    )
                )
                await wide.call_tool("open")
                assert "deleted" in (await wide.call_tool("do")).data
            assert (await narrow.call_tool("do")).data == "! Unknown tool: 'delete_log'"
            if opened:  # and nothing of it is left in the client
                assert (await opened[0].call_tool("delete_log")).data == "deleted"


def parts(named: Callable[[FastMCP[Any]], FastMCP[Any]] = lambda inner: inner) -> tuple[AgentServer, AgentServer]:
    """A server, and one that is mounted in it under a prefix; each has a tool that asks the other."""
    inner = log_server(environ={"MCP_GRAPH": "off"})
    outer = create_mcp_server("outer", environ={"MCP_GRAPH": "off"})
    outer.mount(named(inner), namespace="child")

    def asking(host: AgentServer, target: AgentServer, prefix: str) -> None:
        @host.tool(tags={"read"}, annotations={"readOnlyHint": True})
        async def ask(name: str) -> str:
            async with Client(target) as client:
                listed = sorted(name for name in await tool_names(client) if not name.endswith("ask"))
                return json.dumps([listed, await outcome(client.call_tool(f"{prefix}{name}"))])

    asking(outer, inner, "")
    asking(inner, outer, "child_")
    return outer, inner


async def asked(host: AgentServer, url: str, name: str = "delete_log", tool: str = "ask") -> Any:
    """What a server's tool is told by the other one, for a caller of a URL."""
    app, client = over_http(host, url=url)
    async with app.router.lifespan_context(app), client:
        return json.loads((await client.call_tool(tool, {"name": name})).data)


TOOLS = ["delete_log", "rotate_log", "search_logs", "tail_log"]


class TestBetweenAServerAndOneThatIsMountedInIt:
    @every(
        ("query", "listed"),
        [
            ("disabled_tools=child_delete_log", ["rotate_log", "search_logs", "tail_log"]),
            ("disabled_tools=delete_log", ["rotate_log", "search_logs", "tail_log"]),
            ("disabled_tags=delete", ["rotate_log", "search_logs", "tail_log"]),
            ("read_only=true", ["search_logs", "tail_log"]),
            ("tools=ask,child_tail_log", ["tail_log"]),
            ("tools=ask,tail_log,delete_log", []),
            ("tools=ask,child_*&disabled_tools=child_*_logs,child_d*", ["rotate_log", "tail_log"]),
        ],
    )
    async def test_a_bound_by_the_callers_names_holds_in_the_mounted_one(self, query: str, listed: list[str]) -> None:
        told, denied = await asked(parts()[0], f"/mcp?{query}")
        assert (told, denied) == (listed, "! Unknown tool: 'delete_log'")
        assert (await asked(parts()[0], f"/mcp?{query}", "tail_log"))[1].startswith("!") is ("tail_log" not in listed)

    @every(
        ("query", "listed"),
        [
            ("disabled_tools=delete_log", ["rotate_log", "search_logs", "tail_log"]),
            ("disabled_tags=delete", ["rotate_log", "search_logs", "tail_log"]),
            ("tools=ask,tail_log", ["tail_log"]),
        ],
    )
    async def test_a_bound_by_the_mounted_ones_names_holds_in_the_other(self, query: str, listed: list[str]) -> None:
        told, denied = await asked(parts()[1], f"/mcp?{query}")
        assert (told, denied) == ([f"child_{name}" for name in listed], "! Unknown tool: 'child_delete_log'")

    async def test_it_holds_through_a_mounted_plain_server_and_from_the_mounted_ones_own_tool(self) -> None:
        middle = FastMCP("middle")

        def in_middle(inner: FastMCP[Any]) -> FastMCP[Any]:
            middle.mount(inner, namespace="deep")
            return middle

        outer, _ = parts(in_middle)
        told, denied = await asked(outer, "/mcp?disabled_tools=child_deep_delete_log")
        assert (told, denied) == (["rotate_log", "search_logs", "tail_log"], "! Unknown tool: 'delete_log'")

    async def test_nothing_that_is_permitted_is_lost_without_bounds(self) -> None:
        told, answer = await asked(parts()[0], "/mcp")
        assert told == TOOLS
        assert "deleted" in answer


class TestBehindAProxyInThisProcess:
    @every("again", [False, True])
    async def test_a_callers_bounds_are_by_the_names_that_they_see(self, again: bool) -> None:
        outer, _ = parts(create_proxy)
        app, client = over_http(outer, url="/mcp?tools=child_tail_log,child_triage,ask,log://child/status")
        async with app.router.lifespan_context(app), client:
            for _ in range(1 + again):
                assert await tool_names(client) == ["ask", "child_tail_log"]
                assert (await client.call_tool("child_tail_log")).data == "tail of app.log"
                assert (await client.get_prompt("child_triage")).messages[0].content.text == "look"
                assert (await client.read_resource("log://child/status"))[0].text == "fine"
                told = json.loads((await client.call_tool("ask", {"name": "delete_log"})).data)
                assert told == [[], "! Unknown tool: 'delete_log'"]
        wide, other = over_http(outer)
        async with wide.router.lifespan_context(wide), other:  # what one caller was shown is no bound of another's
            assert len(await tool_names(other)) == 6
            assert (await other.call_tool("child_search_logs")).data == "lines with "

    async def test_a_deny_by_the_callers_name_holds_in_the_server_behind(self) -> None:
        told, denied = await asked(parts(create_proxy)[0], "/mcp?disabled_tools=child_delete_log")
        assert denied == "! Unknown tool: 'delete_log'"
        assert told == ["rotate_log", "search_logs", "tail_log"]


class TestWhatIsMadeWithin:
    async def test_is_neither_searched_nor_deferred_as_its_caller_asked(self) -> None:
        async def names(client: Client[Any]) -> list[str]:
            return await tool_names(client)

        mcp = with_do(log_server(environ={"MCP_TOOL_SEARCH": "on"}), names)
        app, client = over_http(mcp, url="/mcp?q=rotate&top_k=1&tool_search=on")
        async with app.router.lifespan_context(app), client:
            assert sorted(json.loads((await client.call_tool("do")).data)) == sorted([*TOOLS, "do"])

    async def test_searches_what_its_caller_may_use_alone(self) -> None:
        async def search(client: Client[Any]) -> Any:
            found = (await client.call_tool("tool_search", {"query": "log"})).structured_content
            return [json.dumps(found), await outcome(client.call_tool("call_tool", {"name": "delete_log"}))]

        found, denied = await done(with_do(log_server(environ={"MCP_TOOL_SEARCH": "on"}), search))
        assert "tail_log" in found
        assert "delete_log" not in found
        assert denied == "! Unknown tool: 'delete_log'"

    async def test_is_narrowed_further_by_what_it_asks_for_itself_and_never_widened(self) -> None:
        async def both(client: Client[Any]) -> list[str]:
            asking = {META_KEY: {"tools": "tail_log,delete_log"}}
            return [await outcome(client.call_tool(name, meta=asking)) for name in ("search_logs", "delete_log")]

        assert await done(with_do(log_server(), both)) == [
            "! Unknown tool: 'search_logs'",
            "! Unknown tool: 'delete_log'",
        ]

    async def test_reads_the_plain_list_of_an_application_in_this_process_under_them_too(self) -> None:
        mcp = log_server()

        @mcp.tool(name="do", tags={"read"})
        async def do() -> str:
            async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as web:
                return json.dumps([tool["name"] for tool in (await web.get("/tools")).json()["tools"]])

        app, client = over_http(mcp, url="/mcp?disabled_tags=write")
        async with app.router.lifespan_context(app), client:
            assert json.loads((await client.call_tool("do")).data) == ["tail_log", "search_logs", "do"]

    async def test_leads_on_with_the_bounds_of_all_that_it_is_made_in(self) -> None:
        first, second, third = log_server(), log_server(), log_server()

        async def call(client: Client[Any]) -> str:
            return await outcome(client.call_tool("delete_log"))

        async def on(client: Client[Any]) -> Any:
            return json.loads((await client.call_tool("do", meta={META_KEY: {"disabled_tools": "rotate_log"}})).data)

        async def last(client: Client[Any]) -> Any:
            return [await call(client), await outcome(client.call_tool("rotate_log"))]

        with_do(second, last, lambda _: third)
        assert await done(with_do(first, on, lambda _: second)) == [
            "! Unknown tool: 'delete_log'",
            "! Unknown tool: 'rotate_log'",
        ]

    @every("mode", ["auto", "legacy"])
    async def test_is_a_persons_own_to_a_rule_the_record_quotas_and_usage(self, mode: str, tmp_path: Path) -> None:
        team = Team(tmp_path)
        team.write(
            team.settings.read_text().replace("{", "{{").replace("}", "}}") + "\n[quota]\ncalls_per_minute = 3\n"
        )
        record, calls = tmp_path / "audit.jsonl", []
        mcp = team.server({"MCP_AUDIT_FILE": str(record), "MCP_USAGE_FILE": str(tmp_path / "usage.jsonl")})

        async def both(client: Client[Any]) -> list[str]:
            return [await outcome(client.call_tool(name)) for name in ("git_push", "git_log", "git_log", "git_log")]

        with_do(mcp, both)
        mcp.features.observe(lambda event: calls.append(event.request.caller.subject), ToolCalled)
        app, client = over_http(mcp, headers=team.token("bob"), mode=mode)
        async with app.router.lifespan_context(app), client:
            told = json.loads((await client.call_tool("do")).data)
        assert told[0] == "! Unknown tool: 'git_push'"
        assert [answer.startswith("! refused by a quota: you may have 3") for answer in told] == [False] * 3 + [True]
        assert set(calls) == {"bob"}
        lines = [line for line in map(json.loads, record.read_text().splitlines()) if line.get("tool")]
        assert {(line["subject"], line["tool"]) for line in lines} == {
            ("bob", name) for name in ("do", "git_push", "git_log")
        }
