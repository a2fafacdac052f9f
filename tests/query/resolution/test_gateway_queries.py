"""Queries on a gateway: over the tools of all its upstreams, by the names that callers see, none of them started."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from pydantic import SecretStr

from agent_utilities import AgentServer, create_gateway
from agent_utilities.gateway.upstreams.config import GatewayConfig, UpstreamConfig
from agent_utilities.gateway.upstreams.folders import gateway_folder
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.query.graph.sync import server_state
from tests.gateway.upstreams.snapshots import config, snapshot, tool
from tests.parts import query_of, upstreams_of
from tests.query.graph.wrapped import until

pytestmark = pytest.mark.anyio

GIT = config("git", env={"TOKEN": SecretStr("hush-hush")})
CLOCK = config("clock", description="Knows the time zone of every city.")
TOOLS = {
    "git": [tool("git_status", "Show the working tree."), tool("blame", "Show who wrote each line.")],
    "clock": [tool("now", "Return it."), tool("convert", "Convert an hour.")],
}


@asynccontextmanager
async def served(folder: Path, *configs: UpstreamConfig) -> AsyncIterator[tuple[AgentServer, httpx2.AsyncClient]]:
    """A gateway whose upstreams were listed by an earlier run, with its graph filled."""
    store = SnapshotStore(gateway_folder("snapshots", str(folder)))
    for one in configs:
        info = {"name": f"mcp-{one.name}", "title": f"The {one.name}", "version": "1"}
        empty = {"prompts": (), "resources": (), "templates": (), "problems": ()}
        store.load(one)
        store.save(snapshot(one, *TOOLS[one.name], server_info=info, taken_at_s=time.time(), **empty))
    environ = {
        "MCP_GATEWAY_FOLDER": str(folder),
        "MCP_GRAPH": "embedded",
        "MCP_GRAPH_FOLDER": str(folder),
        "MCP_RANKER": "lexical",
        "MCP_RESULT_TOKENS": "off",
        "MCP_GRAPH_DEADLINE_MS": "60000",
    }
    gateway = create_gateway(GatewayConfig(upstreams=configs), "gw", environ=environ)
    app = gateway.http_app()
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8001", timeout=120) as client,
    ):
        await query_of(gateway).resolver.wait_for_tools()
        resolver = query_of(gateway).resolver
        await until(lambda: resolver.pipeline and resolver.pipeline.keeper.cause is None, "filled")
        yield gateway, client


async def answer(client: httpx2.AsyncClient, query: str) -> list[str]:
    """Return the names that a caller with a query is shown, in the order of the list."""
    return [tool["name"] for tool in (await client.get("/tools", params={"q": query})).json()["tools"]]


async def graph_of(gateway: AgentServer) -> EmbeddedGraph:
    """Return the gateway's open graph."""
    pipeline = query_of(gateway).resolver.pipeline
    assert pipeline is not None
    assert isinstance(pipeline.keeper.graph, EmbeddedGraph)
    return pipeline.keeper.graph


async def test_each_upstream_is_a_server_in_the_graph_with_what_is_known_of_it(tmp_path: Path) -> None:
    async with served(tmp_path, GIT, CLOCK) as (gateway, _):
        graph = await graph_of(gateway)
        state = await server_state(graph, "gw")
        assert [(node.name, node.n_tools) for node in state.nodes] == [("gw", 0), ("gw/clock", 2), ("gw/git", 2)]
        rows = await graph.read("MATCH (s:Server {name: 'gw/clock'}) RETURN s.title, s.description", {})
        assert list(rows[0].values()) == ["The clock", "Knows the time zone of every city."]


async def test_what_literally_fits_is_found_on_every_upstream_by_the_names_that_callers_see(tmp_path: Path) -> None:
    async with served(tmp_path, GIT, CLOCK) as (_, client):
        assert await answer(client, "show") == ["git_git_status", "git_blame"]
        assert await answer(client, "convert") == ["clock_convert"]
        assert await answer(client, "git_blame") == ["git_blame"]


async def test_a_request_for_what_only_the_server_is_said_to_do_finds_its_tools(tmp_path: Path) -> None:
    async with served(tmp_path, GIT, CLOCK) as (_, client):
        assert set(await answer(client, "which time zone is Lima in")) == {"clock_now", "clock_convert"}


async def test_an_upstream_that_is_taken_out_goes_from_the_graph(tmp_path: Path) -> None:
    async with served(tmp_path, GIT, CLOCK) as (gateway, client):
        n_before = query_of(gateway).resolver.pipeline.keeper.n_refreshes
        await upstreams_of(gateway).reload(GatewayConfig(upstreams=(GIT,)))
        pipeline = query_of(gateway).resolver.pipeline
        refresher = pipeline.keeper
        await until(lambda: refresher.n_refreshes > n_before and refresher.is_idle, "refreshed")
        state = await server_state(await graph_of(gateway), "gw")
        assert [node.name for node in state.nodes] == ["gw", "gw/git"]
        assert await answer(client, "show") == ["git_git_status", "git_blame"]


async def test_a_description_that_is_edited_is_ranked_by_at_once(tmp_path: Path) -> None:
    async with served(tmp_path, GIT, CLOCK) as (gateway, client):
        assert len(await answer(client, "what are the tides")) == 4  # all there are: none fits
        await upstreams_of(gateway).reload(
            GatewayConfig(upstreams=(GIT, CLOCK.model_copy(update={"description": "Tells tides."})))
        )

        async def is_found() -> bool:
            return set(await answer(client, "what are the tides")) == {"clock_now", "clock_convert"}

        await until(is_found, "ranked by")


async def test_nothing_secret_reaches_the_graph(tmp_path: Path) -> None:
    async with served(tmp_path, GIT) as (gateway, _):
        rows = await (await graph_of(gateway)).read("MATCH (n) RETURN n", {})
        assert "git" in str(rows)
        assert "hush" not in str(rows)
        assert "git-mcp" not in str(rows)  # its command
