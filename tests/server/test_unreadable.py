"""Whoever sends a line that can't be read is answered, under their own id where that can be read, and may go on."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Context
from mcp.server.stdio import stdio_server

from agent_utilities import AgentServer
from agent_utilities.compat.fastmcp_server import low_level_server
from agent_utilities.server.wire.unreadable import answer_unreadable
from tests.every import every
from tests.gateway.upstreams.gateway_process import environ
from tests.gateway.upstreams.processes import FAULTY_SERVER
from tests.server.servers import log_server
from tests.wire.processes import Launch
from tests.wire.raw_clients import HELLO, raw_stdio
from tests.wire.wires import modern_request

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
CALL = {"jsonrpc": "2.0", "id": 71, "method": "tools/call", "params": {"name": "search", "arguments": {"id": 9}}}
TEXT = json.dumps(CALL)
DEEP, HUGE = "[" * 5000 + "]" * 5000, "7" * 6000
NO_JSON = {
    "half a surrogate pair": TEXT.replace("search", "cut \\ud83d").encode(),
    "the other half of one": TEXT.replace("search", "\\udc00 cut").encode(),
    "a comma too many": TEXT.replace("9}", "9,}").encode(),
    "a bracket too few": TEXT[:-1].encode(),
    "an end in the middle": TEXT[:45].encode(),
    "two messages in a line": (TEXT + " " + TEXT.replace("71", "72")).encode(),
    "deep nesting": TEXT.replace("9", DEEP).encode(),
    "a number without end": TEXT.replace("9", HUGE).encode(),
    "a byte order mark": b"\xef\xbb\xbf" + TEXT.encode(),
    "UTF-16": TEXT.encode("utf-16"),
    "UTF-16, the other way": TEXT.encode("utf-16-be"),
    "Latin-1 beside a text": TEXT.replace("{", "{\xe9", 1).encode("latin-1"),
    "single quotes beside": TEXT.replace('"search"', "'search'").encode(),
    "an id within, before its own": b'{"params": {"id": 9,}, "jsonrpc": "2.0", "id": 71, "method": "ping"}',
    "a key in a text": b'{"a": "\\"id\\": 9", "id": 71, "method": "ping",}',
    "the line of an id, of JSON over many": b'  "id": 71,',
    "a batch with half a surrogate pair": json.dumps([{**CALL, "params": {"name": "\ud83d"}}]).encode(),
}
NO_ID = {
    "no JSON at all": b"hello",
    "an id that is cut": b'{"jsonrpc": "2.0", "id": "7',
    "an id that is half a surrogate pair": TEXT.replace("71", '"\\ud83d"').encode(),
    "an id without end": TEXT.replace("71", HUGE).encode(),
    "an id within alone": b'{"jsonrpc": "2.0", "params": {"id": 9},}',
    "an id that is a fraction": b'{"id": 7.1,}',
    "quotes alone": b'\\"' * 5000 + b'"\\',
}
NO_MESSAGE = {
    "a batch": json.dumps([CALL]).encode(),
    "no method": b'{"jsonrpc": "2.0", "id": 71}',
    "no version": b'{"id": 71, "method": "ping"}',
    "another version": b'{"jsonrpc": "1.0", "id": 71, "method": "ping"}',
    "a method that is none": b'{"jsonrpc": "2.0", "id": 71, "method": 7}',
    "parameters by position": b'{"jsonrpc": "2.0", "id": 71, "method": "ping", "params": [1]}',
}
NO_MESSAGE_NO_ID = {
    "a number": b"7",
    "null": b"null",
    "an empty batch": b"[]",
    "an id that is null": TEXT.replace("71", "null").encode(),
    "an id that is a fraction": TEXT.replace("71", "7.1").encode(),
    "an id that is true": TEXT.replace("71", "true").encode(),
    "an id that is a list": TEXT.replace("71", "[71]").encode(),
    "a handshake without one": b'{"jsonrpc": "2.0", "id": null, "method": "initialize", "params": {}}',
}


def opening(era: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the first and the last request of a connection of an era."""
    if era == "modern":
        return modern_request("server/discover")[0], {**modern_request("tools/list")[0], "id": 99}
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
    return hello, {"jsonrpc": "2.0", "id": 99, "method": "ping"}


Write = Callable[[bytes], object]
Read = Callable[[], Awaitable[dict[str, Any]]]


@contextmanager
def pipe() -> Iterator[tuple[io.TextIOWrapper, io.TextIOWrapper]]:
    reads, writes = os.pipe()
    with open(reads, errors="replace") as reader, open(writes, "w") as writer:
        yield reader, writer


@asynccontextmanager
async def connected(mcp: AgentServer) -> AsyncIterator[tuple[Write, Read]]:
    """Serve over the SDK's own stdio transport, on pipes; give what writes to it, and what reads the next message."""
    sdk = low_level_server(mcp)
    answer_unreadable(sdk)
    with pipe() as (stdin, client), pipe() as (came, stdout):

        async def read() -> dict[str, Any]:
            message: dict[str, Any] = json.loads(await anyio.to_thread.run_sync(came.readline))
            return message

        async def serve() -> None:
            async with stdio_server(anyio.wrap_file(stdin), anyio.wrap_file(stdout)) as streams:
                await sdk.run(*streams, sdk.create_initialization_options())

        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            yield lambda line: client.buffer.write(line + b"\n") and client.buffer.flush(), read
            client.close()


async def answers(lines: list[bytes], era: str = "handshake") -> list[dict[str, Any]]:
    """Return what comes of lines between the first request and the last, which is answered."""
    first, last = opening(era)
    came: list[dict[str, Any]] = []
    async with connected(log_server()) as (write, read):
        for line in [json.dumps(first).encode(), *lines, json.dumps(last).encode()]:
            write(line)
        while not came or came[-1].get("id") != last["id"]:
            came.append(await read())
    assert "result" in came[-1]
    return [each for each in came[:-1] if each.get("id") != first["id"]]


def told(came: list[dict[str, Any]]) -> list[tuple[object, int]]:
    return [(each["id"], each["error"]["code"]) for each in came]


@every("era", ["handshake", "modern"])
class TestALine:
    @every("kind", list(NO_JSON))
    async def test_that_is_no_json_is_answered_under_its_id(self, kind: str, era: str) -> None:
        assert told(await answers([NO_JSON[kind]], era))[0] == (71, -32700)

    @every("kind", list(NO_ID))
    async def test_whose_id_cannot_be_read_is_answered_under_none(self, kind: str, era: str) -> None:
        assert told(await answers([NO_ID[kind]], era)) == [(None, -32700)]

    @every("kind", list(NO_MESSAGE))
    async def test_that_is_no_message_is_answered_under_its_id(self, kind: str, era: str) -> None:
        assert told(await answers([NO_MESSAGE[kind]], era)) == [(71, -32600)]

    @every("kind", list(NO_MESSAGE_NO_ID))
    async def test_that_is_no_message_and_has_no_id_is_answered_under_none(self, kind: str, era: str) -> None:
        assert told(await answers([NO_MESSAGE_NO_ID[kind]], era)) == [(None, -32600)]

    async def test_that_is_blank_is_passed_over(self, era: str) -> None:
        assert await answers([b"", b" \t", b"\0"], era) == []

    async def test_before_the_first_request_is_answered(self, era: str) -> None:
        first, _ = opening(era)
        async with connected(log_server()) as (write, read):
            for line in [*[b"hello"] * 20, json.dumps(first).encode()]:
                write(line)
            assert [(await read())["id"] for _ in range(21)] == [*[None] * 20, first["id"]]


async def test_each_request_of_a_batch_is_answered() -> None:
    batch = [CALL, {**CALL, "id": "b"}, {"jsonrpc": "2.0", "method": "notifications/initialized"}, 7]
    assert told(await answers([json.dumps(batch).encode()])) == [(71, -32600), ("b", -32600), (None, -32600)]


async def test_a_notice_of_a_method_that_nobody_knows_is_a_notice() -> None:
    assert await answers([b'{"jsonrpc": "2.0", "method": "notices/of-somebody"}']) == []


@every("answer", ['{"jsonrpc":"2.0","id":ID,"result":[]}', '{"jsonrpc":"2.0","id":ID,"result":{"roots":[],}}'])
async def test_an_answer_that_cannot_be_read_ends_what_it_answers(answer: str) -> None:
    mcp = log_server()

    @mcp.tool
    async def folders(ctx: Context) -> str:
        return str(await ctx.list_roots())

    hello = {**HELLO, "capabilities": {"roots": {}}}
    async with connected(mcp) as (write, read):
        write(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}).encode())
        write(json.dumps({**CALL, "params": {"name": "folders"}}).encode())
        came: dict[str, Any] = {}
        while came.get("id") != 71:
            came = await read()
            if came.get("method") == "roots/list":
                write(answer.replace("ID", json.dumps(came["id"])).encode())
        assert came["result"]["isError"]


async def test_few_of_them_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "agent_utilities.wire"):
        await answers([b"1" * n + b"x" for n in range(1, 99)] + [b"hello"] * 99)
    assert 1 < len([each for each in caplog.records if "can't be read" in each.getMessage()]) <= 16


def command_of(kind: str, folder: Path) -> list[str]:
    """Return the command line of a server, or of a gateway, over stdio."""
    if kind == "server":
        return Launch().command("-t", "stdio")
    config = folder / "mcp.json"
    config.write_text(
        json.dumps({"mcpServers": {"up": {"command": sys.executable, "args": ["-I", "-S", str(FAULTY_SERVER)]}}})
    )
    return [str(Path(sys.executable).with_name("agent-utilities")), "gateway", str(config)]


@pytest.mark.outside
@every("kind", ["server", "gateway"])
def test_a_process_answers_and_goes_on(kind: str, tmp_path: Path) -> None:
    with raw_stdio(command_of(kind, tmp_path), environ(tmp_path)) as raw:
        stdin, stdout = raw.process.stdin, raw.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(NO_JSON["half a surrogate pair"] + b"\n")
        stdin.flush()
        answered = next(each for line in stdout if "id" in (each := json.loads(line)))
        assert told([answered]) == [(71, -32700)]
        assert raw.ask("ping", {})[-1]["result"] == {}
