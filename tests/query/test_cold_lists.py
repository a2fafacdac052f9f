"""A first query is not wasted: graph and index are made behind the start, and who listed too early is told."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp.client.subscriptions import listen

from agent_utilities import AgentServer, create_gateway, create_mcp_server
from agent_utilities.query.ranking.lexical import LexicalRanker
from tests.parts import query_of
from tests.query.graph.wrapped import Unopened, until
from tests.server.in_process import web_of
from tests.server.servers import running
from tests.server.test_changes import Heard

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
KEY = "agent-utilities/selection"
NAMES = [f"tool_{i}" for i in range(30)]
ASKED = {"headers": {"x-mcp-query": "reads a note"}}


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Set by a test to have an index from then on."""
    index, gate = LexicalRanker.index, threading.Event()

    def held(self: LexicalRanker, *arguments: Any) -> Any:
        assert gate.wait(30), "never let go"
        return index(self, *arguments)

    monkeypatch.setattr(LexicalRanker, "index", held)
    yield gate
    gate.set()


def server_of(**environ: str) -> AgentServer:
    """Return a server that only a ranker answers queries of."""
    environ = {"MCP_GRAPH_DEADLINE_MS": "50", "MCP_RANKER": "lexical", **environ}
    server = create_mcp_server("cold", environ=environ, graph=Unopened())
    for i, name in enumerate(NAMES):
        server.tool(lambda: "done", name=name, description=f"Does thing {i}")
    server.tool(lambda: "text", name="read_note", description="Reads a note")
    return server


async def listed(client: Client[Any]) -> tuple[int, str]:
    """Return how many tools a client is listed, and what it is told of its query."""
    result = await client.list_tools_mcp()
    return len(result.tools), result.meta[KEY]["status"]


class TestWhoListedTooEarly:
    async def test_in_a_session_is_told_once_the_answer_is_there(self, warm: threading.Event) -> None:
        heard = Heard()
        server = server_of(MCP_QUERY="reads a note")
        async with Client(server, mode="legacy", message_handler=heard) as client:
            assert await listed(client) == (31, "unavailable")
            warm.set()
            await heard.tools.wait()
            assert (await listed(client))[0] == 1

    async def test_on_a_stream_is_told_so_too(self, warm: threading.Event) -> None:
        server = server_of(MCP_QUERY="reads a note")
        async with Client(server) as client, listen(client.session, tools_list_changed=True) as stream:
            assert await listed(client) == (31, "unavailable")
            warm.set()
            assert type(await anext(aiter(stream))).__name__ == "ToolsListChanged"
            assert (await listed(client))[0] == 1

    @pytest.mark.outside
    @pytest.mark.parametrize("mode", ["legacy", "auto"])
    async def test_over_http_by_words_of_their_own(self, warm: threading.Event, mode: str) -> None:
        heard = Heard()
        with running(server_of()) as url:
            transport = StreamableHttpTransport(url + "/mcp", **ASKED)
            async with Client(transport, mode=mode, message_handler=heard) as client:
                if mode == "legacy":
                    assert await listed(client) == (31, "unavailable")
                    warm.set()
                    await heard.tools.wait()
                else:
                    async with listen(client.session, tools_list_changed=True) as stream:
                        assert await listed(client) == (31, "unavailable")
                        warm.set()
                        await anext(aiter(stream))
                assert (await listed(client))[0] == 1

    @pytest.mark.outside
    async def test_others_over_http_are_told_nothing(self, warm: threading.Event) -> None:
        words = {"asking": "reads a note", "plain": "", "other": "zebra"}
        heard = {name: Heard() for name in words}
        async with AsyncExitStack() as stack:
            server, clients = server_of(), []
            url = stack.enter_context(running(server)) + "/mcp"
            for name, said in words.items():
                transport = StreamableHttpTransport(url, headers={"x-mcp-query": said})
                clients.append(Client(transport, mode="legacy", message_handler=heard[name]))
                await stack.enter_async_context(clients[-1])
                await clients[-1].list_tools()
            warm.set()
            await heard["asking"].tools.wait()
            await until(lambda: not server.changes._work, "looked for behind")
            for client in clients:
                await client.ping()
        assert [name for name, each in heard.items() if each.tools.is_set()] == ["asking"]

    async def test_is_not_told_where_nothing_answers(self, warm: threading.Event) -> None:
        heard = Heard()
        server = server_of(MCP_QUERY="zebra")
        async with Client(server, mode="legacy", message_handler=heard) as client:
            assert await listed(client) == (31, "unavailable")
            warm.set()
            await until(lambda: not query_of(server)._unanswered, "looked for behind")
            assert await listed(client) == (31, "no_match")
            assert not heard.tools.is_set()

    async def test_is_not_told_of_an_answer_that_they_have_by_now(self, warm: threading.Event) -> None:
        heard = Heard()
        server = server_of(MCP_QUERY="reads a note")
        async with Client(server, mode="legacy", message_handler=heard) as client:
            query = query_of(server)
            assert await listed(client) == (31, "unavailable")
            (key,) = query._unanswered
            query._unanswered.discard(key)  # as a list does that is answered
            warm.set()
            await until(lambda: not server.changes._work, "looked for behind")
            assert (await listed(client))[0] == 1
            assert not heard.tools.is_set()


@asynccontextmanager
async def gateway_of(folder: Path, **environ: str) -> AsyncIterator[tuple[AgentServer, Any]]:
    """A gateway over HTTP, before any request, and a client of it."""
    script = folder / "notes.py"
    script.write_text(
        "from fastmcp import FastMCP\n"
        "server = FastMCP('notes')\n"
        "@server.tool\n"
        "def read_note() -> str:\n    'Reads a note'\n    return ''\n"
        "@server.tool\n"
        "def drop_table() -> str:\n    'Drops a table'\n    return ''\n"
        "server.run(show_banner=False)\n"
    )
    config = {"mcpServers": {"notes": {"command": sys.executable, "args": [str(script)]}}}
    folders = {"MCP_GATEWAY_FOLDER": str(folder), "MCP_GRAPH_FOLDER": str(folder)}
    environ = {**folders, "MCP_USAGE": "off", "MCP_RESULT_TOKENS": "off", **environ}
    gateway = create_gateway(config, environ=environ)
    async with web_of(gateway) as web:
        yield gateway, web


@pytest.mark.outside
class TestAGatewayOverHttp:
    async def test_has_graph_and_index_before_anybody_asks(self, tmp_path: Path) -> None:
        async with gateway_of(tmp_path) as (_, web):

            async def is_ready() -> bool:
                return bool((await web.get("/ready")).json()["ranker"]["status"] == "ready")

            await until(is_ready, "indexed")
            found = (await web.get("/tools", params={"q": "reads a note"})).json()
        assert [tool["name"] for tool in found["tools"]] == ["notes_read_note"]

    async def test_loads_neither_before_its_first_list(self, tmp_path: Path) -> None:
        async with gateway_of(tmp_path) as (gateway, web):
            found = (await web.get("/tools")).json()
            assert len(found["tools"]) == 2
            assert not query_of(gateway)._is_made

    async def test_loads_neither_where_the_graph_is_off(self, tmp_path: Path) -> None:
        async with gateway_of(tmp_path, MCP_GRAPH="off") as (gateway, web):
            await until(lambda: query_of(gateway)._is_made, "begun")
            assert (await web.get("/ready")).json()["ranker"]["status"] == "off"
