"""`GET /context` where tools are deferred: of a request that stands alone, and of a session, as the wire lists them."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx2
import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from agent_utilities.catalog.context import n_tokens
from tests.server.in_process import web_of
from tests.server.servers import log_server, running

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

TOKENS = {name: {"client_id": name, "scopes": []} for name in ("ann", "bob")}


def hub(tool_search: str = "on", **options):
    """A server that defers: four tools of its own, one of them pinned, and six of a server mounted in it."""
    environ = {"MCP_TOOL_SEARCH": tool_search, "MCP_PINNED_TOOLS": "tail_log", **options.pop("environ", {})}
    server = log_server(environ=environ, instructions="Ask before you delete.", **options)
    kid: FastMCP = FastMCP("kid")
    for i in range(6):
        kid.tool(lambda: "", name=f"play_{i}", description=f"Play number {i}.")
    server.mount(kid)
    return server


async def report(server, url="/context", **headers):
    async with web_of(server) as web:
        return (await web.get(url, headers=headers)).json()


def rows(told):
    return {(row["section"], row["server"]): row["n_tools"] for row in told["rows"]}


@asynccontextmanager
async def session(url: str, **headers: str):
    """A session over a real socket, and how to ask for its report."""
    transport = StreamableHttpTransport(f"{url}/mcp", headers=headers)
    async with Client(transport, mode="legacy") as client, httpx2.AsyncClient(base_url=url) as web:

        async def context(path: str = "/context", **others: str):
            sent = {"mcp-session-id": transport.get_session_id() or "", **headers, **others}
            return (await web.get(path, headers=sent)).json()

        yield client, context


class TestARequestThatStandsAlone:
    async def test_has_entry_tools_and_pins_and_the_rest_is_deferred(self):
        told = await report(hub())
        assert rows(told) == {
            ("entry tools", "logs"): 2,
            ("pins", "logs"): 1,
            ("instructions", "logs"): 0,
            ("deferred", "kid"): 6,
            ("deferred", "logs"): 3,
        }
        assert (told["line"], told["active_line"]) == ("0 of 10 attached, 0 of 24 active", "MCP active: 0/24")

    async def test_has_what_it_brings(self):
        told = await report(hub(), **{"x-mcp-active": "play_1,rotate_log", "x-mcp-max-active": "3"})
        assert (rows(told)["active", "kid"], rows(told)["active", "logs"]) == (1, 1)
        assert told["active_line"] == "MCP active: 2/3 (play_1, rotate_log)"

    async def test_costs_what_the_wire_lists_and_says(self):
        with running(hub()) as url:
            async with Client(f"{url}/mcp", mode="legacy") as client, httpx2.AsyncClient(base_url=url) as web:
                listed = await client.list_tools()
                definitions = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed]
                instructions = client.initialize_result.instructions
                told = (await web.get("/context")).json()
        assert told["total"] == sum(map(n_tokens, definitions)) + n_tokens(instructions)

    async def test_undeferred_would_cost_what_it_costs_with_tool_search_off(self):
        assert (await report(hub()))["undeferred_tokens"] == (await report(hub("off")))["total"]

    async def test_has_no_section_of_deferral_where_the_operator_turned_it_off(self):
        assert rows(await report(hub("off"), **{"x-mcp-tool-search": "on"})) == {
            ("listed", "kid"): 6,
            ("listed", "logs"): 4,
            ("instructions", "logs"): 0,
        }

    async def test_what_is_denied_counts_nowhere(self):
        denying = hub(environ={"MCP_DISABLED_TOOLS": "rotate_log,play_1"})
        told = await report(denying, **{"x-mcp-active": "play_1,rotate_log"})
        assert (told["n_permitted"], told["n_active"], told["active"]) == (8, 0, [])

    async def test_definitions_of_the_entry_tools_come_first(self):
        told = await report(hub(), "/context?definitions=true")
        names = [each["definition"]["name"] for each in told["definitions"]]
        assert names[:3] == ["tool_search", "call_tool", "tail_log"]
        assert len(told["instructions"]) > len(told["undeferred_instructions"]) == len("Ask before you delete.")


@pytest.mark.outside
class TestASession:
    async def test_has_what_it_loaded(self):
        with running(hub()) as url:
            async with session(url) as (client, context):
                await client.call_tool("play_3")
                await client.call_tool("tool_search", {"query": "select:rotate_log"})
                told = await context()
        assert told["of_session"] is True
        assert told["active_line"] == "MCP active: 2/24 (play_3, rotate_log)"

    async def test_costs_what_its_next_list_costs(self):
        with running(hub()) as url:
            async with session(url) as (client, context):
                await client.call_tool("play_3")
                told = await context("/context?definitions=true")
                listed = [tool.name for tool in await client.list_tools()]
        shown = [each["definition"]["name"] for each in told["definitions"] if each["section"] != "deferred"]
        assert shown == listed == ["tool_search", "call_tool", "tail_log", "play_3"]

    async def test_tells_how_many_were_evicted(self):
        with running(hub(environ={"MCP_MAX_ACTIVE": "2"})) as url:
            async with session(url) as (client, context):
                for i in range(5):
                    await client.call_tool(f"play_{i}")
                told = await context()
        assert (told["line"], told["n_evicted"]) == ("0 of 10 attached, 2 of 2 active", 3)

    async def test_is_left_as_it_is(self):
        with running(hub()) as url:
            async with session(url) as (client, context):
                await client.call_tool("play_3")
                asked = await context(**{"x-mcp-active": "play_5"})
                told = await context()
        assert asked["active"] == ["play_3", "play_5"]
        assert told["active"] == ["play_3"]

    async def test_is_known_to_no_other_session(self):
        with running(hub()) as url:
            async with session(url) as (one, _), session(url) as (other, context):
                await one.call_tool("play_3")
                await other.call_tool("play_4")
                assert (await context())["active"] == ["play_4"]

    async def test_is_gone_when_it_ends(self):
        server = hub()
        with running(server) as url:
            async with session(url) as (client, context):
                await client.call_tool("play_3")
                before = await context()
                ended = {"mcp-session-id": client.transport.get_session_id()}
            async with httpx2.AsyncClient(base_url=url) as web:
                while (after := (await web.get("/context", headers=ended)).json())["of_session"]:
                    pass  # the connection is still winding down
        assert (before["active"], after["active"]) == (["play_3"], [])

    async def test_of_another_user_reads_like_one_that_never_was(self):
        with running(hub(auth=StaticTokenVerifier(TOKENS))) as url:
            async with session(url, authorization="Bearer ann") as (client, context):
                await client.call_tool("play_3")
                own = await context()
                others = await context(authorization="Bearer bob")
                unknown = await context(**{"mcp-session-id": "f" * 32, "authorization": "Bearer bob"})
        assert own["active"] == ["play_3"]
        assert others == unknown
        assert others["active"] == []
