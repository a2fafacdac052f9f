"""`ToolRouter` with a budget: results of a client's tools are shortened, and `read_result` is one of its tools."""

from __future__ import annotations

import pytest
from fastmcp import Client, FastMCP

from agent_utilities import SettingsError, ToolRouter
from agent_utilities.catalog.context import n_tokens

pytestmark = pytest.mark.anyio
ROWS = [{"id": i, "name": f"row {i}"} for i in range(5_000)]


def server() -> FastMCP:
    server = FastMCP("rows")
    server.tool(lambda: ROWS, name="list_rows")
    server.tool(lambda: "short", name="say")
    return server


async def test_a_long_result_is_shortened_and_read_on() -> None:
    async with ToolRouter(Client(server()), tool_search="off", result_tokens=1_000) as router:
        result = await router.handle("list_rows", {})
        assert n_tokens(router.text_of(result)) <= 1_000
        handle = result.meta["agent-utilities/result"]["handle"]
        read = await router.handle("read_result", {"result": handle, "select": "[4321].name"})
    assert "row 4321" in router.text_of(read)


async def test_a_short_one_is_the_client_s_own() -> None:
    async with ToolRouter(Client(server()), tool_search="off", result_tokens="auto") as router:
        assert router.text_of(await router.handle("say", {})) == "short"


async def test_read_result_is_listed_with_a_budget_alone() -> None:
    listed = []
    for budget in ("off", "auto"):
        async with ToolRouter(Client(server()), tool_search="off", result_tokens=budget) as router:
            listed.append([tool["name"] for tool in router.tools()])
    assert listed == [["list_rows", "say"], ["read_result", "list_rows", "say"]]


async def test_a_text_of_a_function_is_shortened_too() -> None:
    async def call(name: str, arguments: object) -> str:
        return "word " * 10_000

    router = ToolRouter([{"name": "talk", "inputSchema": {"type": "object"}}], call=call, result_tokens=500)
    assert n_tokens(router.text_of(await router.call("talk"))) <= 500


def test_a_budget_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError, match="result_tokens"):
        ToolRouter([], result_tokens="many")
