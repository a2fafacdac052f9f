"""Upstreams over HTTP, on real sockets: what fails is told to the call that it concerns, and to no other."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace

import pytest
from mcp import MCPError

from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.errors import UpstreamError
from agent_utilities.gateway.upstreams.http.http_client import http_trouble
from tests.every import every
from tests.gateway.upstreams.http_server import HttpServer, http_server
from tests.gateway.upstreams.supervised import QUICK, SLOW, Running, running

pytestmark = [pytest.mark.outside, pytest.mark.anyio, pytest.mark.timeout(120)]


def over_http(server: HttpServer, transport: str = "http", **settings: object) -> UpstreamConfig:
    """Return the config of an upstream that is reached there."""
    path = "/sse" if transport == "sse" else "/mcp"
    told = {"name": "web", "source": "test: web", "transport": transport, "url": f"{server.url}{path}", **settings}
    return UpstreamConfig.model_validate(told)


async def error_of(gateway: Running, tool: str, **arguments: object) -> UpstreamError:
    """Return the error that a call ends in."""
    with pytest.raises(UpstreamError, match=r"^upstream 'web' ") as raised:
        await gateway.call("web", tool, **arguments)
    return raised.value


@every("transport", ["http", "sse"])
class TestBothTransports:
    async def test_a_call_is_answered(self, transport):
        async with http_server() as server, running(over_http(server, transport)) as gateway:
            assert await gateway.call("web", "echo", text="hello") == "hello"

    async def test_a_result_may_be_large(self, transport):
        async with http_server() as server, running(over_http(server, transport)) as gateway:
            assert len(await gateway.call("web", "echo", n=8_000_000)) == 8_000_000

    async def test_a_call_that_fails_harms_no_other(self, transport):
        async with http_server() as server, running(over_http(server, transport)) as gateway:
            beside = asyncio.create_task(gateway.call("web", "wait", text="beside"))
            await gateway.until(lambda: any(message.get("method") == "tools/call" for *_, message in server.seen))
            assert (await error_of(gateway, "500")).cause == "unreachable"
            server.released.set()
            assert await beside == "beside"
            assert gateway["web"].counts.n_starts == 1

    async def test_one_that_is_not_there_is_told(self, transport):
        async with http_server() as server:
            config = over_http(server, transport)
        async with running(config, policy=SLOW) as gateway:
            assert (await error_of(gateway, "echo")).cause == "unreachable"

    async def test_its_headers_and_token_are_sent(self, transport):
        told = {"headers": {"x-key": "k1"}, "auth": "a-token"}
        async with http_server() as server, running(over_http(server, transport, **told)) as gateway:
            await gateway.call("web", "echo", text="hello")
            assert {headers.get("x-key") for _, headers, _ in server.seen} == {"k1"}
            assert {headers.get("authorization") for _, headers, _ in server.seen} == {"Bearer a-token"}

    async def test_of_the_callers_headers_only_those_cross_that_are_named(self, transport):
        call = {"name": "echo", "arguments": {"text": "a"}}
        async with http_server() as server:
            async with running(
                over_http(server, transport, forward_headers=("x-user", "host", "mcp-session-id"))
            ) as gateway:
                sent = {"X-User": "anna", "Authorization": "secret", "Cookie": "c", "Host": "h", "Mcp-Session-Id": "m"}
                for headers in (sent, {}):
                    await gateway["web"].request(lambda live: live.ask("tools/call", call), None, headers)
                calls = [headers for _, headers, message in server.seen if message.get("method") == "tools/call"]
                others = [headers for _, headers, message in server.seen if message.get("method") != "tools/call"]
        assert [call.get("x-user") for call in calls] == ["anna", None]
        assert not any("x-user" in headers for headers in others)
        assert "secret" not in str(server.seen)
        assert not {"h", "c", "m"} & {value for call in calls for value in call.values()}


class TestFaults:
    @every(
        ("tool", "cause", "text"),
        [
            ("reset", "died", "which it may have carried out"),
            ("half", "died", "which it may have carried out"),
            ("half-stream", "died", "which it may have carried out"),
            ("html", "not MCP", "answered with text/html"),
            ("401", "refused", "it wants credentials"),
            ("403", "refused", "not enough"),
            ("500", "unreachable", "HTTP 500"),
        ],
    )
    async def test_of_one_call_are_told_and_the_next_is_answered(self, tool, cause, text):
        async with http_server() as server, running(over_http(server)) as gateway:
            error = await error_of(gateway, tool)
            assert (error.cause, text in str(error)) == (cause, True)
            assert await gateway.call("web", "echo", text="hello") == "hello"
            assert gateway["web"].counts.n_starts == 1

    @every(
        ("status", "body", "headers", "text"),
        [
            (429, b'{"detail": "too many"}', {"retry-after": "30"}, "too many; it may be asked again in 30 s"),
            (429, b"", {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, "asked again after Wed, 21 Oct 2026 07:28:00"),
            (400, b'{"error": {"message": "n must be below 100"}}', {}, "n must be below 100"),
            (413, b"Payload\nToo Large", {}, "Payload Too Large"),
            (422, b'{"detail": [{"loc": ["n"], "msg": "missing"}]}', {}, '"msg":"missing"'),
            (404, b'{"title": "no such thing"}', {}, "no such thing"),
            (500, b'{"message": "out of order"}', {}, "out of order"),
        ],
    )
    async def test_a_call_that_is_refused_is_told_why_and_costs_nothing_else(self, status, body, headers, text):
        async with http_server() as server, running(over_http(server), policy=SLOW) as gateway:
            server.answers["401"] = status, body, headers
            await gateway.call("web", "echo", text="hello")
            starts = gateway["web"].counts.n_starts
            for _ in range(4):
                told = str(await error_of(gateway, "401"))
                assert (f"HTTP {status}" in told, text in told) == (True, True)
            assert await gateway.call("web", "echo", text="hello") == "hello"
            assert gateway["web"].counts.n_starts == starts

    @every("message", ["Connection closed", "SSE stream ended without a response"])
    @every("kind", ["application/json", "text/event-stream"])
    async def test_an_error_of_its_own_that_reads_like_an_end_is_none(self, message, kind):
        async with http_server() as server, running(over_http(server)) as gateway:
            told = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": message}})
            body = told if kind == "application/json" else f"event: message\ndata: {told}\n\n"
            server.answers["echo"] = 200, body.encode(), {"content-type": kind}
            with pytest.raises(MCPError, match=message):
                await gateway.call("web", "echo", text="hello")

    async def test_a_redirect_to_another_host_is_not_followed(self):
        async with http_server() as server, running(over_http(server)) as gateway:
            told = str(await error_of(gateway, "redirect"))
            assert re.search(r"redirects to http://127\.0\.0\.2:\d+/mcp, which is not followed", told)
            assert "s3cret" not in told
            assert await gateway.call("web", "echo", text="hello") == "hello"

    @every(
        "forgotten",
        [
            (404, b"Session not found"),
            (404, b"gone"),
            (400, b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "No valid session ID"}}'),
            (200, b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "Session not found"}}'),
            (
                200,
                b'{"jsonrpc": "2.0", "id": "x", "error": {"code": -32600, "message": "Session not found"}}',
            ),
            (503, b'{"jsonrpc": "2.0", "error": {"code": -32001, "message": "this session is unknown or expired"}}'),
            (500, b'{"error": "unknown session"}'),
        ],
    )
    async def test_a_session_that_is_forgotten_is_begun_anew_within_the_call(self, forgotten):
        async with http_server() as server, running(over_http(server)) as gateway:
            server.forgotten = forgotten
            await gateway.call("web", "echo", text="hello")
            server.forget_sessions()
            assert await gateway.call("web", "echo", text="again") == "again"
            assert gateway["web"].counts.n_failures == 0

    async def test_a_tools_own_session_that_is_not_found_has_no_call_sent_again(self):
        async with http_server() as server, running(over_http(server)) as gateway:
            server.answers["echo"] = 400, b'{"error": "browser session not found"}', {}
            assert "browser session" in str(await error_of(gateway, "echo"))
            assert [message.get("method") for *_, message in server.seen].count("tools/call") == 1

    @every(("status", "cause"), [(401, "refused"), (403, "refused"), (500, "unreachable")])
    async def test_at_the_handshake_are_told(self, status, cause):
        async with http_server() as server:
            server.start_status = status
            async with running(over_http(server), policy=SLOW) as gateway:
                error = await error_of(gateway, "echo")
        assert (error.cause, f"HTTP {status}" in str(error)) == (cause, True)

    async def test_a_refusal_is_not_asked_for_again_and_again(self):
        policy = replace(QUICK, backoff=replace(QUICK.backoff, probe_s=3600))
        async with http_server() as server:
            server.start_status = 401
            async with running(over_http(server), policy=policy) as gateway:
                await gateway.until(lambda: gateway["web"].state.name == "failing")
                for _ in range(5):
                    assert (await error_of(gateway, "echo")).retry_in_s > 3000
                assert gateway["web"].counts.n_starts == 1

    async def test_one_that_was_down_is_reached_again(self):
        async with http_server() as server:
            config, port = over_http(server), int(server.url.rpartition(":")[2])
        async with running(config) as gateway:
            assert (await error_of(gateway, "echo")).cause == "unreachable"
            async with http_server(port):
                await gateway.seen("web")
                assert await gateway.call("web", "echo", text="hello") == "hello"

    async def test_several_calls_in_a_row_that_do_not_get_through_end_the_connection(self):
        async with http_server() as server, running(over_http(server), policy=SLOW) as gateway:
            for _ in range(3):
                await error_of(gateway, "reset")
            await gateway.until(lambda: gateway["web"].state.name == "failing")
            assert (await error_of(gateway, "echo")).retry_in_s > 3000

    async def test_no_address_of_it_is_told(self):
        async with http_server() as server:
            config = over_http(server, url=f"{server.url}/mcp?key=abcdef0123456789")
        async with running(config, policy=SLOW) as gateway:
            assert "abcdef" not in str(await error_of(gateway, "echo"))

    async def test_a_stream_that_ends_ends_the_calls_on_it(self):
        async with http_server() as server, running(over_http(server, "sse")) as gateway:
            call = asyncio.create_task(gateway.call("web", "wait", text="never"))
            await gateway.until(lambda: any(message.get("method") == "tools/call" for *_, message in server.seen))
            server.end_streams()
            with pytest.raises(UpstreamError, match="died"):
                await call


@every("told", [None, {}, {"cause": 5, "detail": ""}, {"cause": "died", "detail": 5}, 5])
def test_an_error_of_the_upstreams_own_is_no_trouble_whatever_it_looks_like(told):
    assert http_trouble(MCPError(-32000, "its own", {"agent-utilities/upstream": told})) is None


class TestEras:
    @every("status", [400, 404, 405, 500])
    async def test_whatever_a_probe_is_answered_with_the_older_era_is_found(self, status):
        async with http_server() as server:
            server.discover_status = status
            async with running(over_http(server)) as gateway:
                assert await gateway.call("web", "echo", text="hello") == "hello"

    async def test_the_era_is_remembered_so_that_nothing_is_asked_twice(self):
        async with http_server() as server, running(over_http(server, idle_s=0.01)) as gateway:
            await gateway.at_rest("web")
            server.seen.clear()
            await gateway.call("web", "echo", text="hello")
            asked = [json.dumps(message) for *_, message in server.seen]
        assert not any("server/discover" in message for message in asked)

    async def test_one_that_knows_only_the_older_transport_is_reached_by_it(self):
        async with http_server() as server:
            server.has_only_sse = True
            async with running(over_http(server, url=f"{server.url}/sse", idle_s=0.01)) as gateway:
                assert await gateway.call("web", "echo", text="hello") == "hello"
                await gateway.at_rest("web")
                assert await gateway.call("web", "echo", text="again") == "again"
                assert gateway["web"].counts.n_failures == 0
