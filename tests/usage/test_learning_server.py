"""What was called on a server moves what it lists next: for whom its operator says so, and never past a bound."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from mcp_types import PaginatedRequestParams

from agent_utilities import AgentServer, create_gateway, create_mcp_server, selection_meta
from agent_utilities.query.resolution.answer import Limits
from agent_utilities.selection.channels import META_KEY
from tests.every import every
from tests.parts import query_of, usage_of
from tests.query.graph.wrapped import until
from tests.server.servers import over_http
from tests.usage.logs import flushed

pytestmark = pytest.mark.anyio

QUERY = "write a letter"
TOKENS = {"token-anna": {"client_id": "app", "sub": "anna"}, "token-bert": {"client_id": "app", "sub": "bert"}}


def office(folder: Path, **options: Any) -> AgentServer:
    """A server that logs words, where a letter is written, signed and sent, and much else can be done."""
    environ = {
        "MCP_USAGE": "words",
        "MCP_USAGE_FILE": str(folder / "usage.db"),
        "MCP_GRAPH_FOLDER": str(folder),
        "MCP_RANKER": "lexical",
        "MCP_GRAPH_DEADLINE_MS": "60000",
        **options.pop("environ", {}),
    }
    mcp = create_mcp_server("office", environ=environ, **options)
    texts = {"write_letter": "Write a letter.", "sign": "Put a name below.", "post": "Hand over to the carrier."}
    texts |= {f"other_{number}": f"Does thing number {number}." for number in range(20)}
    for name, text in texts.items():
        mcp.tool(lambda: "done", name=name, description=text)
    query_of(mcp).resolver.limits = Limits(refresh_gap_s=0.0)
    return mcp


@asynccontextmanager
async def serving(server: AgentServer, **options: Any) -> AsyncIterator[Client[Any]]:
    app, client = over_http(server, **{"mode": "legacy", **options})
    async with app.router.lifespan_context(app), client:
        yield client


async def told(client: Client[Any], query: str = QUERY, **selection: Any) -> dict[str, Any]:
    """Return what a list says of itself."""
    meta = {"_meta": selection_meta(query=query, **selection)}
    listed = await client.session.list_tools(params=PaginatedRequestParams.model_validate(meta))
    assert listed.meta is not None
    told: dict[str, Any] = listed.meta[META_KEY]
    return told


async def written(server: AgentServer) -> None:
    """Wait until all that was called is in the log."""
    log = usage_of(server).log
    assert log is not None
    await flushed(log)


async def learned(server: AgentServer) -> None:
    """Wait until all that was called is learned from."""
    await written(server)
    teaching = query_of(server).resolver.teaching
    assert teaching is not None
    teaching.news()
    await until(lambda: teaching.health()["settled"], "read and learned")


async def use(server: AgentServer, client: Client[Any], *tools: str) -> None:
    """Call tools, and wait until that is learned from."""
    await told(client)
    for tool in tools:
        await client.call_tool(tool)
    await learned(server)


def logs(folder: Path) -> list[Path]:
    """Return the files of the log, and of what stands beside it."""
    return list(folder.glob("usage*"))


class TestLists:
    async def test_a_tool_that_was_used_fills_what_a_query_leaves_free(self, tmp_path: Path) -> None:
        server = office(tmp_path)
        async with serving(server) as client:
            assert (await told(client))["ranked"] == ["write_letter"]
            await use(server, client, "post")
            assert (await told(client))["ranked"] == ["write_letter", "post"]

    async def test_a_list_says_which_tools_stand_in_it_for_usage_alone(self, tmp_path: Path) -> None:
        server = office(tmp_path)
        async with serving(server) as client:
            await use(server, client, "post")
            assert (await told(client))["by_usage"] == ["post"]

    async def test_a_tool_is_not_filled_in_over_top_k(self, tmp_path: Path) -> None:
        server = office(tmp_path)
        async with serving(server) as client:
            await use(server, client, "post")
            assert (await told(client, top_k=1))["ranked"] == ["write_letter"]

    async def test_nothing_is_filled_in_that_the_caller_may_not_use(self, tmp_path: Path) -> None:
        server = office(tmp_path)
        async with serving(server) as client:
            await use(server, client, "post")
            assert (await told(client, disabled_tools=["post"]))["ranked"] == ["write_letter"]

    async def test_a_request_that_was_answered_by_a_call_is_answered_by_that_tool_again(self, tmp_path: Path) -> None:
        server = office(tmp_path)
        async with serving(server) as client:
            await told(client, "bring it to the mailbox round the corner")
            await client.call_tool("post")
            await learned(server)
            assert (await told(client, "round the corner to the mailbox"))["ranked"][0] == "post"

    @every("curation", ["words", "off"])
    async def test_usage_moves_nothing_where_the_operator_says_so(self, tmp_path: Path, curation: str) -> None:
        server = office(tmp_path, environ={"MCP_CURATION": curation})
        async with serving(server) as client:
            before = await told(client)
            await client.call_tool("post")
            await written(server)
            assert await told(client) == before

    async def test_a_query_shows_everything_where_curation_is_off(self, tmp_path: Path) -> None:
        async with serving(office(tmp_path, environ={"MCP_CURATION": "off"})) as client:
            answer = await told(client)
        assert (answer["visible"], answer["status"], answer["cause"]) == (23, "off", "curation is off")


class TestSubjects:
    async def test_what_one_did_teaches_him_and_no_other(self, tmp_path: Path) -> None:
        server = office(tmp_path, environ={"MCP_USAGE_SCOPE": "subject"}, auth=StaticTokenVerifier(tokens=TOKENS))
        app, anna = over_http(server, headers={"authorization": "Bearer token-anna"}, mode="legacy")
        bert = Client(type(anna.transport)(anna.transport.url, headers={"authorization": "Bearer token-bert"}))
        bert.transport.httpx_client_factory = anna.transport.httpx_client_factory
        async with app.router.lifespan_context(app), anna, bert:
            for client in (anna, bert):  # what one did is read when he first asks
                await told(client)
            await use(server, anna, "post")
            assert [(await told(client))["ranked"] for client in (anna, bert)] == [
                ["write_letter", "post"],
                ["write_letter"],
            ]

    async def test_no_name_of_a_subject_is_in_the_log(self, tmp_path: Path) -> None:
        server = office(tmp_path, environ={"MCP_USAGE_SCOPE": "subject"}, auth=StaticTokenVerifier(tokens=TOKENS))
        async with serving(server, headers={"authorization": "Bearer token-anna"}) as client:
            await use(server, client, "post")
        assert b"anna" not in b"".join(path.read_bytes() for path in logs(tmp_path))


class TestWhatIsLogged:
    async def test_a_server_logs_nothing_where_nobody_says(self, tmp_path: Path) -> None:
        server = office(tmp_path, environ={"MCP_USAGE": ""})
        async with serving(server) as client:
            await client.call_tool("post")
        assert logs(tmp_path) == []

    async def test_a_gateway_counts_where_nobody_says(self, tmp_path: Path) -> None:
        gateway = create_gateway({"mcpServers": {}}, environ={"MCP_GATEWAY_FOLDER": str(tmp_path)})
        assert usage_of(gateway).mode == "counts"

    async def test_a_log_that_cannot_be_written_fails_no_call(self, tmp_path: Path) -> None:
        (tmp_path / "usage.db").mkdir()
        async with serving(server := office(tmp_path)) as client:
            await told(client)
            assert (await client.call_tool("post")).content[0].text == "done"
            await written(server)
            assert server.health()["usage"]["state"] != "logging"

    async def test_what_was_called_is_there_after_a_stop(self, tmp_path: Path) -> None:
        async with serving(office(tmp_path)) as client:
            await client.call_tool("post")
            await client.list_tools()
        with closing(sqlite3.connect(tmp_path / "usage.db")) as log:
            assert log.execute("SELECT tool FROM calls").fetchall() == [("post",)]
            assert log.execute("SELECT count(*) FROM lists").fetchall() == [(23,)]

    async def test_where_calls_are_logged_is_told_at_the_start(self, tmp_path: Path) -> None:
        told = usage_of(office(tmp_path)).start_lines()
        log = tmp_path / "usage.db"
        assert told == [f"calls, and the words that led to them, are logged in {log}; MCP_USAGE=off logs none"]

    async def test_nothing_is_told_where_nothing_is_logged(self, tmp_path: Path) -> None:
        assert usage_of(office(tmp_path, environ={"MCP_USAGE": "off"})).start_lines() == []
