"""One caller over four wires, down to the bytes of each answer."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, Literal, Protocol
from urllib.parse import urlsplit

from mcp.shared.inbound import NAME_BEARING_METHODS, encode_header_value
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY

from tests.wire.http_raw import REQUEST_ID, TIMEOUT_S, Headers, RawHttp, Reply
from tests.wire.processes import Launch

WireName = Literal["stdio", "sse", "legacy", "modern"]
HTTP_WIRES: tuple[WireName, ...] = ("sse", "legacy", "modern")
WIRES: tuple[WireName, ...] = ("stdio", *HTTP_WIRES)

LEGACY, MODERN = "2025-11-25", "2026-07-28"
_INFO = {"name": "hostile", "version": "1"}
ACCEPT = ("accept", "application/json, text/event-stream")


@dataclass(frozen=True)
class Answer:
    """One JSON-RPC answer.

    Args:
        status: the HTTP status, 200 where there is none.
        raw: the message's bytes, or the body of an HTTP answer that is no JSON-RPC message.
    """

    status: int
    raw: bytes

    @property
    def message(self) -> dict[str, Any]:
        """The message, read."""
        found: dict[str, Any] = json.loads(self.raw)
        return found

    @property
    def result(self) -> dict[str, Any]:
        """The result of a request that was served."""
        found: dict[str, Any] = self.message["result"]
        return found

    @property
    def refused(self) -> bool:
        """Whether the request was answered with an error, of the protocol or of a tool."""
        return self.status >= 400 or "error" in self.message or self.result.get("isError") is True


class Caller(Protocol):
    """Sends JSON-RPC requests over one wire."""

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Answer:
        """Send a request, always with the same id, and return its answer."""


def names(caller: Caller, method: str) -> list[str]:
    """Return the names, URIs or templates that a list method shows."""
    result = caller.ask(method).result
    key = "resourceTemplates" if method == "resources/templates/list" else method.removesuffix("/list")
    return [each.get("uriTemplate") or each.get("uri") or each["name"] for each in result[key]]


def jsonrpc(method: str, params: dict[str, Any] | None = None, *, meta: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a request; keys of `meta` yield to those that the params bring themselves."""
    given = dict(params or {})
    if meta is not None:
        given["_meta"] = {**meta, **given.get("_meta", {})}
    return {"jsonrpc": "2.0", "id": REQUEST_ID, "method": method, "params": given}


INITIALIZE = {
    **jsonrpc("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _INFO}),
    "id": 0,
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
ENVELOPE = {PROTOCOL_VERSION_META_KEY: MODERN, CLIENT_INFO_META_KEY: _INFO, CLIENT_CAPABILITIES_META_KEY: {}}


class ModernCaller:
    """Streamable HTTP, 2026-07-28: each POST stands alone."""

    def __init__(self, http: RawHttp, query: str, headers: Headers) -> None:
        self._http, self._url, self._headers = http, f"/mcp{query}", headers

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Answer:
        request, headers = modern_request(method, params)
        return _answer(self._http.send("POST", self._url, [*headers, *self._headers], request))

    def post(self, body: Any) -> bytes:
        """Send a body as it is, as a call of a tool, and return what comes back."""
        _, headers = modern_request("tools/call", {"name": "wipe_notes"})
        return self._http.send("POST", self._url, headers, body).body


def modern_request(method: str, params: dict[str, Any] | None = None) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return a request of 2026-07-28 and the headers that must go with it."""
    request = jsonrpc(method, params, meta=ENVELOPE)
    headers = [ACCEPT, ("mcp-protocol-version", MODERN), ("mcp-method", method)]
    if (key := NAME_BEARING_METHODS.get(method)) is not None:
        headers.append(("mcp-name", encode_header_value(str(request["params"].get(key)))))
    return request, headers


class LegacyCaller:
    """Streamable HTTP, 2025-11-25: a session, with the caller's query and headers on every POST.

    Args:
        http: a connection to the server.
        query: on the URL of every request.
        headers: on every request.
        session: the id of a session that is open, or None to open one.
    """

    def __init__(self, http: RawHttp, query: str, headers: Headers, session: str | None = None) -> None:
        self._http, self._url, self._headers = http, f"/mcp{query}", headers
        self.opened, self.session = Answer(200, b""), session
        if session is None:
            opened = self._post(INITIALIZE, [ACCEPT])
            self.opened, self.session = _answer(opened), opened.headers.get("mcp-session-id")
            if self.session is not None:
                self._post(INITIALIZED, self._protocol())

    def _protocol(self) -> list[tuple[str, str]]:
        return [ACCEPT, ("mcp-protocol-version", LEGACY), ("mcp-session-id", str(self.session))]

    def _post(self, message: Any, headers: Headers) -> Reply:
        return self._http.send("POST", self._url, [*headers, *self._headers], message)

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Answer:
        if self.opened.status != 200:
            return self.opened
        return _answer(self._post(jsonrpc(method, params), self._protocol()))

    def post(self, body: Any) -> bytes:
        """Send a body as it is and return what comes back."""
        return self._post(body, self._protocol()).body

    def close(self) -> None:
        """End the session, unless the server has ended."""
        if self.opened.status == 200:
            with suppress(OSError):
                self._http.send("DELETE", "/mcp", self._protocol())


class SseCaller:
    """HTTP+SSE: requests go to the URL that the stream's first event names, answers come on the stream."""

    def __init__(self, http: RawHttp, query: str, headers: Headers) -> None:
        self._http, self._headers = http, headers
        self._stream = http.stream(f"/sse{query}", headers)
        self.endpoint, self.opened = "", Answer(200, b"")
        if self._stream.status != 200:
            self.opened = Answer(self._stream.status, self._stream.read())
            return
        self.endpoint = self._stream.event().decode()
        self._post(INITIALIZE)
        self.opened = Answer(200, self._stream.event())
        self._post(INITIALIZED)

    def _post(self, message: Any) -> Reply:
        return self._http.send("POST", self.endpoint, self._headers, message)

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Answer:
        if self.opened.status != 200:
            return self.opened
        posted = self._post(jsonrpc(method, params))
        return Answer(200, self._answered()) if posted.status == 202 else _answer(posted)

    def _answered(self) -> bytes:
        """Return the next event that answers; notices come on the same stream."""
        while b'"id":' not in (event := self._stream.event()):
            pass
        return event

    def post(self, body: Any) -> bytes:
        """Send a body as it is and return what comes back, on the stream where it was taken."""
        posted = self._post(body)
        return self._stream.event() if posted.status == 202 else posted.body

    def close(self) -> None:
        """Hang up."""
        self._stream.close()


class StdioCaller:
    """A process's standard streams, one message a line, after the 2025-11-25 handshake."""

    def __init__(self, reads: IO[bytes], writes: IO[bytes]) -> None:
        self._reads, self._writes = reads, writes
        self._send(INITIALIZE)
        self._reads.readline()
        self._send(INITIALIZED)

    def _send(self, message: dict[str, Any]) -> None:
        self._writes.write(json.dumps(message).encode() + b"\n")
        self._writes.flush()

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Answer:
        self.begin(method, params)
        return self.answered()

    def begin(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a request whose answer is read later."""
        self._send(jsonrpc(method, params))

    def answered(self) -> Answer:
        """Return the next answer; notices come on the same stream."""
        while b'"id":' not in (line := self._reads.readline()):
            assert line, "the server closed its output"
        return Answer(200, line.rstrip())


class Access:
    """A way into one HTTP server, kept open for many callers.

    Args:
        url: the server's root URL.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.url, self._host, self._port = url, parts.hostname or "", parts.port or 0
        self.http = RawHttp(url)
        self._legacy = LegacyCaller(self.http, "", ())

    @contextmanager
    def calling(self, wire: WireName, query: str = "", headers: Headers = ()) -> Iterator[Caller]:
        """Connect a caller over an HTTP wire.

        Args:
            wire: `sse`, `legacy` or `modern`.
            query: the query string with its `?`, as it goes on the wire.
            headers: sent with every request, beside those that the protocol needs.
        """
        if wire == "modern":
            yield ModernCaller(self.http, query, headers)
        elif wire == "legacy":
            yield LegacyCaller(self.http, query, headers, self._legacy.session)
        else:
            with closing(SseCaller(self.http, query, headers)) as caller:
                yield caller

    def raw(self, data: bytes) -> bytes:
        """Send bytes on a connection of their own and return the first bytes that come back."""
        with socket.create_connection((self._host, self._port), timeout=TIMEOUT_S) as connection:
            connection.sendall(data)
            return connection.recv(4096)

    def close(self) -> None:
        """Close all connections."""
        self._legacy.close()
        self.http.close()


@contextmanager
def stdio_caller(launch: Launch) -> Iterator[Caller]:
    """Launch a server process on stdio and call it; the process ends with the block."""
    process = subprocess.Popen(
        launch.command(),
        env=launch.environ,
        cwd=launch.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield StdioCaller(process.stdout, process.stdin)
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _answer(reply: Reply) -> Answer:
    return Answer(reply.status, reply.message)
