"""What a tool comes to on the wire is made once, and is the same as if it were made for each list."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.tools.base import Tool
from httpx2 import ASGITransport, AsyncClient

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.server.wire import lists
from tests.every import every
from tests.server.servers import over_http

pytestmark = pytest.mark.anyio

MODERN = "2026-07-28"


def with_tools(server: Any) -> Any:
    server.tool(lambda a, b="x": "", name="plain", tags={"z", "a"}, meta={"own": [1]})
    server.tool(lambda: "", name="old", version="1", annotations={"readOnlyHint": True})
    server.tool(lambda: "", name="old", version="2", title="Two")
    return server


def ours() -> AgentServer:
    return with_tools(create_mcp_server("x", environ={"MCP_GRAPH": "off", "MCP_GROUPS": "off"}, version="1"))


async def bodies(server: Any, n: int, **params: Any) -> list[str]:
    """Return the tools of so many lists over HTTP, as they were sent."""
    meta = {"protocolVersion": MODERN, "clientInfo": {"name": "t", "version": "1"}, "clientCapabilities": {}}
    given = {**params, "_meta": {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": given}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/list",
    }
    app = server.http_app()
    async with app.router.lifespan_context(app), AsyncClient(transport=ASGITransport(app)) as client:
        sent = [await client.post("http://localhost/mcp", json=message, headers=headers) for _ in range(n)]
    return [json.dumps(each.json()["result"]["tools"]) for each in sent]


async def test_every_list_is_as_fastmcp_sends_it() -> None:
    (theirs,) = await bodies(with_tools(FastMCP("x", version="1")), 1)
    assert await bodies(ours(), 3) == [theirs] * 3


@every("mode", [MODERN, "legacy"])
async def test_what_an_author_changes_in_place_is_in_the_next_list(mode: str) -> None:
    server = ours()
    tool = await server.get_tool("plain")
    assert tool is not None
    app, client = over_http(server, mode=mode)
    async with app.router.lifespan_context(app), client:
        await client.session.list_tools()
        tool.parameters["properties"]["a"]["description"] = "deep within"
        tool.meta["own"].append(2)
        listed = {each.name: each for each in (await client.session.list_tools()).tools}
    assert listed["plain"].input_schema["properties"]["a"]["description"] == "deep within"
    assert listed["plain"].meta["own"] == [1, 2]


async def test_a_definition_that_is_the_same_is_not_made_ready_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    real = lists.fitted

    def counting(kind: Any, item: Any, **options: Any) -> Any:
        made.append(item["name"])
        return real(kind, item, **options)

    monkeypatch.setattr(lists, "fitted", counting)
    server = ours()
    await bodies(server, 2)
    server.tool(lambda: "", name="new")
    await bodies(server, 1)
    server.tool(lambda: "", name="long", description="x" * 20_000)  # more than is kept of one
    await bodies(server, 2)
    assert made == ["plain", "old", "new", "long", "long"]


async def test_tools_that_come_among_those_that_are_known_have_their_places() -> None:
    server, name = ours(), "plain"
    await bodies(server, 1)
    server.local_provider.remove_tool(name)
    server.tool(lambda: "", name="new")
    server.add_tool(Tool.from_function(lambda: "", name=name))
    (listed,) = await bodies(server, 1)
    assert [tool["name"] for tool in json.loads(listed)] == ["old", "new", name]


async def test_what_a_client_in_this_process_does_with_its_list_is_in_no_other() -> None:
    async with Client(ours()) as client:
        (await client.list_tools())[0].input_schema["properties"].clear()
        assert (await client.list_tools())[0].input_schema["properties"]


async def test_pages_are_the_authors() -> None:
    server = with_tools(create_mcp_server("x", environ={"MCP_GRAPH": "off"}, list_page_size=1))
    app, client = over_http(server)
    async with app.router.lifespan_context(app), client:
        for _ in range(2):
            assert [tool.name for tool in await client.list_tools()] == ["plain", "old"]


async def test_a_list_names_the_first_that_clients_cannot_read_and_counts_them_all() -> None:
    server = ours()
    for n in range(50):
        server.tool(lambda: "", name=f"odd_{n}")
        tool = await server.get_tool(f"odd_{n}")
        assert tool is not None
        tool.parameters = {"type": "object", "properties": {"a": None}}
    app, client = over_http(server, mode="legacy")
    async with app.router.lifespan_context(app), client:
        told = (await client.list_tools_mcp()).model_dump(by_alias=True)["_meta"]["agent-utilities/selection"]
    assert (len(told["unfit"]), told["n_unfit"]) == (20, 50)
