"""`call_tool` is the call of the tool that it names: nothing more is told, and nothing less."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.caching import ResponseCachingMiddleware
from mcp_types import CLIENT_CAPABILITIES_META_KEY

from tests.background_tasks import tasks_extension
from tests.search.conversation import Asking, InSession, Stateless, names_in, result_of
from tests.server.in_process import web_of
from tests.wire.search_server import LEAKED, PERMITTED, search_server

pytestmark = pytest.mark.anyio
DEFERRED = {"MCP_GRAPH": "off", "MCP_RANKER": "lexical", "MCP_TOOL_SEARCH": "on"}


@asynccontextmanager
async def callers() -> AsyncIterator[tuple[Asking, Asking]]:
    """A caller of 2026-07-28 and one in a session, of a server with a tool that fails and one that adds."""
    mcp = search_server(with_denied=False, environ=DEFERRED)

    @mcp.tool
    def fail(number: int = 0) -> str:
        raise ToolError("out of paper")

    @mcp.tool
    def add(numbers: list[float]) -> float:
        return sum(numbers)

    async with web_of(mcp) as web:
        yield Stateless(web), await InSession.open(web)


def direct(name: str, arguments: Any) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": name, "arguments": arguments}


def by_call_tool(name: Any, arguments: Any) -> tuple[str, dict[str, Any]]:
    return direct("call_tool", {"name": name, "arguments": arguments})


def text(answer: bytes) -> str:
    return " / ".join(part["text"] for part in result_of(answer)["content"])


class TestAnswers:
    async def test_an_answer_is_that_of_the_direct_call_to_the_byte(self) -> None:
        for name, arguments in [
            ("add", {"numbers": [1, 2.5]}),
            ("read_note", {"text": "x" * 1_000_000}),
            ("fail", {}),
            ("fail", {"number": "5"}),
            ("no_tool", {}),
            ("", {"text": "x"}),
        ]:
            async with callers() as both:
                for caller in both:
                    if name:
                        assert await caller.ask(*by_call_tool(name, arguments)) == await caller.ask(
                            *direct(name, arguments)
                        )

    async def test_arguments_that_are_wrong_bring_the_schema_after_the_direct_calls_error(self) -> None:
        async with callers() as both:
            for caller in both:
                said = text(await caller.ask(*direct("fail", {"number": "many"})))
                told = text(await caller.ask(*by_call_tool("fail", {"number": "many"})))
                assert told.startswith(f"{said} / fail takes: {{")

    async def test_arguments_as_json_text_are_read(self) -> None:
        async with callers() as both:
            for caller in both:
                assert text(await caller.ask(*by_call_tool("add", '{"numbers": [1, 2]}'))) == "3.0"

    async def test_arguments_that_are_no_object_are_what_is_said_to_be_wrong(self) -> None:
        for arguments in ["[" * 100_000, "x" * 1_000_000, [1], 5, True, '"text"', "[1]"]:
            async with callers() as both:
                for caller in both:
                    told = text(await caller.ask(*by_call_tool("read_note", arguments)))
                    assert told.startswith("wrong arguments for call_tool: 'arguments' is ")
                    assert len(told) < 400

    async def test_a_name_that_is_none_is_what_is_said_to_be_wrong(self) -> None:
        for name in [None, "", 5, ["read_note"], {"name": "read_note"}, "call_tool"]:
            async with callers() as both:
                for caller in both:
                    told = text(await caller.ask(*by_call_tool(name, {})))
                    assert told.startswith("wrong arguments for call_tool: 'name' is ")

    async def test_what_is_given_beside_arguments_runs_no_tool_without_it(self) -> None:
        flat = {"numbers": [1, 2]}
        for given in ({"args": flat}, {"parameters": flat}, {"input": flat}, flat, {"arguments": flat, "x": None}):
            for wrapped in (given, {"arguments": {"name": "add", **given}}):
                name = "call_tool" if wrapped is not given else "add"
                async with callers() as both:
                    for caller in both:
                        result = result_of(await caller.ask(*direct("call_tool", {"name": name, **wrapped})))
                        assert result["isError"]
                        told = result["content"][0]["text"]
                        assert told.startswith("wrong arguments for call_tool: there is no '")
                        assert told.endswith("its own arguments as an object in `arguments`")

    async def test_a_search_by_any_of_its_names_takes_nothing_that_its_schema_does_not_say(self) -> None:
        for name in ["tool_search", "mcp_load", "ToolSearch", "search_tools"]:
            async with callers() as both:
                for caller in both:
                    for question in (
                        direct(name, {"query": "note", "limit": 3}),
                        by_call_tool(name, {"query": "note", "limit": 3}),
                    ):
                        assert text(await caller.ask(*question)).startswith("no such argument: 'limit'")

    async def test_the_schemas_say_so_too(self) -> None:
        async with callers() as both:
            for caller in both:
                tools = result_of(await caller.ask("tools/list"))["tools"]
                assert [tool["inputSchema"]["additionalProperties"] for tool in tools[:2]] == [False, False]


class TestNesting:
    async def test_call_tool_calls_itself_a_few_times_at_most(self) -> None:
        name, arguments = "read_note", {"text": "deep"}
        answers: list[bool] = []
        async with callers() as (caller, _):
            for _ in range(6):
                name, arguments = "call_tool", {"name": name, "arguments": arguments}
                answers.append(bool(result_of(await caller.ask(*direct(name, arguments)))["isError"]))
        assert answers == [False] * 4 + [True] * 2

    async def test_a_search_by_call_tool_is_a_search(self) -> None:
        for alias in ["tool_search", "mcp_load", "ToolSearch", "search_tools"]:
            async with callers() as both:
                for caller in both:
                    answer = await caller.ask(*by_call_tool(alias, {"query": "select:read_note"}))
                    assert [tool["name"] for tool in json.loads(text(answer))["tools"]] == ["read_note"]


@pytest.mark.tasks
class TestTasks:
    async def test_a_call_as_a_background_task_is_a_task_of_the_tool_that_is_named(self) -> None:
        mcp = search_server(with_denied=False, environ=DEFERRED)
        mcp.add_extension(tasks_extension())

        @mcp.tool(task=True)
        async def brew(cups: int = 1) -> str:
            return f"{cups} cups"

        offered = {"_meta": {CLIENT_CAPABILITIES_META_KEY: {"extensions": {"io.modelcontextprotocol/tasks": {}}}}}
        async with web_of(mcp) as web:
            caller = Stateless(web)
            told: list[Any] = []
            for method, params in (direct("brew", {"cups": 2}), by_call_tool("brew", {"cups": 2})):
                made = result_of(await caller.ask(method, {**params, **offered, "task": {"ttl": 60_000}}))
                state: dict[str, Any] = {"status": "working"}
                async with asyncio.timeout(60):
                    while state["status"] == "working":
                        state = result_of(await caller.ask("tasks/get", {"taskId": made["taskId"], **offered}))
                told.append(state["result"]["content"])
        assert told[0] == told[1]
        assert told[1][0]["text"] == "2 cups"


class TestResponseCache:
    async def test_a_cache_answers_no_search_and_no_call_for_another_caller(self) -> None:
        mcp = search_server(with_denied=True, environ=DEFERRED, middleware=[ResponseCachingMiddleware()])
        async with web_of(mcp) as web:
            caller = Stateless(web)
            question = direct("tool_search", {"query": "select:open_vault"})
            assert LEAKED.encode() in await caller.ask(*question)
            assert LEAKED.encode() not in await caller.ask(*question, **{"x-mcp-disabled-tags": "vault"})
            first, second = await InSession.open(web), await InSession.open(web)
            await first.ask(*direct("tool_search", {"query": "select:read_note"}))
            await second.ask(*direct("tool_search", {"query": "select:read_note"}))
            assert [names_in(await each.ask("tools/list")) for each in (first, second)] == [["read_note"]] * 2


class TestTheAuthorsMiddleware:
    async def test_that_refuses_a_call_refuses_it_by_call_tool_too(self) -> None:
        class Closed(Middleware):
            async def on_call_tool(self, context: Any, call_next: Any) -> Any:
                if context.message.name == "read_note":
                    raise ToolError("closed today")
                return await call_next(context)

        mcp = search_server(with_denied=False, environ=DEFERRED, middleware=[Closed()])
        async with web_of(mcp) as web:
            for caller in (Stateless(web), await InSession.open(web)):
                for question in (direct("read_note", {}), by_call_tool("read_note", {})):
                    assert text(await caller.ask(*question)) == "closed today"

    async def test_that_renames_all_tools_leaves_none_deferred_as_no_search_knows_its_names(self) -> None:
        class Renamed(Middleware):
            async def on_list_tools(self, context: Any, call_next: Any) -> Any:
                return [tool.model_copy(update={"name": f"my_{tool.name}"}) for tool in await call_next(context)]

            async def on_call_tool(self, context: Any, call_next: Any) -> Any:
                name = context.message.name.removeprefix("my_")
                message = context.message.model_copy(update={"name": name})
                return await call_next(context.copy(message=message))

        mcp = search_server(with_denied=False, environ=DEFERRED, middleware=[Renamed()])
        async with web_of(mcp) as web:
            for caller in (Stateless(web), await InSession.open(web)):
                names = names_in(await caller.ask("tools/list"))
                assert names == [f"my_{name}" for name in PERMITTED]
                assert text(await caller.ask(*direct("my_read_note", {}))) == "read_note"

    async def test_that_leaves_an_entry_tool_out_of_lists_is_heeded(self) -> None:
        for bound in [{}, {"MCP_ENABLED_TOOLS": "read_note,send_mail"}]:

            class Hiding(Middleware):
                async def on_list_tools(self, context: Any, call_next: Any) -> Any:
                    return [tool for tool in await call_next(context) if tool.name != "call_tool"]

            mcp = search_server(with_denied=False, environ={**DEFERRED, **bound}, middleware=[Hiding()])
            async with web_of(mcp) as web:
                for caller in (Stateless(web), await InSession.open(web)):
                    tools = result_of(await caller.ask("tools/list"))["tools"]
                    assert [tool["name"] for tool in tools] == ["tool_search"]

    async def test_that_fails_to_list_fails_no_call(self) -> None:
        class Failing(Middleware):
            async def on_list_tools(self, context: Any, call_next: Any) -> Any:
                raise ToolError("no lists today")

        mcp = search_server(with_denied=False, environ=DEFERRED, middleware=[Failing()])
        async with web_of(mcp) as web:
            for caller in (Stateless(web), await InSession.open(web)):
                assert text(await caller.ask(*direct("read_note", {}))) == "read_note"
