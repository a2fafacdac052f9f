"""The plain HTTP routes: the same rules as on the wire, and nothing that tells more."""

from __future__ import annotations

import re
import subprocess
import sys

import httpx2
import pytest
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from starlette.requests import Request
from starlette.responses import JSONResponse

from tests.every import every
from tests.server.servers import log_server

pytestmark = pytest.mark.anyio


async def get(server, *urls, **options):
    app = server.http_app(host_origin_protection=False)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as web,
    ):
        answers = [await web.get(url, **options) for url in urls]
    return answers[0] if len(answers) == 1 else answers


class TestTools:
    async def test_lists_what_the_wire_lists(self):
        headers = {"x-mcp-query": "logs analysis", "x-mcp-disabled-tags": "write,delete"}
        answer = (await get(log_server(), "/tools", headers=headers)).json()
        assert [tool["name"] for tool in answer["tools"]] == ["tail_log", "search_logs"]
        assert answer["tools"][0]["tags"] == ["logs", "read"]
        assert answer["tools"][0]["readOnly"] is True

    async def test_tells_server_selection_and_revision(self):
        answer = (await get(log_server(), "/tools?tools=tail_logs,tail_log&top_k=3")).json()
        assert answer["server"] == "logs"
        assert answer["selection"] == {
            "revision": answer["revision"],
            "permitted": 1,
            "visible": 1,
            "status": "off",
            "unknown": {"tail_logs": "tail_log"},
            "caller": {"allow_tools": ["tail_log", "tail_logs"], "top_k": 3},
        }

    async def test_tells_nothing_of_the_operators_selection(self):
        operator = {"MCP_DISABLED_TOOLS": "delete_log", "MCP_ENABLED_TAGS": "logs"}
        answer = await get(log_server(environ=operator), "/tools")
        assert "delete" not in answer.text
        assert answer.json()["selection"]["caller"] == {}

    async def test_an_empty_intersection_is_an_empty_list(self):
        server = log_server(environ={"MCP_ENABLED_TOOLS": "tail_log"})
        assert (await get(server, "/tools?tools=search_logs")).json()["tools"] == []

    @every(
        ("url", "headers", "what"),
        [
            ("/tools?top_k=0", {}, "not a positive integer"),
            ("/tools?disabled_tag=write", {}, "unknown query name"),
            ("/mcp?read_only=perhaps", {}, "not true or false"),
            ("/sse?tools=%00", {}, "control character U+0000"),
            ("/messages/?tools=%FF", {}, "the query string is not UTF-8"),
            ("/tools", {"x-mcp-disable-tags": "write"}, "unknown header name"),
        ],
    )
    async def test_bad_input_is_refused_with_what_value_source_and_hint(self, url, headers, what):
        answer = await get(log_server(), url, headers=headers)
        error = answer.json()["error"]
        assert (answer.status_code, error["what"], sorted(error)) == (400, what, ["hint", "source", "value", "what"])

    async def test_paths_that_take_no_selection_are_left_alone(self):
        assert (await get(log_server(), "/health?tool=x")).status_code == 200

    async def test_of_several_versions_the_highest_is_listed(self):
        server = log_server()
        for version in ("1", "2"):
            server.tool(lambda: "", name="save", version=version, description=f"Save as {version} does.")
        tools = (await get(server, "/tools?tools=save")).json()["tools"]
        assert [tool["description"] for tool in tools] == ["Save as 2 does."]


class TestAuth:
    @staticmethod
    def server():
        return log_server(auth=StaticTokenVerifier({"good": {"client_id": "c", "scopes": []}}))

    async def test_tools_and_metrics_are_behind_it(self):
        codes = [answer.status_code for answer in await get(self.server(), "/tools", "/metrics")]
        assert codes == [401, 401]

    async def test_a_token_opens_them(self):
        answers = await get(self.server(), "/tools", "/metrics", headers={"authorization": "Bearer good"})
        assert [answer.status_code for answer in answers] == [200, 200]
        assert "mcp_listed_tools_denied_count 1.0" in answers[1].text

    async def test_tokens_are_for_the_endpoint_and_not_for_the_legacy_one_beside_it(self):
        server = self.server()
        paths = []
        server.auth.get_routes = lambda mcp_path=None: paths.append(mcp_path) or []
        server.http_app(path="/tools-of-ours", host_origin_protection=False)
        assert paths[-1] == "/tools-of-ours"

    async def test_health_checks_are_open(self):
        assert [answer.status_code for answer in await get(self.server(), "/health", "/ready")] == [200, 200]


class TestState:
    async def test_ready_while_the_server_runs(self):
        assert (await get(log_server(), "/ready")).json() == {
            "status": "ready",
            "server": "logs",
            "graph": {"status": "off"},
            "ranker": {"status": "off"},
        }

    async def test_starting_before_it_runs(self):
        app = log_server().http_app(host_origin_protection=False)
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://x") as web:
            assert (await web.get("/ready")).status_code == 503

    async def test_an_authors_route_of_the_same_path_wins(self):
        server = log_server()

        @server.custom_route("/health", methods=["GET"])
        async def health(request: Request) -> JSONResponse:
            return JSONResponse({"mine": True})

        assert (await get(server, "/health")).json() == {"mine": True}

    async def test_a_mounted_servers_routes_are_not_the_parents(self):
        from fastmcp import FastMCP

        parent = FastMCP("parent")
        parent.mount(log_server())
        assert (await get(parent, "/tools")).status_code == 404


class TestMetrics:
    async def test_counts_requests_by_method_and_outcome(self):
        server = log_server()
        app = server.http_app(host_origin_protection=False)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as web,
        ):
            headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
            body = {"jsonrpc": "2.0", "id": 1, "method": "made/up", "params": {}}
            await web.post("/mcp", json=body, headers=headers)
            text = (await web.get("/metrics")).text
        assert "made/up" not in text
        assert "mcp_decision_seconds_bucket" in text

    async def test_tell_the_tokens_of_lists_and_of_all_that_they_might_have_had(self):
        server = log_server(environ={"MCP_DISABLED_TOOLS": "delete_log"})
        app = server.http_app(host_origin_protection=False)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as web,
        ):
            tools = {tool["name"]: tool["tokens"] for tool in (await web.get("/tools")).json()["tools"]}
            await web.get("/tools?tool_search=on&pin=tail_log")
            await server._metrics().weigh()
            text = (await web.get("/metrics")).text
        told = dict(re.findall(r'^mcp_(\w+)_tokens_total{server="logs"} (\d+)', text, re.MULTILINE))
        every = sum(tools.values())
        assert told == {"listed": str(every + tools["tail_log"]), "unlisted": str(2 * every)}

    @pytest.mark.outside
    def test_tell_opentelemetry_the_same_tokens(self):
        code = """if True:
            import asyncio, httpx2
            from opentelemetry import metrics
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import InMemoryMetricReader
            reader = InMemoryMetricReader()
            metrics.set_meter_provider(MeterProvider([reader]))
            from tests.server.servers import log_server
            async def main():
                server = log_server()
                app = server.http_app(host_origin_protection=False)
                web = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1")
                async with app.router.lifespan_context(app), web:
                    tools = (await web.get("/tools")).json()["tools"]
                    await server._metrics().weigh()
                return sum(tool["tokens"] for tool in tools)
            every = asyncio.run(main())
            scopes = reader.get_metrics_data().resource_metrics[0].scope_metrics
            told = {m.name: m.data.data_points[0].value for s in scopes for m in s.metrics if "_tokens" in m.name}
            print(told == {"mcp.listed_tokens": every, "mcp.unlisted_tokens": every}, every > 0)
        """
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout.split() == ["True", "True"], done.stderr

    async def test_without_auth_denied_tools_are_counted_for_nobody(self):
        _, metrics = await get(log_server(environ={"MCP_DISABLED_TAGS": "write"}), "/tools", "/metrics")
        assert "mcp_listed_tools_permitted_count 1.0" in metrics.text
        assert "denied" not in metrics.text

    async def test_a_second_application_of_a_server_counts_on(self):
        server = log_server()
        await get(server, "/tools")
        assert "mcp_listed_tools_visible_count 1.0" in (await get(server, "/metrics")).text
