"""Queries on tools that are not everybody's, on tools that come unannounced, and on what the ranker makes of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.auth import AuthContext
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.providers import Provider
from fastmcp.server.providers.filesystem import FileSystemProvider
from fastmcp.tools.base import Tool

from agent_utilities import AgentServer, create_mcp_server, selection_meta
from agent_utilities.compat.fastmcp_server import is_over_stdio
from agent_utilities.errors import SettingsError
from agent_utilities.query.resolution.graph_keeper import GraphKeeper
from agent_utilities.selection.model import UNRESOLVED
from agent_utilities.selection.parse import read_meta
from tests.every import every
from tests.parts import query_of
from tests.query.graph.wrapped import until

pytestmark = pytest.mark.anyio

USERS = {"admin": {"client_id": "a", "scopes": ["admin"]}, "user": {"client_id": "u", "scopes": []}}


def admin_only(context: AuthContext) -> bool:
    return context.token is not None and "admin" in context.token.scopes


def fly() -> str:
    return "done"


def unhurried(folder: Path, ranker: str) -> dict[str, str]:
    """An environment whose deadline a busy machine keeps."""
    return {"MCP_GRAPH_FOLDER": str(folder), "MCP_RANKER": ranker, "MCP_GRAPH_DEADLINE_MS": "60000"}


def guarded(folder: Path, **more: Any) -> AgentServer:
    """A server with a tool for everybody and one for administrators."""
    environ = unhurried(folder, "lexical")
    server = create_mcp_server("guarded", environ=environ, auth=StaticTokenVerifier(tokens=USERS), **more)
    server.tool(fly, name="shared_balloon", description="Fly a balloon over the town.")
    server.tool(fly, name="shared_kite", description="Fly a kite by the sea.")
    server.tool(fly, name="launch_rocket", description="Fly a rocket to orbit.", auth=admin_only)
    return server


@asynccontextmanager
async def asked(server: AgentServer) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a running server whose graph and index are ready."""
    app = server.http_app()
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8001", timeout=120) as client,
    ):
        resolver = query_of(server).resolver
        await until(lambda: resolver.pipeline, "started")
        assert resolver.pipeline is not None
        await resolver.wait_for_tools()
        await until(lambda: resolver.pipeline and resolver.pipeline.keeper.cause is None, "filled")
        await until(lambda: resolver.ranker is None or resolver.ranker.version, "indexed")
        yield client


async def answer(client: httpx2.AsyncClient, query: str, user: str = "") -> dict[str, Any]:
    headers = {"authorization": f"Bearer {user}"} if user else {}
    found: dict[str, Any] = (await client.get("/tools", params={"q": query}, headers=headers)).json()
    return found


def names(found: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in found["tools"]]


def refresher_of(server: AgentServer) -> GraphKeeper:
    pipeline = query_of(server).resolver.pipeline
    assert pipeline is not None
    return pipeline.keeper


class TestToolsWithTheirOwnAuth:
    async def test_a_query_shows_them_to_those_they_admit(self, tmp_path: Path) -> None:
        async with asked(guarded(tmp_path)) as client:
            assert names(await answer(client, "rocket", "admin")) == ["launch_rocket"]
            assert names(await answer(client, "send it to an orbit", "admin")) == ["launch_rocket"]

    @every("query", ["rocket", "launch_rocket", "orbit", "fly", "rocket balloon", "fly to the orbit"])
    async def test_to_others_they_read_like_tools_that_are_not_there(self, tmp_path: Path, query: str) -> None:
        without = guarded(tmp_path / "without")
        without.local_provider.remove_tool("launch_rocket")
        async with asked(guarded(tmp_path / "with")) as client:
            await answer(client, query, "admin")
            found = await answer(client, query, "user")
        async with asked(without) as client:
            expected = await answer(client, query, "user")
        assert {**found, "revision": "", "selection": {**found["selection"], "revision": ""}} == {
            **expected,
            "revision": "",
            "selection": {**expected["selection"], "revision": ""},
        }

    async def test_those_of_a_mounted_server_are_kept_from_others_too(self, tmp_path: Path) -> None:
        child: FastMCP[Any] = FastMCP("child")
        child.tool(fly, name="rocket", description="Fly a rocket to orbit.", auth=admin_only)
        server = guarded(tmp_path)
        server.mount(child, namespace="child")
        async with asked(server) as client:
            assert names(await answer(client, "child rocket", "admin"))[0] in ("launch_rocket", "child_rocket")
            assert "child_rocket" in names(await answer(client, "rocket", "admin"))
            assert names(await answer(client, "rocket", "user")) == ["shared_balloon", "shared_kite"]
            assert (await answer(client, "rocket", "user"))["selection"]["status"] == "no_match"
            top = await client.get("/tools?q=fly&top_k=1", headers={"authorization": "Bearer user"})
            assert top.json()["selection"]["left_out"] == 1

    async def test_a_refresh_that_one_caller_starts_lets_no_other_in(self, tmp_path: Path) -> None:
        child: FastMCP[Any] = FastMCP("child")
        child.tool(fly, name="rocket", description="Fly a rocket to orbit.", auth=admin_only)
        server = guarded(tmp_path)
        server.mount(child, namespace="child")
        growing = Growing()
        server.add_provider(growing)
        async with asked(server) as client:
            refresher = refresher_of(server)
            await until(lambda: refresher.is_idle, "filled")
            growing.tools.append(Tool.from_function(fly, name="unannounced"))
            n_refreshes = refresher.n_refreshes
            await client.get("/tools", headers={"authorization": "Bearer admin"})
            await until(lambda: refresher.n_refreshes > n_refreshes and refresher.is_idle, "refreshed")
            top = await client.get("/tools?q=fly&top_k=1", headers={"authorization": "Bearer user"})
            assert top.json()["selection"]["left_out"] == 1


class TestVersionsWithTheirOwnAuth:
    async def test_a_version_is_not_found_by_the_words_of_one_that_is_guarded(self, tmp_path: Path) -> None:
        server = guarded(tmp_path)
        server.tool(fly, name="drone", description="Fly a drone.", version="1")
        server.tool(fly, name="drone", description="Fly a drone with a missile.", version="2", auth=admin_only)
        async with asked(server) as client:
            assert names(await answer(client, "missile", "admin")) == ["drone"]
            assert (await answer(client, "missile", "user"))["selection"]["status"] == "no_match"

    async def test_one_that_is_everybodys_is_found_beside_one_that_is_not(self, tmp_path: Path) -> None:
        child: FastMCP[Any] = FastMCP("child")
        child.tool(fly, name="drone", description="Fly a drone with a missile.", version="1", auth=admin_only)
        child.tool(fly, name="drone", description="Fly a drone with a parcel.", version="2")
        server = guarded(tmp_path)
        server.mount(child, namespace="child")
        async with asked(server) as client:
            assert names(await answer(client, "parcel", "user")) == ["child_drone"]
            assert (await answer(client, "missile", "user"))["selection"]["status"] == "no_match"

    async def test_those_of_a_mounted_server_are_kept_from_others_too(self, tmp_path: Path) -> None:
        child: FastMCP[Any] = FastMCP("child")
        child.tool(fly, name="drone", description="Fly a drone.", version="1")
        child.tool(fly, name="drone", description="Fly a drone with a missile.", version="2", auth=admin_only)
        server = guarded(tmp_path)
        server.mount(child, namespace="child")
        async with asked(server) as client:
            assert names(await answer(client, "missile", "admin")) == ["child_drone"]
            assert (await answer(client, "missile", "user"))["selection"]["status"] == "no_match"


class Growing(Provider):
    """A provider that gets tools without telling of it."""

    def __init__(self) -> None:
        super().__init__()
        self.tools: list[Tool] = []

    async def _list_tools(self) -> Sequence[Tool]:
        return self.tools


class Fickle(Provider):
    """A provider that lists another tool each time."""

    def __init__(self) -> None:
        super().__init__()
        self.n_lists = 0

    async def _list_tools(self) -> Sequence[Tool]:
        self.n_lists += 1
        return [Tool.from_function(fly, name=f"tool_{self.n_lists}")]


class Personal(Provider):
    """A provider that has a tool for callers and none for introspection."""

    async def _list_tools(self) -> Sequence[Tool]:
        return [] if is_over_stdio() else [Tool.from_function(fly, name="rocket")]


class TestToolsThatComeUnannounced:
    async def test_a_list_that_shows_one_brings_it_into_the_graph(self, tmp_path: Path) -> None:
        server = create_mcp_server("growing", environ=unhurried(tmp_path, "off"))
        server.tool(fly, name="balloon")
        growing = Growing()
        server.add_provider(growing)
        async with asked(server) as client:
            assert (await answer(client, "rocket"))["selection"]["status"] == "no_match"
            growing.tools.append(Tool.from_function(fly, name="rocket"))
            assert (await client.get("/tools")).json()["selection"]["visible"] == 2

            async def found() -> bool:
                return names(await answer(client, "rocket")) == ["rocket"]

            await until(found, "the graph holds it")

    async def test_a_list_that_shows_a_changed_one_brings_it_into_graph_and_index(self, tmp_path: Path) -> None:
        server = create_mcp_server("growing", environ=unhurried(tmp_path, "lexical"))
        server.tool(fly, name="other")
        growing = Growing()
        growing.tools = [Tool.from_function(fly, name="vessel", description="a balloon")]
        server.add_provider(growing)
        async with asked(server) as client:
            assert names(await answer(client, "balloon")) == ["vessel"]
            for changed in ({"description": "a submarine"}, {"description": "a submarine", "tags": {"zeppelin"}}):
                growing.tools = [Tool.from_function(fly, name="vessel", **changed)]
                words = next(iter(changed.get("tags", ["submarine"])))
                await client.get("/tools")

                async def found(words: str = words) -> bool:
                    return names(await answer(client, words)) == ["vessel"]

                await until(found, "the new words find it")
            assert (await answer(client, "balloon"))["selection"]["status"] == "no_match"

    async def test_a_provider_that_loads_anew_with_each_list_is_refreshed_once_for_a_callers(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "tools.py").write_text(
            "from fastmcp.tools import tool\n\n@tool\ndef balloon() -> str:\n    return 'up'\n", encoding="utf-8"
        )
        server = create_mcp_server("reloading", environ=unhurried(tmp_path, "off"))
        server.add_provider(FileSystemProvider(tmp_path, reload=True))
        async with asked(server) as client:
            refresher = refresher_of(server)
            await until(lambda: refresher.is_idle and not server.changes._pending, "settled")
            n_refreshes = refresher.n_refreshes
            for _ in range(3):
                assert names((await client.get("/tools")).json()) == ["balloon"]
            await until(lambda: refresher.n_refreshes > n_refreshes, "refreshed for the callers' lists")
            n_lists = 0

            def settled() -> bool:
                nonlocal n_lists
                n_lists = n_lists + 1 if refresher.is_idle and not server.changes._pending else 0
                return n_lists > 50

            await until(settled, "nothing follows from a refresh")
            assert refresher.n_refreshes <= n_refreshes + 2, "one at once, and one for all lists since"

    async def test_a_tool_that_was_brought_in_starts_no_further_refresh(self, tmp_path: Path) -> None:
        server = create_mcp_server("growing", environ=unhurried(tmp_path, "off"))
        server.tool(fly, name="balloon")
        growing = Growing()
        server.add_provider(growing)
        async with asked(server) as client:
            refresher = refresher_of(server)
            growing.tools.append(Tool.from_function(fly, name="rocket"))
            await client.get("/tools")
            await until(lambda: refresher.n_refreshes == 2 and refresher.is_idle, "refreshed")
            for _ in range(3):
                await client.get("/tools")
            assert refresher.n_refreshes == 2

    async def test_a_tool_that_only_callers_have_is_looked_for_once(self, tmp_path: Path) -> None:
        server = create_mcp_server("personal", environ=unhurried(tmp_path, "off"))
        server.tool(fly, name="balloon")
        server.add_provider(Personal())
        async with asked(server) as client:
            refresher = refresher_of(server)
            await until(lambda: refresher.is_idle, "filled")
            n_refreshes = refresher.n_refreshes
            for _ in range(4):
                await client.get("/tools")
                await until(lambda: refresher.n_refreshes > n_refreshes and refresher.is_idle, "refreshed")
            assert refresher.n_refreshes == n_refreshes + 1

    async def test_a_change_that_is_told_of_costs_one_refresh(self, tmp_path: Path) -> None:
        server = create_mcp_server("told", environ=unhurried(tmp_path, "off"))
        server.tool(fly, name="balloon")
        async with asked(server) as client:
            refresher = refresher_of(server)
            await until(lambda: refresher.is_idle, "filled")
            n_refreshes = refresher.n_refreshes
            server.tool(fly, name="rocket")
            await until(lambda: refresher.n_refreshes > n_refreshes and refresher.is_idle, "refreshed")
            assert refresher.n_refreshes == n_refreshes + 1
            assert names(await answer(client, "rocket")) == ["rocket"]

    async def test_a_list_that_never_stays_the_same_is_refreshed_once_for_each_caller_that_lists(
        self, tmp_path: Path
    ) -> None:
        server = create_mcp_server("fickle", environ=unhurried(tmp_path, "off"))
        server.add_provider(Fickle())
        async with asked(server) as client:
            refresher = refresher_of(server)
            await until(lambda: refresher.is_idle, "filled")
            n_refreshes = refresher.n_refreshes
            await client.get("/tools")
            await until(lambda: refresher.n_refreshes > n_refreshes and refresher.is_idle, "refreshed")
            assert refresher.n_refreshes == n_refreshes + 1


class TestRankedAnswers:
    async def test_a_request_that_no_tool_bears_is_answered_by_its_words(self, tmp_path: Path) -> None:
        async with asked(guarded(tmp_path)) as client:
            found = await answer(client, "fly something over a town", "user")
            assert found["selection"]["status"] == "fresh"
            assert found["selection"]["ranked"][0] == "shared_balloon"

    async def test_a_tool_that_bears_the_query_comes_before_those_that_only_rank(self, tmp_path: Path) -> None:
        async with asked(guarded(tmp_path)) as client:
            found = await answer(client, "a kite", "user")
            assert found["selection"]["ranked"][0] == "shared_kite"

    async def test_a_query_shows_fifteen_tools_at_most_and_tells_of_the_rest(self, tmp_path: Path) -> None:
        server = create_mcp_server("many", environ=unhurried(tmp_path, "lexical"))
        for i in range(40):
            server.tool(fly, name=f"kite_{i}")
        async with asked(server) as client:
            found = await answer(client, "kite")
            assert (len(found["tools"]), found["selection"]["left_out"]) == (15, 25)
            assert len((await client.get("/tools?q=kite&top_k=30")).json()["tools"]) == 30

    async def test_where_nothing_fits_the_best_score_and_the_cut_are_told(self, tmp_path: Path) -> None:
        async with asked(guarded(tmp_path)) as client:
            assert (await answer(client, "capital of France", "user"))["selection"]["cause"].startswith(
                "nothing fits: "
            )

    async def test_each_tool_tells_where_it_stands(self, tmp_path: Path) -> None:
        async with asked(guarded(tmp_path)) as client:
            (tool,) = (await answer(client, "balloon", "user"))["tools"]
            assert (tool["rank"], tool["words"]) == (1, ["balloon"])
            assert tool["score"] > 0

    async def test_list_order_stays_that_of_the_catalog(self, tmp_path: Path) -> None:
        async with asked(guarded(tmp_path)) as client:
            found = await answer(client, "fly by the sea", "user")
            assert found["selection"]["ranked"][0] == "shared_kite"
            assert names(found) == sorted(names(found))


class TestFirstList:
    async def test_waits_for_the_graph_to_be_filled_as_long_as_for_an_answer(self, tmp_path: Path) -> None:
        environ = unhurried(tmp_path, "off")
        server = create_mcp_server("first", environ=environ)
        server.tool(fly, name="kite")
        server.tool(fly, name="balloon")
        app = server.http_app()
        transport = httpx2.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8001", timeout=120) as client,
        ):
            assert names(await answer(client, "kite")) == ["kite"]


class TestSettingsThatCannotBeMeant:
    @every(
        ("environ", "source"),
        [({"NEO4J_URI": "ftp://host"}, "env NEO4J_URI"), ({"MCP_EMBEDDINGS": "gpt"}, "env MCP_EMBEDDINGS")],
    )
    async def test_are_refused_before_anything_is_served(self, environ: dict[str, str], source: str) -> None:
        features = create_mcp_server("s", environ=environ).features
        with pytest.raises(SettingsError) as error:
            assert [feature.check() for feature in features]
        assert error.value.source == source


class TestWhatStartsNoWork:
    async def test_without_a_graph_the_first_query_waits_for_nothing(self) -> None:
        server = create_mcp_server("s", environ={"MCP_GRAPH": "off", "MCP_GRAPH_DEADLINE_MS": "60000"})
        async with Client(server), asyncio.timeout(30):
            request = await server.request(read_meta(selection_meta(query="kite")))
        assert request.verdict.preferences.resolution == UNRESOLVED

    async def test_a_list_of_prompts_refreshes_no_tools(self, tmp_path: Path) -> None:
        server = guarded(tmp_path)
        server.prompt(fly, name="brief")
        async with asked(server):
            refresher = refresher_of(server)
            await until(lambda: refresher.is_idle, "filled")
            assert [prompt.name for prompt in await server.list_prompts()] == ["brief"]
            assert refresher.is_idle


async def test_a_query_that_comes_right_at_the_start_waits_for_graph_and_ranker(tmp_path, monkeypatch):
    may_go_on = threading.Event()
    monkeypatch.setattr("agent_utilities.query.feature.load_comparison", may_go_on.wait)
    server = create_mcp_server("started", environ=unhurried(tmp_path, "lexical"))
    server.tool(fly, name="shared_kite", description="Fly a kite by the sea.")
    app = server.http_app(host_origin_protection=False)
    transport = httpx2.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx2.AsyncClient(transport=transport, base_url="http://it") as web:
        answer = asyncio.create_task(web.get("/tools?q=kite"))
        try:
            await until(lambda: not query_of(server).resolver._opened.is_set(), "asked")
            assert not answer.done()
        finally:
            may_go_on.set()
        assert (await answer).json()["selection"]["status"] == "fresh"
