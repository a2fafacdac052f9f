"""What `--list` shows of a server that defers tools: what the first list of a caller who stands alone shows."""

from __future__ import annotations

import io
import json
import re
from contextlib import asynccontextmanager, redirect_stdout
from typing import Any

import pytest

from agent_utilities import AgentServer, create_gateway, create_mcp_server
from agent_utilities.catalog.context import n_tokens
from agent_utilities.errors import SelectionError
from agent_utilities.selection.parse import read_cli
from agent_utilities.server.command_line.listing import print_listing
from tests.every import every
from tests.query.graph.agents import PATIENT
from tests.server.in_process import ask, listed, web_of
from tests.server.servers import said_at_start

pytestmark = pytest.mark.anyio

QUERY = "archive a photo"
ON = ("--tool-search", "on")
DEFERRING = (ON, ("--query", QUERY))
SIX_TOOLS = tuple(f"{verb}_{noun}" for verb in ("create", "read", "archive") for noun in ("photo", "invoice"))
ENTRY_TOOLS = ["tool_search", "call_tool"]
FINAL = "tool search is off by env MCP_TOOL_SEARCH, which --tool-search on cannot lift"


def shop(*options: tuple[str, str], **environ: str) -> AgentServer:
    """A server of six tools, launched with options; queries are off unless a graph folder is given."""
    # By words: vectors, where there is a model, are waited for here, and come behind a served list.
    given = {**PATIENT, "MCP_RANKER": "lexical"} if "MCP_GRAPH_FOLDER" in environ else {"MCP_GRAPH": "off"}
    server = create_mcp_server("shop", environ={**given, **environ})
    for name in SIX_TOOLS:
        verb, noun = name.split("_")
        server.tool(lambda: "done", name=name, description=f"{verb.capitalize()} one {noun}.", tags={noun})
    server.surface.launch(read_cli(options))
    return server


async def printed(server: AgentServer, *, as_json: bool = False) -> str:
    with redirect_stdout(io.StringIO()) as out:
        await print_listing(server, as_json)
    return out.getvalue()


async def read(server: AgentServer) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(await printed(server, as_json=True))
    return told


def shown(told: dict[str, Any]) -> list[str]:
    return [row["name"] for row in told["components"] if row["verdict"] == "visible"]


class TestWhatEndsALaunch:
    @every("option", [("--disabled-tools", "raed_photo"), ("--tools", "photo")])
    async def test_ends_the_listing(self, option):
        with pytest.raises(SelectionError):
            await printed(shop(option))

    async def test_is_nothing_that_the_authors_lifespan_adds(self):
        @asynccontextmanager
        async def lifespan(server):
            server.tool(lambda: "", name="added")
            yield

        server = create_mcp_server("late", environ={"MCP_GRAPH": "off"}, lifespan=lifespan)
        server.surface.launch(read_cli([("--disabled-tools", "added")]))
        assert "0 of 1 tools visible" in await printed(server)


class TestAQueryWhereToolsAreDeferred:
    async def test_shows_what_a_caller_is_listed_first(self, tmp_path):
        told = await read(shop(*DEFERRING, MCP_GRAPH_FOLDER=str(tmp_path)))
        async with web_of(shop(*DEFERRING, MCP_GRAPH_FOLDER=str(tmp_path))) as web:
            in_list = await listed(web, "/mcp")
        assert len(ENTRY_TOOLS) < len(in_list) < len(SIX_TOOLS) + len(ENTRY_TOOLS)
        assert sorted(shown(told)) == sorted(in_list)

    async def test_counts_what_answers_it_as_attached(self, tmp_path):
        told = await read(shop(*DEFERRING, MCP_GRAPH_FOLDER=str(tmp_path)))
        n_attached = len(shown(told)) - len(ENTRY_TOOLS)
        assert told["line"] == f"{n_attached} of 6 attached, 0 of 24 active"
        assert n_attached > 0

    async def test_attaches_no_more_than_a_first_turn_does(self, tmp_path):
        told = await read(shop(*DEFERRING, ("--initial-k", "1"), MCP_GRAPH_FOLDER=str(tmp_path)))
        assert shown(told) == [*ENTRY_TOOLS, "archive_photo"]

    async def test_gives_the_rank_of_each(self, tmp_path):
        told = await read(shop(*DEFERRING, MCP_GRAPH_FOLDER=str(tmp_path)))
        reasons = {row["name"]: row["reason"] for row in told["components"]}
        assert reasons["archive_photo"].startswith("rank 1")

    async def test_attaches_nothing_where_queries_are_off(self):
        told = await read(shop(*DEFERRING))
        assert (shown(told), told["query"]) == (ENTRY_TOOLS, "off")


class TestTheEntryTools:
    async def test_come_first_and_cost_what_a_caller_is_sent(self):
        server = shop(ON)
        first, second = (await read(server))["components"][:2]
        async with web_of(server) as web:
            sent = (await ask(web, "/mcp")).json()["result"]["tools"]
        assert [row["name"] for row in (first, second)] == [tool["name"] for tool in sent] == ENTRY_TOOLS
        assert [row["tokens"] for row in (first, second)] == [n_tokens(tool) for tool in sent]

    async def test_are_in_the_cost_of_every_turn(self):
        told = await read(shop(ON, ("--pin", "read_photo")))
        visible = [row["tokens"] for row in told["components"] if row["verdict"] == "visible"]
        assert (len(visible), told["totals"]["visible_tokens"]) == (3, sum(visible))

    async def test_are_not_counted_among_the_servers_own(self):
        totals = (await read(shop(ON)))["totals"]
        assert (totals["tools"], totals["permitted"], totals["visible"], totals["entry_tools"]) == (6, 6, 0, 2)

    async def test_say_what_they_are_for(self):
        rows = (await read(shop(ON)))["components"]
        assert [row["reason"] for row in rows[:2]] == [
            "by which deferred tools are found",
            "by which deferred tools are called",
        ]

    async def test_are_in_the_line_below_the_table(self):
        out = " ".join((await printed(shop(ON))).split())
        assert re.search(
            r"0 of 6 tools visible, 6 permitted, and 2 entry tools; about \d+ tokens on every turn, all tools \d+", out
        )

    async def test_call_tool_is_missing_where_it_is_denied(self):
        assert shown(await read(shop(ON, ("--disabled-tools", "call_tool")))) == ["tool_search"]

    async def test_are_not_there_where_nothing_is_deferred(self):
        told = await read(shop())
        assert (shown(told), told["totals"]["entry_tools"]) == (list(SIX_TOOLS), 0)

    async def test_are_not_there_where_too_few_tools_are_permitted(self):
        assert shown(await read(shop(("--tool-search", "auto:6")))) == list(SIX_TOOLS)


class TestAnOffThatIsFinal:
    async def test_is_told_by_the_listing(self):
        server = shop(ON, MCP_TOOL_SEARCH="off")
        assert FINAL in (await printed(server)).splitlines()
        assert (await read(server))["notices"] == [FINAL]

    async def test_is_told_in_the_line_at_the_start(self, capsys):
        told = await said_at_start(shop(ON, MCP_TOOL_SEARCH="off"), capsys)
        assert (told[0], told[2]) == ("shop: 6 of 6 tools permitted; no bounds", f"note: {FINAL}")

    async def test_is_told_at_the_start_of_a_gateway(self, tmp_path):
        environ = {"MCP_GRAPH": "off", "MCP_TOOL_SEARCH": "0", "MCP_GATEWAY_FOLDER": str(tmp_path)}
        gateway = create_gateway({"mcpServers": {}}, environ=environ)
        gateway.surface.launch(read_cli([("--tool-search", "auto:9")]))
        assert gateway.surface.operator.notices[0] == FINAL.replace("search on", "search auto:9")

    @every(
        ("options", "environ"),
        [
            ((), {"MCP_TOOL_SEARCH": "off"}),
            ((ON,), {}),
            ((ON,), {"MCP_TOOL_SEARCH": "auto"}),
            ((("--tool-search", "off"),), {"MCP_TOOL_SEARCH": "off"}),
            ((("--tool-search", "off"),), {"MCP_TOOL_SEARCH": "on"}),
        ],
    )
    async def test_is_not_where_the_command_line_asks_for_nothing_else(self, options, environ):
        assert (await read(shop(*options, **environ)))["notices"] == []
