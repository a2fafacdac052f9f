"""A URL's path bounds its caller as the URL's query does, and tells nothing of what he may not learn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StreamableHttpTransport

from agent_utilities.seam.feature import Feature
from agent_utilities.seam.host import Host, Pending
from tests.every import every
from tests.server.in_process import ask, listed, web_of
from tests.server.servers import log_server, over_http, running, tool_names
from tests.wire.roles_server import mcp as roles_server
from tests.wire.wires import modern_request

pytestmark = pytest.mark.anyio

READING = ["tail_log", "search_logs"]
WRITING = ["rotate_log", "delete_log"]


@pytest.fixture
async def web() -> AsyncIterator[httpx2.AsyncClient]:
    async with web_of(log_server()) as web:
        yield web


class TestAPath:
    @every(
        ("path", "expected"),
        [
            ("", READING + WRITING),
            ("/x/write", WRITING),
            ("/x/write/", WRITING),
            ("/x/WRITE", WRITING),
            ("/x/delete,tail_log", ["tail_log", "delete_log"]),
            ("/x/delete%2Ctail_log", ["tail_log", "delete_log"]),
            ("/x/delete%20,%20tail_log", ["tail_log", "delete_log"]),
            ("/x/delete,,tail_log", ["tail_log", "delete_log"]),
            ("/x/%64elete", ["delete_log"]),
            ("/x/*_log", ["tail_log", "rotate_log", "delete_log"]),
            ("/x/logs/readonly", READING),
            ("/x/logs/readonly/", READING),
            ("/x/write/readonly", []),
            ("/x/all", READING + WRITING),
            ("/x/all/readonly", READING),
            ("/x/none", []),
            ("/readonly", READING),
            ("/readonly/", READING),
            ("/x/write,never", WRITING),
        ],
    )
    async def test_bounds_the_list(self, web: httpx2.AsyncClient, path: str, expected: list[str]) -> None:
        assert await listed(web, f"/mcp{path}") == expected
        plain = await web.get(f"/tools{path}")
        assert [tool["name"] for tool in plain.json()["tools"]] == expected

    async def test_gives_the_same_bytes_as_a_query(self, web: httpx2.AsyncClient) -> None:
        by_path, by_query = await ask(web, "/mcp/x/write,log"), await ask(web, "/mcp?toolsets=write,log")
        assert by_path.content == by_query.content

    async def test_bounds_prompts_and_calls(self, web: httpx2.AsyncClient) -> None:
        answer = await ask(web, "/mcp/x/write", "prompts/list")
        assert [prompt["name"] for prompt in answer.json()["result"]["prompts"]] == ["cleanup"]
        body, routing = modern_request("tools/call", {"name": "tail_log", "arguments": {}})
        called = await web.post("/mcp/x/write", json=body, headers=dict(routing))
        never = await web.post("/mcp", json=_named(body, "never"), headers=_named_headers(routing, "never"))
        assert called.json()["result"]["content"][0]["text"] == "Unknown tool: 'tail_log'"
        assert called.status_code == never.status_code

    async def test_is_united_with_a_query(self, web: httpx2.AsyncClient) -> None:
        assert await listed(web, "/mcp/x/delete?tools=tail_log") == ["tail_log", "delete_log"]
        assert await listed(web, "/mcp/x/logs?read_only=true") == READING
        assert await listed(web, "/mcp/x/logs/readonly?read_only=false") == READING
        assert await listed(web, "/mcp/x/logs?disabled_tools=tail_log&top_k=1") == ["search_logs"]

    async def test_gives_way_to_a_header_and_adds_to_its_denies(self, web: httpx2.AsyncClient) -> None:
        assert await listed(web, "/mcp/x/delete", **{"x-mcp-enabled-tools": "tail_log"}) == ["tail_log"]
        assert await listed(web, "/mcp/x/logs", **{"x-mcp-disabled-tags": "write"}) == READING
        assert await listed(web, "/mcp/readonly", **{"x-mcp-read-only": "false"}) == READING + WRITING

    async def test_widens_no_operators_bound(self) -> None:
        async with web_of(log_server(environ={"MCP_DISABLED_TAGS": "delete"})) as web:
            assert await listed(web, "/mcp/x/all") == [*READING, "rotate_log"]
            assert await listed(web, "/mcp/x/write") == ["rotate_log"]

    async def test_bounds_a_session_request_by_request(self) -> None:
        app, client = over_http(log_server(), url="/mcp/x/write", mode="legacy")
        async with app.router.lifespan_context(app), client:
            assert await tool_names(client) == WRITING

    async def test_of_a_later_request_in_a_session_holds_for_that_request(self, web: httpx2.AsyncClient) -> None:
        opened = await web.post("/mcp", json=INITIALIZE, headers=LEGACY)
        session = {**LEGACY, "mcp-session-id": opened.headers["mcp-session-id"]}
        for path, expected in (("/x/delete", ["delete_log"]), ("", READING + WRITING), ("/readonly", READING)):
            answer = await web.post(f"/mcp{path}", json=LIST, headers=session)
            assert [tool["name"] for tool in answer.json()["result"]["tools"]] == expected
        assert (await web.post("/mcp/x/never", json=LIST, headers=session)).status_code == 404
        assert (await web.delete("/mcp/x/write", headers=session)).status_code == 200

    async def test_under_a_prefix(self) -> None:
        async with web_of(log_server(), "/logs") as web:
            assert await listed(web, "/logs/mcp/x/delete") == ["delete_log"]
            assert await listed(web, "/logs/mcp/x/delet%65") == ["delete_log"]
            assert (await ask(web, "/logs/mcp/x/never")).status_code == 404
        async with web_of(log_server(), "/a b") as web:
            assert await listed(web, "/a%20b/mcp/x/delete") == ["delete_log"]

    @every("path", ["/", "/deep/down", "/x", "/slash/"])
    async def test_after_an_endpoint_of_another_path(self, path: str) -> None:
        async with web_of(log_server(), path=path) as web:
            assert await listed(web, f"{path.rstrip('/')}/x/delete") == ["delete_log"]
            assert await listed(web, f"{path.rstrip('/')}/readonly") == READING


LEGACY = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


def _named(body: dict[str, Any], name: str) -> dict[str, Any]:
    return {**body, "params": {**body["params"], "name": name}}


def _named_headers(headers: list[tuple[str, str]], name: str) -> dict[str, str]:
    return {**dict(headers), "mcp-name": name}


class TestAPathThatNamesNothing:
    @every("endpoint", ["/mcp", "/tools", "/sse"])
    async def test_is_a_404_that_says_so(self, web: httpx2.AsyncClient, endpoint: str) -> None:
        answer = await web.get(f"{endpoint}/x/delet,nevr/readonly")
        assert answer.status_code == 404
        assert answer.json()["error"] == {
            "what": "the path names nothing that is known",
            "value": "delet,nevr",
            "source": "URL path",
            "hint": "did you mean 'delete'?",
        }

    @every(
        "path",
        [
            "/x",
            "/x/",
            "/x//",
            "/x//readonly",
            "/x/%20",
            "/x/write/readonl",
            "/x/write/readonly/x",
            "/x/write//readonly",
        ],
    )
    async def test_has_no_half_of_a_selection(self, web: httpx2.AsyncClient, path: str) -> None:
        answer = await ask(web, f"/mcp{path}")
        assert answer.status_code == 404
        assert "such as /x/git" in answer.json()["error"]["message"]

    @every("path", ["/y/write", "/readonl", "/xx/write", "/x%2Fwrite", "//x/write", "/readonly/x/write"])
    async def test_of_another_form_is_nobodys(self, web: httpx2.AsyncClient, path: str) -> None:
        answer = await ask(web, f"/mcp{path}")
        assert (answer.status_code, answer.text) == (404, "Not Found")

    @every(
        ("path", "what"),
        [
            ("/x/a%00b", "control character U+0000"),
            ("/x/%ff", "not UTF-8"),
            ("/x/" + "a" * 9_000, "too long"),
            ("/x/" + ",".join(f"a{i}" for i in range(600)), "too many names"),
            ("/x/" + ",".join(f"a{i}*" for i in range(70)), "too many globs"),
            ("/x/,", "no name between the commas"),
        ],
    )
    async def test_is_a_400_where_it_cannot_be_read(self, web: httpx2.AsyncClient, path: str, what: str) -> None:
        answer = await ask(web, f"/mcp{path}")
        assert (answer.status_code, answer.json()["error"]["data"]["what"]) == (400, what)
        assert answer.json()["error"]["data"]["source"] == "URL path"

    @every(
        "environ",
        [
            {"MCP_DISABLED_TAGS": "delete"},
            {"MCP_DISABLED_TOOLS": "delete_log"},
            {"MCP_ENABLED_TOOLS": "tail_log,rotate_log"},
            {"MCP_ENABLED_TAGS": "read"},
            {"MCP_READ_ONLY": "true"},
            {"MCP_DISABLED_TAGS": "delete", "MCP_SELECTION_POLICY": "override"},
        ],
    )
    async def test_is_answered_like_one_of_what_the_operator_denies(self, environ: dict[str, str]) -> None:
        async with web_of(log_server(environ=environ)) as web:
            answers = [await ask(web, f"/mcp/x/{name}") for name in ("delete", "delxte", "delete_log", "delxte_log")]
        assert [answer.status_code for answer in answers] == [404] * 4
        told = [answer.text.replace("delxte", "delete") for answer in answers]
        assert told[0::2] == told[1::2]
        assert "mean 'delete" not in "".join(told)

    async def test_is_what_an_override_permits_all_the_same(self) -> None:
        environ = {"MCP_ENABLED_TOOLS": "tail_log", "MCP_SELECTION_POLICY": "override"}
        async with web_of(log_server(environ=environ)) as web:
            assert await listed(web, "/mcp/x/delete") == ["delete_log"]

    async def test_is_none_where_it_names_a_resource_or_a_prompt(self, web: httpx2.AsyncClient) -> None:
        assert await listed(web, "/mcp/x/triage") == []
        assert await listed(web, "/mcp/x/log%3A%2F%2Fstatus") == []

    async def test_is_none_of_a_toolset_that_is_to_come_unless_it_is_denied(self) -> None:
        mcp = log_server(environ={"MCP_DISABLED_TOOLSETS": "secret"}, features=[ToCome()])
        async with web_of(mcp) as web:
            assert await listed(web, "/mcp/x/git") == []
            assert (await ask(web, "/mcp/x/secret")).status_code == 404


class ToCome(Feature):
    """Knows toolsets that are to come."""

    def attach(self, host: Host) -> None:
        super().attach(host)
        host.offer(Pending, lambda: cast(Any, self))

    async def wait_for_first(self, *_: object) -> None:
        pass

    def absent(self, _: object) -> list[str]:
        return []

    def toolsets_to_come(self) -> list[str]:
        return ["Git", "secret"]


class TestWhereCallersDiffer:
    async def test_nothing_is_told_without_a_token(self) -> None:
        async with web_of(roles_server) as web:
            answers = [await ask(web, f"/mcp/x/{name}") for name in ("shared", "boss_tool", "never")]
            assert [answer.status_code for answer in answers] == [401] * 3

    async def test_what_a_tools_own_check_refuses_reads_like_what_never_was(self) -> None:
        async with web_of(roles_server) as web:
            for token, expected in (("user", [200, 404, 404]), ("admin", [200, 200, 404])):
                answers = [
                    await ask(web, f"/mcp/x/{name}", authorization=f"Bearer {token}")
                    for name in ("shared", "boss_tool", "never_tool")
                ]
                assert [answer.status_code for answer in answers] == expected


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(log_server()) as url:
        yield url


@pytest.mark.outside
class TestOverSockets:
    async def test_holds_for_a_whole_sse_connection(self, url: str) -> None:
        async with Client(SSETransport(f"{url}/sse/x/write,tail_log/readonly")) as client:
            assert await tool_names(client) == ["tail_log"]
            called = await client.call_tool("rotate_log", raise_on_error=False)
            assert called.content[0].text == "Unknown tool: 'rotate_log'"

    @every("mode", ["legacy", "auto"])
    async def test_holds_in_both_eras(self, url: str, mode: str) -> None:
        async with Client(StreamableHttpTransport(f"{url}/mcp/x/d%65lete"), mode=mode) as client:
            assert await tool_names(client) == ["delete_log"]
