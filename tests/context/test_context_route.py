"""`GET /context`: what of a server is in one caller's prompt, under the same rules as on the wire."""

from __future__ import annotations

import json

import pytest
from fastmcp import FastMCP
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from agent_utilities.catalog.context import n_tokens
from tests.every import every
from tests.server.in_process import web_of
from tests.server.servers import log_server

pytestmark = pytest.mark.anyio


async def get(server, url="/context", **headers):
    async with web_of(server) as web:
        return await web.get(url, headers=headers)


async def report(server, url="/context", **headers):
    answer = await get(server, url, **headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def rows(told, section):
    return {row["server"]: row["n_tools"] for row in told["rows"] if row["section"] == section}


class TestWithoutToolSearch:
    async def test_everything_visible_is_listed(self):
        told = await report(log_server())
        assert (told["server"], told["line"], rows(told, "listed")) == ("logs", "4 of 4 listed", {"logs": 4})

    async def test_costs_what_the_tool_list_says(self):
        async with web_of(log_server()) as web:
            told, tools = (await web.get("/context")).json(), (await web.get("/tools")).json()["tools"]
        assert told["total"] == told["undeferred_tokens"] == sum(tool["tokens"] for tool in tools)

    async def test_what_a_preference_leaves_out_is_deferred(self):
        told = await report(log_server(), **{"x-mcp-top-k": "1"})
        assert (rows(told, "listed"), rows(told, "deferred")) == ({"logs": 1}, {"logs": 3})
        assert told["line"] == "1 of 4 listed"

    async def test_instructions_are_counted_under_the_servers_name(self):
        told = await report(log_server(instructions="Ask before you delete."))
        assert told["rows"][-1] == {
            "section": "instructions",
            "server": "logs",
            "n_tools": 0,
            "tokens": n_tokens("Ask before you delete."),
        }

    async def test_tools_of_a_mounted_server_are_counted_under_its_name(self):
        server, kid = log_server(), FastMCP("kid")
        kid.tool(lambda: "", name="play")
        server.mount(kid, namespace="kid")
        assert rows(await report(server), "listed") == {"logs": 4, "kid": 1}

    async def test_of_several_versions_one_is_counted(self):
        server = log_server()
        for version in ("1", "2"):
            server.tool(lambda: "", name="save", version=version)
        assert rows(await report(server), "listed") == {"logs": 5}


class TestSelection:
    @every(
        ("url", "headers"),
        [
            ("/context?disabled_tags=write", {}),
            ("/context/readonly", {}),
            ("/context/x/read", {}),
            ("/context", {"x-mcp-disabled-tags": "write"}),
        ],
    )
    async def test_of_the_caller_holds_in_every_channel(self, url, headers):
        told = await report(log_server(), url, **headers)
        assert (told["n_permitted"], rows(told, "listed")) == (2, {"logs": 2})

    async def test_what_the_operator_denies_counts_nowhere(self):
        denied = await get(log_server(environ={"MCP_DISABLED_TOOLS": "delete_log"}), "/context?definitions=true")
        server = log_server()
        server.local_provider.remove_tool("delete_log")
        assert denied.text == (await get(server, "/context?definitions=true")).text

    async def test_that_is_malformed_is_refused(self):
        answer = await get(log_server(), "/context?top_k=0")
        assert (answer.status_code, answer.json()["error"]["what"]) == (400, "not a positive integer")

    async def test_that_names_nothing_in_the_path_is_refused(self):
        assert (await get(log_server(), "/context/x/writ")).status_code == 404


class TestDefinitions:
    async def test_are_told_where_they_are_asked_for(self):
        told = await report(log_server(instructions="Hi."), "/context?definitions=true")
        assert told["instructions"] == "Hi."
        assert [each["definition"]["name"] for each in told["definitions"]] == [
            "tail_log",
            "search_logs",
            "rotate_log",
            "delete_log",
        ]

    async def test_are_what_was_counted(self):
        told = await report(log_server(), "/context?definitions=true")
        assert sum(n_tokens(each["definition"]) for each in told["definitions"]) == told["total"]

    async def test_are_not_told_otherwise(self):
        assert "definitions" not in await report(log_server())


class TestAuth:
    @staticmethod
    def server():
        return log_server(auth=StaticTokenVerifier({"good": {"client_id": "c", "scopes": []}}))

    async def test_is_asked_for(self):
        assert (await get(self.server())).status_code == 401

    async def test_opens_it(self):
        assert (await report(self.server(), authorization="Bearer good"))["n_permitted"] == 4

    async def test_of_a_tool_that_does_not_admit_the_caller_hides_it(self):
        server = log_server()
        server.tool(lambda: "", name="guarded", auth=lambda context: False)
        assert "guarded" not in json.dumps(await report(server, "/context?definitions=true"))
