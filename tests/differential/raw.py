"""Clients that check nothing: what a request is answered with, and what is told before, as it came."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mcp_types import LOG_LEVEL_META_KEY

from tests.wire.http_raw import REQUEST_ID, Headers, RawHttp
from tests.wire.wires import ACCEPT, ENVELOPE, INITIALIZE, INITIALIZED, LEGACY, MODERN, jsonrpc, modern_request

ROOT = Path(__file__).parents[2]
Message = dict[str, Any]


@dataclass(frozen=True)
class Told:
    """What came of a request.

    Args:
        notices: what was told before the answer, in its order.
        answer: with `result` or `error`; None where there was none.
    """

    notices: tuple[Message, ...]
    answer: Message | None

    @classmethod
    def of(cls, messages: list[Message]) -> Told:
        """Return messages without what is of the connection."""
        plain = [{key: value for key, value in each.items() if key not in ("jsonrpc", "id")} for each in messages]
        answers = [each for each, whole in zip(plain, messages, strict=True) if _answers(whole)]
        return cls(tuple(each for each in plain if "method" in each), answers[-1] if answers else None)


class Client(Protocol):
    """Asks one thing after the other."""

    def ask(self, method: str, params: Message) -> Told:
        """Return what comes of a request."""
        ...


def tokened(params: Message, era: str) -> Message:
    """Return a request's params, with a token of progress, and with a wish for all that is logged."""
    return {**params, "_meta": {"progressToken": 7, **({LOG_LEVEL_META_KEY: "debug"} if era == MODERN else {})}}


class StdioClient:
    """A server's process, spoken to by the line; lines that are no message are passed over."""

    def __init__(self, process: subprocess.Popen[bytes], era: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._reads, self._writes, self._era = process.stdout, process.stdin, era
        if era != MODERN:
            self._write(INITIALIZE)
            self._up_to_answer()
            self._write(INITIALIZED)

    def _write(self, message: Message) -> None:
        self._writes.write(json.dumps(message).encode() + b"\n")
        self._writes.flush()

    def ask(self, method: str, params: Message) -> Told:
        """Return what comes of a request."""
        self._write(jsonrpc(method, tokened(params, self._era), meta=ENVELOPE if self._era == MODERN else {}))
        return Told.of(self._up_to_answer())

    def _up_to_answer(self) -> list[Message]:
        came: list[Message] = []
        while not came or not _answers(came[-1]):
            line = self._reads.readline()
            assert line, "the server closed its output"
            if (message := _message(line)) is not None:
                came.append(message)
        return came


class HttpClient:
    """A server over streamable HTTP.

    Args:
        url: its root.
        era: one of before 2026-07-28 has a session.
    """

    def __init__(self, url: str, era: str) -> None:
        self._http, self._era = RawHttp(url), era
        self._headers: Headers = [ACCEPT]
        if era != MODERN:
            opened = self._http.send("POST", "/mcp", self._headers, INITIALIZE)
            self._headers = [
                ACCEPT,
                ("mcp-protocol-version", era),
                ("mcp-session-id", opened.headers["mcp-session-id"]),
            ]
            self._http.send("POST", "/mcp", self._headers, INITIALIZED)

    def ask(self, method: str, params: Message) -> Told:
        """Return what comes of a request."""
        request, headers = jsonrpc(method, tokened(params, self._era)), self._headers
        if self._era == MODERN:
            request, headers = modern_request(method, tokened(params, self._era))
        reply = self._http.send("POST", "/mcp", headers, request)
        if reply.headers.get("content-type", "").lower().startswith("text/event-stream"):
            messages = [_message(data) for data in events(reply.body)]
        else:
            messages = [_message(reply.body)]
        return Told.of([message for message in messages if message is not None])

    def close(self) -> None:
        """End the session, where there is one."""
        if self._era != MODERN:
            self._http.send("DELETE", "/mcp", self._headers)
        self._http.close()


def _answers(message: Message) -> bool:
    return "method" not in message and message.get("id") in (REQUEST_ID, INITIALIZE["id"])


def _message(text: bytes) -> Message | None:
    try:
        read = json.loads(text)
    except ValueError:
        return None
    return read if isinstance(read, dict) and "jsonrpc" in read else None


def events(body: bytes) -> Iterator[bytes]:
    """Yield the data of each event of a stream, as the standard reads it."""
    data: list[bytes] = []
    for line in re.split(rb"\r\n|\n|\r", body.removeprefix(b"\xef\xbb\xbf")):
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data)
            data = []


# -- the servers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Upstream:
    """A server that is asked.

    Args:
        name: in the gateway's configuration.
        transport: `stdio` or `http`.
        era: the protocol version that it speaks.
        scheme: of its URIs; two have the same.
    """

    name: str
    transport: str
    era: str
    scheme: str

    def command(self, seed: int, n_listed: int) -> list[str]:
        """Return how it is started."""
        given = [self.transport, self.era, self.scheme, str(seed), str(n_listed)]
        return [sys.executable, "-m", "tests.differential.fuzzing_server", *given]


UPSTREAMS = (
    Upstream("s25", "stdio", LEGACY, "fuzz"),
    Upstream("s26", "stdio", MODERN, "fuzz-b"),
    Upstream("h25", "http", "2025-06-18", "fuzz-c"),
    Upstream("h26", "http", MODERN, "fuzz"),
)


@contextmanager
def stdio_client(upstream: Upstream, seed: int, n_listed: int) -> Iterator[Client]:
    """Start a server over stdio, and ask it; it ends with the block."""
    command = upstream.command(seed, n_listed)
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield StdioClient(process, upstream.era)
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


@contextmanager
def http_server(upstream: Upstream, seed: int, n_listed: int) -> Iterator[str]:
    """Serve over HTTP for the length of a block, and yield the URL."""
    process = subprocess.Popen(upstream.command(seed, n_listed), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
