"""What a result tells: revision, counts, unknown names, and how long a list may be kept."""

from __future__ import annotations

import logging

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from agent_utilities import selection_headers
from tests.every import every
from tests.server.servers import log_server, over_http

pytestmark = pytest.mark.anyio
KEY = "agent-utilities/selection"


async def listed(server, **caller):
    app, client = over_http(server, headers=selection_headers(**caller))
    async with app.router.lifespan_context(app), client:
        return await client.session.list_tools()


class TestMeta:
    async def test_counts_what_is_permitted_and_what_is_visible(self):
        result = await listed(log_server(), disabled_tags=["delete"], top_k=1)
        told = dict(result.meta[KEY])
        assert len(told.pop("revision")) == 12
        assert told == {"permitted": 3, "visible": 1, "status": "off"}

    async def test_reports_unknown_names_with_the_nearest(self):
        result = await listed(log_server(), tools=["tail_logs", "tail_log"])
        assert result.meta[KEY]["unknown"] == {"tail_logs": "tail_log"}

    async def test_a_name_of_another_kind_is_known(self):
        result = await listed(log_server(), tools=["triage", "log://status", "log://{name}"])
        assert "unknown" not in result.meta[KEY]

    async def test_a_denied_name_reads_like_one_that_never_was(self):
        server = log_server(environ={"MCP_DISABLED_TAGS": "write"})
        result = await listed(server, tools=["delete_log", "absent_one", "cleanup", "log://keys"])
        assert result.meta[KEY]["unknown"] == dict.fromkeys(["absent_one", "cleanup", "delete_log", "log://keys"])

    async def test_every_list_has_it(self):
        async with Client(log_server()) as client:
            results = [
                await client.session.list_prompts(),
                await client.session.list_resources(),
                await client.session.list_resource_templates(),
            ]
        assert [result.meta[KEY]["permitted"] for result in results] == [2, 2, 1]


class TestRevision:
    async def test_ties_a_call_to_the_list_it_was_made_under(self, caplog):
        app, client = over_http(log_server(), headers=selection_headers(tools=["tail_log"], query="tail", top_k=1))
        async with app.router.lifespan_context(app), client:
            result = await client.session.list_tools()
            with caplog.at_level(logging.INFO, "agent_utilities.wire"):
                await client.call_tool("tail_log")
        assert f"name='tail_log' revision={result.meta[KEY]['revision']}" in caplog.text

    @every("caller", [{}, {"read_only": True}, {"disabled_tags": ["write"]}])
    async def test_tells_nothing_of_how_the_operator_denies(self, caller):
        told = set()
        for name, value in (("READ_ONLY", "true"), ("DISABLED_TAGS", "write,delete"), ("ENABLED_TAGS", "read")):
            server = log_server(environ={f"MCP_{name}": value})
            told.add((await listed(server, **caller)).meta[KEY]["revision"])
            server.tool(lambda: "", name="hidden", tags={"write"})
            told.add((await listed(server, **caller)).meta[KEY]["revision"])
        assert len(told) == 1

    async def test_changes_with_a_description(self):
        before, after = log_server(), log_server()
        tool = await after.local_provider.get_tool("tail_log")
        after.local_provider.remove_tool("tail_log")
        after.add_tool(tool.model_copy(update={"description": "Other words."}))
        assert (await listed(before)).meta[KEY]["revision"] != (await listed(after)).meta[KEY]["revision"]


class TestCache:
    async def test_a_list_nobody_cut_is_public(self):
        result = await listed(log_server())
        assert (result.cache_scope, result.ttl_ms) == ("public", 60_000)

    async def test_a_list_cut_by_its_caller_is_private(self):
        result = await listed(log_server(), tools=["tail_log"])
        assert (result.cache_scope, result.ttl_ms) == ("private", 60_000)

    async def test_a_queried_list_is_kept_for_a_short_time(self):
        result = await listed(log_server(), query="logs")
        assert (result.cache_scope, result.ttl_ms) == ("private", 5_000)

    async def test_an_authors_hint_holds_for_a_list_nobody_cut(self):
        result = await listed(log_server(cache_ttl=7, cache_scope="public"))
        assert (result.cache_scope, result.ttl_ms) == ("public", 7_000)

    async def test_a_queried_list_is_kept_no_longer_than_the_author_says_of_any(self):
        assert (await listed(log_server(cache_ttl=2, cache_scope="public"), query="logs")).ttl_ms == 2_000

    async def test_operators_set_the_times(self):
        environ = {"MCP_LIST_TTL_MS": "1000", "MCP_QUERIED_LIST_TTL_MS": "0"}
        assert (await listed(log_server(environ=environ))).ttl_ms == 1000
        assert (await listed(log_server(environ=environ), query="logs")).ttl_ms == 0

    async def test_the_handshake_era_is_told_nothing_of_caches(self):
        app, client = over_http(log_server(), mode="legacy")
        async with app.router.lifespan_context(app), client:
            result = await client.session.list_tools()
        assert "ttl_ms" not in result.model_fields_set


class TestQuery:
    async def test_shows_all_permitted_while_there_is_no_graph(self):
        result = await listed(log_server(), query="tail", top_k=1)
        assert (result.meta[KEY]["visible"], result.meta[KEY]["status"]) == (4, "off")


class TestAuth:
    @staticmethod
    def server():
        verifier = StaticTokenVerifier({"good": {"client_id": "c", "scopes": []}})
        return log_server(auth=verifier)

    async def test_a_list_behind_auth_is_private(self):
        app, client = over_http(self.server(), headers={"authorization": "Bearer good"})
        async with app.router.lifespan_context(app), client:
            assert (await client.session.list_tools()).cache_scope == "private"

    async def test_tools_a_caller_is_not_authorized_for_count_nowhere(self):
        server = log_server()

        @server.tool(auth=lambda ctx: False)
        def vault() -> str:
            return "gold"

        result = await listed(server, tools=["vault", "tail_log"])
        assert (result.meta[KEY]["permitted"], result.meta[KEY]["unknown"]) == (1, {"vault": None})

    async def test_names_that_others_are_admitted_to_are_unknown_to_him_after_they_were_listed_to_them(self):
        users = {"admin": {"client_id": "a", "scopes": ["admin"]}, "user": {"client_id": "u", "scopes": []}}
        server, child = log_server(auth=StaticTokenVerifier(users)), FastMCP("child")
        child.tool(lambda: "gold", name="vault", auth=lambda context: "admin" in context.token.scopes)
        server.mount(child, namespace="child")
        for user in ("admin", "user"):
            headers = {"authorization": f"Bearer {user}", "x-mcp-tools": "child_vault"}
            app, client = over_http(server, headers=headers)
            async with app.router.lifespan_context(app), client:
                lists = (await client.session.list_tools(), await client.session.list_prompts())
            unknown = [result.meta[KEY].get("unknown") for result in lists]
            assert unknown == [None if user == "admin" else {"child_vault": None}] * 2
