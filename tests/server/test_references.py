"""References in tools' schemas are resolved as FastMCP does it; a tool without any is looked through once."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import Client
from fastmcp.server.middleware import dereference
from fastmcp.tools.base import Tool
from pydantic import BaseModel

from agent_utilities import AgentServer, create_mcp_server

pytestmark = pytest.mark.anyio


class Place(BaseModel):
    """Somewhere."""

    name: str


def with_a_model(server: AgentServer) -> AgentServer:
    @server.tool
    def go(place: Place) -> str:
        return place.name

    @server.tool
    def stay(hours: int) -> str:
        return str(hours)

    return server


async def schemas(server: AgentServer) -> dict[str, dict[str, Any]]:
    async with Client(server) as client:
        return {tool.name: tool.input_schema for tool in await client.list_tools()}


async def test_schemas_are_whole_in_every_list() -> None:
    server = with_a_model(create_mcp_server("x", environ={}))
    first, second = await schemas(server), await schemas(server)
    assert first == second
    assert first["go"]["properties"]["place"]["properties"] == {"name": {"type": "string"}}
    assert "$ref" not in str(first)


async def test_an_author_may_have_references_stay() -> None:
    server = with_a_model(create_mcp_server("x", environ={}, dereference_schemas=False))
    assert (await schemas(server))["go"]["properties"]["place"] == {"$ref": "#/$defs/Place"}


async def test_a_tool_without_any_is_looked_through_once_and_its_successor_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_through: list[str] = []
    resolve = dereference._dereference_tool

    def noted(tool: Tool) -> Tool:
        looked_through.append(tool.name)
        return resolve(tool)

    monkeypatch.setattr(dereference, "_dereference_tool", noted)
    server = create_mcp_server("x", environ={})
    server.tool(lambda: "done", name="plain")
    await schemas(server)
    await schemas(server)
    assert looked_through == ["plain"]
    server.local_provider.remove_tool("plain")

    @server.tool(name="plain")
    def other(place: Place) -> str:
        return place.name

    assert "$ref" not in str((await schemas(server))["plain"])
