"""Wrong arguments are told to a model in one line: what, the value, what would do."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import anyio
import mcp_types
import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from pydantic import Field

from agent_utilities import create_mcp_server
from tests.every import every


def tail(
    path: str,
    n_lines: Annotated[int, Field(ge=1, le=2000)] = 50,
    level: Literal["ERROR", "INFO"] = "INFO",
    fields: list[int] | None = None,
) -> str:
    return path


def served() -> FastMCP[Any]:
    server = create_mcp_server("logs", environ={}, mask_error_details=True)
    server.tool(tail)
    return server


def mounted() -> FastMCP[Any]:
    plain: FastMCP[Any] = FastMCP("plain")
    plain.tool(tail)
    server = create_mcp_server("outer", environ={})
    server.mount(plain)
    return server


def told(server: FastMCP[Any], **arguments: Any) -> str:
    async def call() -> str:
        async with Client(server) as client:
            with pytest.raises(ToolError) as caught:
                await client.call_tool("tail", arguments)
            return str(caught.value)

    return anyio.run(call)


@every("server", [served, mounted])
@every(
    ("arguments", "text"),
    [
        ({}, "'path' is missing"),
        ({"path": "a", "lines": 3}, "there is no 'lines', did you mean 'n_lines'?"),
        ({"path": "a", "zzz": 3}, "there is no 'zzz', it takes path, n_lines, level, fields"),
        (
            {"path": "a", "n_lines": "many"},
            "'n_lines' is 'many', input should be a valid integer, unable to parse string as an integer",
        ),
        ({"path": "a", "n_lines": 0}, "'n_lines' is 0, input should be greater than or equal to 1"),
        ({"path": 1, "level": "INF"}, "'path' is 1, input should be a valid string; 'level' is 'INF', input should be"),
        ({"path": "a", "fields": [1, "b"]}, "'fields.1' is 'b', input should be a valid integer"),
        ({"path": ["x" * 500]}, "'path' is ['" + "x" * 77 + "…, input should be a valid string"),
        ({"path": "a", "fields": ["b"] * 9}, "; and 4 more"),
    ],
)
def test_one_line_tells_what_the_value_and_what_would_do(server: Any, arguments: dict[str, Any], text: str) -> None:
    line = told(server(), **arguments)
    assert line.startswith("wrong arguments for tail: ")
    assert text in line
    assert ("\n" in line, "pydantic" in line) == (False, False)


class TestArgumentsThatAreNoObject:
    @pytest.mark.anyio
    @every("mode", ["legacy", "auto"])
    @every("arguments", ['{"path": "a"}', [1], 5, True, "", [], 0])
    @every("name", ["tail", "call_tool", "tool_search", "nonesuch"])
    async def test_are_told_by_their_key(self, mode: str, arguments: Any, name: str) -> None:
        server = create_mcp_server("logs", environ={"MCP_TOOL_SEARCH": "on"})
        server.tool(tail)
        async with Client(server, mode=mode) as client:
            asked = mcp_types.CallToolRequest(
                params=mcp_types.CallToolRequestParams.model_construct(name=name, arguments=arguments)
            )
            with (
                pytest.warns(UserWarning, match="serializ"),
                pytest.raises(MCPError, match="`arguments` is no object: "),
            ):
                await client.session.send_request(asked, mcp_types.CallToolResult)
