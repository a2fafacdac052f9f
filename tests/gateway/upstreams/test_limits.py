"""What an upstream may send, on real processes and sockets: too much of it is told, and no other server notices."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import pytest
from fastmcp import Client
from mcp import MCPError

from agent_utilities.gateway.upstreams.errors import UpstreamError
from agent_utilities.gateway.upstreams.http.http_client import Guard, UpstreamHttpClient
from agent_utilities.gateway.upstreams.limits import MIB, IncomingMessage, Limits, TooMuchError, Unfinished, check_parts
from tests.every import every
from tests.gateway.upstreams.gateway_process import gateway
from tests.gateway.upstreams.http_server import http_server
from tests.gateway.upstreams.processes import Over, upstream
from tests.gateway.upstreams.supervised import FAULTY, SLOW, Running, faulty, running
from tests.gateway.upstreams.test_http import error_of, over_http

pytestmark = [pytest.mark.outside, pytest.mark.anyio, pytest.mark.timeout(120)]

LITTLE = 2**16


async def ended(running: Running) -> str:
    """Return what a call of the server "bad" ends in, while the good one beside it answers."""
    call = asyncio.create_task(running.call("bad", "sleep", seconds=3600))
    while not call.done():
        assert await running.call("good", "echo", text="hello") == "hello"
    with pytest.raises(UpstreamError) as raised:
        await call
    return str(raised.value)


class TestWhatIsNoMessage:
    @every(
        ("what", "told"),
        [
            ("lines", "wrote 10,000 lines (0.1 MiB) to stdout with no message among them, such as 'still"),
            ("blank", "wrote 10,000 lines (0.0 MiB) to stdout with no message among them in the middle"),
            ("line", "wrote a line of over 64 MiB without an end"),
        ],
    )
    async def test_without_an_end_ends_the_server_and_no_other(self, what: str, told: str):
        async with running(faulty("bad", f"pours={what}"), faulty("good"), policy=SLOW) as upstreams:
            text = await ended(upstreams)
            await upstreams.until(lambda: upstreams["bad"].state.name == "failing")
            assert upstreams["good"].counts.n_failures == 0
        assert f"upstream 'bad' died: it {told}" in text

    async def test_between_messages_ends_no_server(self):
        limits = Limits(garbage_lines=6)
        async with upstream("garbage-between", limits=limits) as faulty, Client(Over(faulty), mode="legacy") as client:
            for _ in range(5):  # five such lines each
                await client.call_tool("echo", {"text": "hello"})

    async def test_holds_up_neither_health_nor_a_stop(self, tmp_path: Path):
        def server(*faults: str) -> dict[str, object]:
            return {"command": sys.executable, "args": ["-I", "-S", str(FAULTY), *faults]}

        servers = {"lines": server("pours=lines"), "notes": server("pours=notes"), "good": server()}
        with gateway({"mcpServers": servers}, tmp_path) as serving:
            serving.until_listed([*servers])
            with serving.calling("modern") as caller:
                answers = [
                    caller.ask("tools/call", {"name": f"{name}_sleep", "arguments": {"seconds": seconds}}).result
                    for name, seconds in (("lines", 3600), ("notes", 0), ("good", 0))
                ]
            assert "no message among them" in json.dumps(answers[0])
            assert [answer["content"][0]["text"] for answer in answers[1:]] == ["slept", "slept"]
            assert serving.access.http.get("/health").status == 200
        assert serving.process.process.returncode == 0


class TestMessages:
    async def test_too_many_a_second_end_nothing(self):
        async with running(faulty("bad", "pours=notes", max_call_s=0.5), faulty("good"), policy=SLOW) as upstreams:
            await upstreams.seen("bad", "good")
            assert await upstreams.call("good", "echo", text="hello") == "hello"
            with pytest.raises(UpstreamError, match="the call took over"):
                await upstreams.call("bad", "sleep", seconds=3600)
            assert upstreams["bad"].counts.n_failures == 0

    async def test_that_cant_be_read_do_not_fill_the_log(self, caplog: pytest.LogCaptureFixture):
        async with running(faulty("bad", "pours=odd", max_call_s=0.5)) as upstreams:
            with pytest.raises(UpstreamError, match="the call took over"):
                await upstreams.call("bad", "sleep", seconds=3600)
        assert len([record for record in caplog.records if record.name == "client"]) <= 1

    async def test_one_of_too_many_values_is_refused(self):
        limits = Limits()
        limits.check_values(b"[" + b"[]," * (limits.n_values // 2 - 2) + b"0]")
        with pytest.raises(TooMuchError, match=r"over 524,288 JSON values.*maxMessageBytes"):
            limits.check_values(b"[" + b"[]," * limits.n_values + b"0]")
        with pytest.raises(TooMuchError, match="values"):
            limits.check_values(b"[" + b'"",' * (3 * limits.n_values) + b"0]")

    @every("text", ["a,[{", 'a",', '\\",', "\\\\"])
    async def test_what_stands_in_texts_is_no_value(self, text: str):
        Limits().check_values(json.dumps({"table": text * 300_000}).encode())

    async def test_of_all_connections_of_an_upstream_are_counted_together(self):
        limits, unfinished = Limits(), Unfinished()
        messages = [IncomingMessage(limits, unfinished) for _ in range(5)]
        for message in messages[:4]:
            message.has(16 * MIB)
        with pytest.raises(TooMuchError, match="unfinished messages of over 64 MiB"):
            messages[4].has(1)
        messages[4].has(0)
        messages[0].has(0)
        messages[4].has(16 * MIB)

    async def test_of_too_many_parts_are_refused(self):
        check_parts({"content": [{"type": "text"}] * 8_000, "structuredContent": {"a": [0] * 100_000}})
        with pytest.raises(TooMuchError, match="over 16,384 parts"):
            check_parts({"content": [{"type": "text"}] * 8_200})


class TestResults:
    async def test_of_too_many_values_are_refused_and_the_next_call_answered(self):
        async with http_server() as server, running(over_http(server)) as upstreams:
            error = await error_of(upstreams, "values", n=2**18)
            assert (error.cause, "over 524,288 JSON values" in str(error)) == ("sent too much", True)
            assert await upstreams.call("web", "echo", text="hello") == "hello"

    async def test_of_too_many_values_end_an_sse_stream(self):
        async with http_server() as server, running(over_http(server, "sse"), policy=SLOW) as upstreams:
            error = await error_of(upstreams, "values", n=2**18)
            assert (error.cause, "over 524,288 JSON values" in str(error)) == ("died", True)

    async def test_of_too_many_values_are_an_error_over_stdio(self):
        config = faulty("faulty", "values")
        async with running(config) as upstreams:
            with pytest.raises(MCPError, match="over 524,288 JSON values"):
                await upstreams.call("faulty", "echo", text="hello")
            assert upstreams["faulty"].counts.n_failures == 0

    @every("transport", ["http", "sse"])
    async def test_of_too_many_blocks_are_refused(self, transport: str):
        async with http_server() as server, running(over_http(server, transport)) as upstreams:
            error = await error_of(upstreams, "blocks", n=20_000)
            assert (error.cause, "over 16,384 parts" in str(error)) == ("sent too much", True)
            assert await upstreams.call("web", "echo", text="hello") == "hello"
            assert upstreams["web"].counts.n_starts == 1


class TestBodies:
    @every(
        ("tool", "cause", "text"),
        [
            ("endless-json", "sent too much", "it sent a message of over 0.0625 MiB"),
            ("endless-html", "sent too much", "it sent a message of over 0.0625 MiB"),
            ("endless-event", "sent too much", "it sent a message of over 0.0625 MiB"),
            ("endless-gzip", "sent too much", "it sent a message of over 0.0625 MiB"),
            ("packed-twice", "sent too much", "compressed more than once"),
            ("endless-error", "unreachable", "HTTP 500"),
        ],
    )
    async def test_without_an_end_are_given_up_and_the_next_call_is_answered(self, tool: str, cause: str, text: str):
        async with http_server() as server, running(over_http(server, max_message_bytes=LITTLE)) as upstreams:
            error = await error_of(upstreams, tool)
            assert (error.cause, text in str(error)) == (cause, True)
            assert await upstreams.call("web", "echo", text="hello") == "hello"
            assert upstreams["web"].counts.n_starts == 1
            assert server.n_poured < 20 * MIB  # what sockets hold

    async def test_of_redirects_are_cut(self):
        async with http_server() as server, running(over_http(server)) as upstreams:
            assert await upstreams.call("web", "endless-redirect", text="found") == "found"
            assert server.n_poured < 20 * MIB

    async def test_of_an_sse_stream_without_an_end_end_it(self):
        config = {"max_message_bytes": LITTLE}
        async with http_server() as server, running(over_http(server, "sse", **config), policy=SLOW) as upstreams:
            error = await error_of(upstreams, "endless-event")
            assert (error.cause, "it sent a message of over 0.0625 MiB" in str(error)) == ("died", True)

    async def test_of_a_login_are_bounded_too(self):
        class Discovering(httpx2.Auth):
            requires_response_body = True

            async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
                found = yield httpx2.Request("POST", request.url, json={"params": {"name": "endless-json"}})
                await found.aread()
                yield request

        async with http_server() as server:
            limits = Limits(message_bytes=LITTLE)
            client = UpstreamHttpClient(
                headers={},
                guard=Guard("http://127.0.0.1/mcp"),
                auth=Discovering(),
                limits=limits,
                unfinished=Unfinished(),
            )
            async with client:
                answer = await client.post(f"{server.url}/mcp", json={"id": 1, "method": "tools/call"})
        assert "it sent a message of over 0.0625 MiB" in answer.json()["error"]["message"]

    async def test_a_flood_of_notes_keeps_no_call_open_for_ever(self):
        async with http_server() as server, running(over_http(server, max_call_s=0.5)) as upstreams:
            assert "the call took over 0.5 s in all" in str(await error_of(upstreams, "endless-notes"))
            assert await upstreams.call("web", "echo", text="hello") == "hello"

    async def test_what_they_held_is_given_back(self):
        unfinished = Unfinished()
        async with http_server() as server:
            client = UpstreamHttpClient(
                headers={},
                guard=Guard("http://127.0.0.1/mcp"),
                limits=Limits(message_bytes=LITTLE),
                unfinished=unfinished,
            )
            async with client:
                for tool in ("endless-json", "endless-event", "endless-error", "echo"):
                    message = {"id": 1, "method": "tools/call", "params": {"name": tool}}
                    async with client.stream("POST", f"{server.url}/mcp", json=message) as response:
                        async for _ in response.aiter_bytes():
                            pass
                    assert unfinished.n_bytes == 0, tool
