"""Clients of the handshake era that keep every message in the order in which it came."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.wire.http_raw import Headers, RawHttp, events
from tests.wire.wires import ACCEPT, LEGACY, jsonrpc

Messages = list[dict[str, Any]]
NOTICE = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Raw(Protocol):
    """A client that keeps every message in the order in which it came."""

    hello: dict[str, Any]

    def ask(self, method: str, params: dict[str, Any]) -> Messages:
        """Return what came up to the answer to a request, the answer last."""
        ...

    def rest(self) -> Messages:
        """Say goodbye, and return what else came beside the answers."""
        ...


@dataclass
class RawStdio:
    """Messages by the line."""

    process: subprocess.Popen[bytes]
    hello: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.hello = self.ask("initialize", HELLO)[-1]["result"]
        self._send(INITIALIZED)

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> Messages:
        assert self.process.stdout is not None
        self._send(jsonrpc(method, params))
        return _up_to_answer(json.loads(line) for line in self.process.stdout)

    def rest(self) -> Messages:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        return [json.loads(line) for line in self.process.stdout]


class RawSse:
    """All messages on one stream of events."""

    def __init__(self, url: str, headers: Headers = ()) -> None:
        self._http, self._headers = RawHttp(url), headers
        self.stream = self._http.stream("/sse", headers)
        self._endpoint = self.stream.event().decode()
        self.hello = self.ask("initialize", HELLO)[-1]["result"]
        self._http.send("POST", self._endpoint, headers, INITIALIZED)

    def ask(self, method: str, params: dict[str, Any]) -> Messages:
        self._http.send("POST", self._endpoint, self._headers, jsonrpc(method, params))
        return _up_to_answer(json.loads(self.stream.event()) for _ in iter(int, 1))

    def rest(self) -> Messages:
        came = self.ask("ping", {})[:-1]
        self.stream.close()
        self.close()
        return came

    def close(self) -> None:
        """Ask no more; the stream stays open."""
        self._http.close()


class RawSession:
    """Answers in the body of each POST, as a stream of events or as JSON; the rest on a stream of its own.

    Args:
        url: the server's root URL.
        headers: on every request.
    """

    def __init__(self, url: str, headers: Headers = ()) -> None:
        self._http = RawHttp(url)
        self._headers = [ACCEPT, *headers]
        opened = self._http.send("POST", "/mcp", self._headers, jsonrpc("initialize", HELLO))
        self.hello = json.loads(opened.message)["result"]
        self._headers += [("mcp-protocol-version", LEGACY), ("mcp-session-id", opened.headers["mcp-session-id"])]
        self._post(INITIALIZED)
        self.stream = self._http.stream("/mcp", self._headers)

    def _post(self, message: dict[str, Any]) -> bytes:
        return self._http.send("POST", "/mcp", self._headers, message).body

    def ask(self, method: str, params: dict[str, Any]) -> Messages:
        body = self._post(jsonrpc(method, params))
        bodies = events(iter(body.splitlines())) if body.startswith((b"event:", b"id:", b":", b"data:")) else [body]
        return [json.loads(each) for each in bodies]

    def rest(self) -> Messages:
        """End the session, which ends its stream."""
        self._http.send("DELETE", "/mcp", self._headers)
        came = [json.loads(each) for each in events(iter(self.stream.read().splitlines()))]
        self.stream.close()
        self.close()
        return came

    def close(self) -> None:
        """Ask no more; the session and its stream stay open."""
        self._http.close()


def _up_to_answer(messages: Iterable[dict[str, Any]]) -> Messages:
    came: Messages = []
    for message in messages:
        came.append(message)
        if "id" in message and "method" not in message:
            break
    return came


@contextmanager
def raw_stdio(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[RawStdio]:
    """Launch a server on stdio, and read it by the line."""
    process = subprocess.Popen(
        command, env=dict(environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        yield RawStdio(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def search(raw: Raw, query: str) -> Messages:
    """Return what comes of a search."""
    return call(raw, "tool_search", query=query)


def call(raw: Raw, tool: str, **arguments: Any) -> Messages:
    """Return what comes of a call."""
    return raw.ask("tools/call", {"name": tool, "arguments": arguments})


def text_of(message: Mapping[str, Any]) -> str:
    """Return the first text of an answer to a call."""
    text: str = message["result"]["content"][0]["text"]
    return text
