"""Where a server warns that what callers are listed is large: at its start, in `/ready` and in `--list`."""

from __future__ import annotations

import io
import json
import logging
from contextlib import redirect_stdout

import pytest
from fastmcp import FastMCP
from fastmcp.server import create_proxy
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from agent_utilities import create_mcp_server
from agent_utilities.catalog.context import n_tokens
from agent_utilities.seam.components import as_models_read
from agent_utilities.selection.parse import read_cli
from agent_utilities.server.command_line.listing import print_listing
from tests.every import every
from tests.server.in_process import web_of
from tests.server.servers import log_server, said_at_start

pytestmark = pytest.mark.anyio

LARGE = "a large surface"


def crowded(n: int = 45, *options: tuple[str, str], description: str = "Does it.", **server_options):
    """A server with some tools, a third of which are for files and read only."""
    environ = {"MCP_GRAPH": "off", **server_options.pop("environ", {})}
    server = create_mcp_server("crowd", environ=environ, **server_options)
    add_tools(server, n, description)
    server.surface.launch(read_cli(options))
    return server


def add_tools(server, n: int, description: str = "Does it.") -> None:
    for i in range(n):
        is_file = i % 3 == 0
        server.tool(
            lambda path="": path,
            name=f"tool_{i}",
            description=description,
            tags={"files" if is_file else "git"},
            annotations={"readOnlyHint": is_file},
        )


async def warnings_of(server) -> list[str]:
    async with web_of(server) as web:
        told = await web.get("/ready", headers={"authorization": "Bearer known"})
        return told.json().get("warnings", [])


async def told_at_start(server, capsys, log_level=None) -> str:
    return "\n".join(await said_at_start(server, capsys, log_level))


async def listing(server, *, as_json: bool = True) -> str:
    with redirect_stdout(io.StringIO()) as out:
        await print_listing(server, as_json)
    return out.getvalue()


class TestTheStart:
    async def test_warns_of_many_tools_and_says_what_would_cut_them(self, capsys):
        first, size, second = (await told_at_start(crowded(), capsys)).splitlines()
        assert first == "crowd: 45 of 45 tools permitted; no bounds"
        assert size.startswith("crowd: 45 listed, about ")
        assert second.startswith("WARNING: crowd: a large surface: 45 tools, about ")
        assert "--tool-search on" in second
        assert "--toolsets git leaves 30 " in second
        assert "--read-only leaves 15 " in second

    async def test_warns_of_few_tools_that_cost_much(self, capsys):
        assert "3 tools, about 12," in await told_at_start(crowded(3, description="words " * 2600), capsys)

    async def test_warns_of_what_is_permitted_alone(self, capsys):
        assert LARGE not in await told_at_start(crowded(45, ("--disabled-tags", "files")), capsys)

    async def test_counts_no_tool_that_its_author_disabled(self, capsys):
        server = crowded()
        server.disable(tags={"files"})
        assert LARGE not in await told_at_start(server, capsys)

    @every("option", [("--tool-search", "on"), ("--top-k", "5"), ("--query", "files")])
    async def test_does_not_where_the_list_is_cut(self, capsys, option):
        assert LARGE not in await told_at_start(crowded(45, option), capsys)

    async def test_warns_of_many_pins(self, capsys):
        said = await told_at_start(crowded(90, ("--tool-search", "on"), ("--pin", "tool_*")), capsys)
        assert "90 tools" in said
        assert "fewer --pin" in said

    async def test_offers_no_tool_search_where_it_is_denied(self, capsys):
        server = crowded(environ={"MCP_DISABLED_TOOLS": "tool_search"})
        assert "--tool-search" not in (await told_at_start(server, capsys)).partition(LARGE)[2]

    @every(("log_level", "is_said"), [("warning", True), ("error", False)])
    async def test_heeds_the_log_level(self, capsys, log_level, is_said):
        assert (LARGE in await told_at_start(crowded(), capsys, log_level=log_level)) is is_said

    async def test_logs_it_where_stderr_is_not_ours(self, caplog):
        with caplog.at_level(logging.WARNING, "agent_utilities.start"):
            await warnings_of(crowded())
        assert f"crowd: {LARGE}: 45 tools" in caplog.text


class TestReady:
    async def test_warns_without_a_name_or_a_count(self):
        assert await warnings_of(crowded()) == [
            "a large surface: over 40 tools or 10,000 tokens in every prompt; --tool-search on, --toolsets or "
            "--read-only would cut it; see what was logged at the start, or --list"
        ]

    async def test_says_the_same_however_much_is_denied(self):
        denying = crowded(
            90, environ={"MCP_DISABLED_TAGS": "files"}, auth=StaticTokenVerifier({"known": {"client_id": "monitor"}})
        )
        assert await warnings_of(denying) == await warnings_of(crowded(60))

    @every("options", [[], [("--tool-search", "on")]])
    async def test_does_not_where_little_is_listed(self, options):
        assert await warnings_of(crowded(45 if options else 40, *options)) == []

    async def test_warns_of_tools_that_came_since(self):
        far: FastMCP = FastMCP("far")
        add_tools(far, 41)
        server = create_mcp_server("near", environ={"MCP_GRAPH": "off"})
        server.mount(create_proxy(far))
        async with web_of(server) as web:
            before = (await web.get("/ready")).json()
            await web.get("/tools")
            after = (await web.get("/ready")).json()
        assert ("warnings" in before, [text.partition(":")[0] for text in after["warnings"]]) == (False, [LARGE])

    async def test_does_not_of_many_prompts(self):
        server = log_server()
        for i in range(41):
            server.prompt(lambda: "", name=f"prompt_{i}")
        async with web_of(server) as web:
            await web.get("/tools?tools=none_of_them")
            await server.list_prompts()
            assert "warnings" not in (await web.get("/ready")).json()


class TestListing:
    async def test_warns_in_json_and_on_the_screen(self):
        warning = json.loads(await listing(crowded()))["warning"]
        assert warning.startswith("a large surface: 45 tools, about ")
        assert (await listing(crowded(), as_json=False)).splitlines()[-1] == warning

    async def test_does_not_of_a_small_one(self):
        assert json.loads(await listing(log_server()))["warning"] is None

    async def test_tells_what_is_attached_where_tools_are_deferred(self):
        server = crowded(45, ("--tool-search", "on"))
        assert json.loads(await listing(server))["line"] == "0 of 45 attached, 0 of 24 active"
        assert "0 of 45 attached, 0 of 24 active" in (await listing(server, as_json=False)).splitlines()

    async def test_tells_nothing_of_it_otherwise(self):
        assert json.loads(await listing(crowded()))["line"] is None


async def test_a_tool_is_counted_as_its_definition_is():
    server = log_server()
    server.tool(lambda names, n=3: names, name="undescribed", annotations={"readOnlyHint": True})
    tools = await server.list_tools()
    definitions = [
        tool.to_mcp_tool(name=tool.name).model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools
    ]
    assert [n_tokens(as_models_read(tool)) for tool in tools] == [n_tokens(definition) for definition in definitions]
