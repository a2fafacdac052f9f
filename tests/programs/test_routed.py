"""`ToolRouter` with programs: `run_program` is one of its tools, over those of its client."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError

from agent_utilities import SettingsError, ToolRouter
from agent_utilities.catalog.context import n_tokens

pytest.importorskip("pydantic_monty")
pytestmark = [pytest.mark.anyio, pytest.mark.outside]
ROWS = [{"id": i, "name": f"row {i}"} for i in range(500)]


def client() -> Client[Any]:
    server = FastMCP("rows")
    reads = {"readOnlyHint": True}

    @server.tool(name="list-rows", annotations=reads)
    def list_rows() -> list[dict[str, Any]]:
        return ROWS

    @server.tool(annotations=reads)
    def row(id: int) -> dict[str, Any]:
        if id >= len(ROWS):
            raise ToolError(f"no row {id}")
        return ROWS[id]

    @server.tool
    def drop(id: int) -> str:
        return f"dropped {id}"

    return Client(server)


async def said(router: ToolRouter, code: str) -> str:
    return router.text_of(await router.handle("run_program", {"code": code}))


async def test_a_program_calls_the_client_s_tools() -> None:
    async with ToolRouter(client(), programs="all") as router:
        assert await said(router, "rows = await list_rows()\nlen(rows)") == "500"
        assert await said(router, "r = await row(id=3)\n[r['name'], await drop(id=3)]") == '["row 3","dropped 3"]'
        assert "RuntimeError: row: no row 900" in await said(router, "await row(id=900)")


async def test_it_may_be_called_through_call_tool_where_tools_are_deferred() -> None:
    async with ToolRouter(client(), programs="read") as router:
        called = await router.handle("call_tool", {"name": "run_program", "arguments": {"code": "1 + 1"}})
        assert router.text_of(called) == "2"
        assert router.knows("run_program")


async def test_with_read_only_tools_others_do_not_exist() -> None:
    async with ToolRouter(client(), programs="read") as router:
        assert "nothing was called" in await said(router, "await drop(id=3)")


async def test_it_is_listed_with_its_functions_and_off_by_default() -> None:
    listed = []
    for programs in ("off", "read"):
        async with ToolRouter(client(), tool_search="off", programs=programs) as router:  # type: ignore[arg-type]
            listed.append({tool["name"]: tool.get("description", "") for tool in router.tools()})
    assert list(listed[0]) == ["list-rows", "row", "drop"]
    assert "row(id: int)" in listed[1]["run_program"]
    assert "drop" not in listed[1]["run_program"]


async def test_what_it_gives_back_keeps_to_the_budget() -> None:
    async with ToolRouter(client(), programs="all", result_tokens=500) as router:
        result = await router.handle("run_program", {"code": "await list_rows()"})
        assert n_tokens(router.text_of(result)) <= 500
        handle = result.meta["agent-utilities/result"]["handle"]
        read = await router.handle("read_result", {"result": handle, "select": "[432].name"})
    assert "row 432" in router.text_of(read)


async def test_a_function_in_place_of_a_client_is_called() -> None:
    async def call(name: str, arguments: dict[str, Any]) -> Any:
        return {"total": arguments["n"] * 2}

    definition = {"name": "double", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    async with ToolRouter([definition], call=call, programs="all") as router:
        assert await said(router, "(await double(n=4))['total']") == "8"


def test_a_mode_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError, match="programs"):
        ToolRouter([], programs="some")  # type: ignore[arg-type]
