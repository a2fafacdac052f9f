"""`MCP_NO_MATCH=search`: entry tools stand for a long list that nothing answers, in both eras, on real wires."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp_types import PaginatedRequestParams

from agent_utilities import selection_meta
from agent_utilities.cli.explain import explain
from agent_utilities.selection.channels import META_KEY
from tests.every import every, every_of
from tests.search.test_active_set import Heard
from tests.wire.large_server import DENIED, ENTRY, NAMES, UNFIT
from tests.wire.processes import Launch, served

pytestmark = [pytest.mark.outside, pytest.mark.anyio, pytest.mark.timeout(300)]
Era = Literal["legacy", "auto"]
ERAS: tuple[Era, ...] = ("legacy", "auto")


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Launch:
    """How the server of 396 tools is launched: nine more are denied, words rank, and its graph is waited for."""
    env = (
        ("MCP_GRAPH", "embedded"),
        ("MCP_GRAPH_FOLDER", str(tmp_path_factory.mktemp("graph"))),
        ("MCP_GRAPH_DEADLINE_MS", "60000"),
        ("MCP_DISABLED_TAGS", "vault"),
    )
    return Launch(env, ("--no-match", "search"), "large_server.py")


@pytest.fixture(scope="module")
def url(launch: Launch) -> Iterator[str]:
    with served(launch) as process:
        yield process.url


@pytest.fixture
async def clients(url: str) -> AsyncIterator[Mapping[Era, Client[Any]]]:
    """A client of each era."""
    async with AsyncExitStack() as stack:
        yield {era: await stack.enter_async_context(Client(f"{url}/mcp", mode=era)) for era in ERAS}


async def listed(client: Client[Any], **asked: Any) -> tuple[list[str], dict[str, Any]]:
    """Return the names in a list, and what is told of it."""
    params = PaginatedRequestParams.model_validate({"_meta": selection_meta(**asked)} if asked else {})
    result = await client.session.list_tools(params=params)
    return [tool.name for tool in result.tools], (result.meta or {})[META_KEY]


async def said(client: Client[Any], name: str, arguments: dict[str, Any] | None = None, **asked: Any) -> str:
    """Return what a call says, be it an error."""
    meta = selection_meta(**asked) if asked else None
    result = await client.call_tool(name, arguments or {}, raise_on_error=False, meta=meta)
    return str(result.content[0].text)


@every_of("client", "clients")
class TestTheList:
    async def test_is_the_entry_tools_and_says_so(self, client: Client[Any]) -> None:
        names, told = await listed(client, query=UNFIT)
        assert names == ENTRY
        assert (told["status"], told["permitted"], told["visible"], told["deferred"]) == ("no_match", 396, 0, 396)
        assert told["cause"].startswith("nothing fits")

    async def test_is_what_answers_where_anything_does(self, client: Client[Any]) -> None:
        names, told = await listed(client, query="export a passport")
        assert (told["status"], len(names), "deferred" in told) == ("fresh", 15, False)
        assert names == [name for name in NAMES if name in names]
        assert (await listed(client, query=UNFIT))[0] == ENTRY  # what answered the last turn is not attached

    async def test_is_everything_permitted_where_nothing_is_asked(self, client: Client[Any]) -> None:
        names, told = await listed(client)
        assert (names, told["status"], "deferred" in told) == (list(NAMES), "off", False)

    async def test_is_everything_permitted_where_bounds_leave_no_more_than_fifty(self, client: Client[Any]) -> None:
        few = NAMES[:50]
        assert (await listed(client, query=UNFIT, tools=few))[0] == list(few)
        assert (await listed(client, query=UNFIT, tools=NAMES[:51]))[0] == ENTRY

    async def test_has_pins_besides(self, client: Client[Any]) -> None:
        names, told = await listed(client, query=UNFIT, pin=["export_photo_*", "open_vault_1"])
        assert names == [*ENTRY, *(name for name in NAMES if name.startswith("export_photo_"))]
        assert told["deferred"] == 396 - (len(names) - 2)

    @every("asked", [{"disabled_tools": ["tool_search"]}, {"tool_search": "off"}])
    async def test_is_everything_permitted_for_who_may_or_will_not_search(
        self, client: Client[Any], asked: dict[str, Any]
    ) -> None:
        names, told = await listed(client, query=UNFIT, **asked)
        assert (names, told["status"], "deferred" in told) == (list(NAMES), "no_match", False)

    async def test_is_tool_searchs_own_where_a_caller_has_it_on(self, client: Client[Any]) -> None:
        assert (await listed(client, tool_search="on"))[0] == ENTRY
        names, told = await listed(client, tool_search="on", query="export a passport")
        assert names[:2] == ENTRY
        assert told["deferred"] == 396 - told["visible"]


@every_of("client", "clients")
class TestEntryTools:
    async def test_answer_by_name_though_a_call_brings_no_query(self, client: Client[Any]) -> None:
        await listed(client, query=UNFIT)
        result = await client.call_tool("tool_search", {"query": "export a passport", "max_results": 1})
        assert result.structured_content is not None
        (found,) = result.structured_content["tools"]
        assert found["name"].startswith("export_passport_")
        arguments = {"name": found["name"], "arguments": {"subject": "Ada"}}
        assert await said(client, "call_tool", arguments) == f"{found['name']} Ada"

    async def test_answer_who_was_never_listed_anything(self, client: Client[Any]) -> None:
        assert await said(client, "call_tool", {"name": "read_song_1"}) == "read_song_1"

    async def test_find_what_is_permitted_and_nothing_else(self, client: Client[Any]) -> None:
        wanted = NAMES[::17]
        result = await client.call_tool("tool_search", {"query": "select:" + ",".join((*wanted, DENIED[0]))})
        assert result.structured_content is not None
        assert [tool["name"] for tool in result.structured_content["tools"]] == list(wanted)
        assert list(result.structured_content["unknown"]) == [DENIED[0]]

    @every("name", [DENIED[0], "open_vault_x"])
    async def test_call_no_denied_tool_which_reads_like_one_that_never_was(
        self, client: Client[Any], name: str
    ) -> None:
        answer = await said(client, "call_tool", {"name": name})
        assert answer.replace(name, "NAME") == "Unknown tool: 'NAME'"
        assert answer == await said(client, name)

    @every("name", ENTRY)
    @every("asked", [{"tools": NAMES[:50]}, {"disabled_tools": ["tool_search"]}])
    async def test_are_names_that_never_were_where_nothing_can_be_deferred(
        self, client: Client[Any], name: str, asked: dict[str, Any]
    ) -> None:
        never = (await said(client, "nonesuch", **asked)).replace("nonesuch", name)
        assert await said(client, name, {"query": "song", "name": NAMES[0]}, **asked) == never

    async def test_are_not_told_of_where_the_server_is_greeted(self, client: Client[Any]) -> None:
        assert "tool_search" not in str(client.initialize_result)


async def test_in_a_session_what_was_found_is_listed_beside_them(url: str) -> None:
    heard = Heard()
    async with Client(f"{url}/mcp", mode="legacy", message_handler=heard) as client:
        assert (await listed(client, query=UNFIT))[0] == ENTRY
        await client.call_tool("tool_search", {"query": "select:read_song_1"})
        await asyncio.wait_for(heard.notices.get(), 60)
        assert (await listed(client, query=UNFIT))[0] == [*ENTRY, "read_song_1"]
        assert (await listed(client))[0] == list(NAMES)
        await client.call_tool("read_song_2", {})
        await client.call_tool("call_tool", {"name": "read_song_3"})
        assert (await listed(client, query=UNFIT))[0] == [*ENTRY, "read_song_1"]
        assert heard.notices.empty()


async def test_a_request_that_stands_alone_brings_what_was_found(url: str) -> None:
    async with Client(f"{url}/mcp") as client:
        result = await client.call_tool("tool_search", {"query": "select:read_song_1"})
        assert result.structured_content is not None
        active = result.structured_content["active"]
        assert (await listed(client, query=UNFIT, active=active))[0] == [*ENTRY, "read_song_1"]
        assert (await listed(client, query=UNFIT))[0] == ENTRY


@every("era", ERAS)
async def test_over_stdio_it_is_the_same(launch: Launch, era: Era, tmp_path: Path) -> None:
    command, *arguments = launch.command()
    transport = StdioTransport(command, arguments, env=launch.environ, keep_alive=False, log_file=tmp_path / "log")
    async with Client(transport, mode=era) as client:
        assert (await listed(client, query=UNFIT))[0] == ENTRY
        assert await said(client, "call_tool", {"name": "read_song_1"}) == "read_song_1"


class TestOverHttp:
    def test_the_routes_tell_the_same(self, url: str) -> None:
        answer = httpx2.get(f"{url}/tools?q=zxqv").json()
        report, whole = (httpx2.get(f"{url}/context{query}").json() for query in ("?q=zxqv", ""))
        assert [tool["name"] for tool in answer["tools"]] == ENTRY
        assert (answer["selection"]["status"], answer["selection"]["deferred"]) == ("no_match", 396)
        lines = report["line"], whole["line"]
        assert lines == ("0 of 396 attached, 0 of 24 active", "396 of 396 listed")
        assert report["undeferred_tokens"] == whole["total"] > 20 * report["total"]

    def test_explain_says_how_the_rest_is_found(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        explain(f"{url}/mcp", query=["q=zxqv"], as_json=True)
        rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["tools"]}
        assert [rows[name]["verdict"] for name in (*ENTRY, NAMES[0])] == ["visible", "visible", "deferred"]
        assert DENIED[0] not in rows
