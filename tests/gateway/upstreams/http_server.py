"""A small MCP server (2025-11-25) over streamable HTTP and HTTP+SSE, on a real socket, that misbehaves as told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from zlib import Z_FULL_FLUSH, compressobj


def _head(status: int, kind: str, **headers: str) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in {"content-type": kind, **headers}.items())
    return f"HTTP/1.1 {status} Told\r\n{lines}\r\n".encode()


def _nothing_packed() -> tuple[bytes, bytes]:
    """Return how gzip of zeros begins, and a kilobyte that goes on with a megabyte of them, as often as it comes."""
    packed = compressobj(wbits=31)
    first, more = (packed.compress(bytes(2**20)) + packed.flush(Z_FULL_FLUSH) for _ in range(2))
    return first, more


_NOTE = b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "n"}}'
_FIRST_PACKED, _PACKED = _nothing_packed()
ENDLESS = {
    "endless-json": (_head(200, "application/json"), b'{"jsonrpc": "2.0", ' + b" " * 60_000),
    "endless-error": (_head(500, "text/html"), b"<p>" * 20_000),
    "endless-html": (_head(200, "text/html"), b"<p>" * 20_000),
    "endless-event": (_head(200, "text/event-stream"), b"data: x\n" * 8_000),
    "endless-redirect": (_head(307, "text/html", location="/moved"), b"<p>" * 20_000),
    "endless-gzip": (_head(200, "application/json", **{"content-encoding": "gzip"}) + _FIRST_PACKED, _PACKED),
    "packed-twice": (_head(200, "application/json", **{"content-encoding": "gzip, gzip"}), b"x"),
    "endless-notes": (_head(200, "text/event-stream"), b"event: message\ndata: " + _NOTE + b"\n\n"),
}
"""Tools whose answer has no end: how it begins, and what follows again and again."""
TOOLS = (
    "echo",
    "headers",
    "wait",
    "reset",
    "half",
    "half-stream",
    "html",
    "redirect",
    "ask",
    "values",
    "blocks",
    *ENDLESS,
    "401",
    "403",
    "404",
    "500",
)


class HttpServer:
    """Serves one test; what it should do wrong is set on it."""

    def __init__(self) -> None:
        self.url = ""
        self.start_status = 0
        """What the handshake is answered with; 0 where all is well."""
        self.seen: list[tuple[str, Mapping[str, str], dict[str, Any]]] = []
        """Method, headers and message of each request."""
        self.sessions: set[str] = set()
        self.released = asyncio.Event()
        """Lets calls of `wait` go on."""
        self.discover_status = 400
        """What a probe for the newer era is answered with."""
        self.answers: dict[str, tuple[int, bytes, dict[str, str]]] = {}
        """What calls of a tool are answered with: the status, the body and headers beside `content-type`."""
        self.forgotten = (404, b"Session not found")
        """What messages of a session are answered with that is unknown."""
        self.has_only_sse = False
        """Whether it knows nothing of streamable HTTP."""
        self.n_poured = 0
        """Bytes that were sent of bodies that have no end."""
        self._streams: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while (line := await reader.readline()).strip():
                method, path, _ = line.decode().split()
                headers = {}
                while header := (await reader.readline()).decode().strip():
                    name, _, value = header.partition(":")
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                message = json.loads(body) if body else {}
                self.seen.append((method, headers, message))
                await self._answer(writer, method, path, headers, message)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _answer(
        self, writer: asyncio.StreamWriter, method: str, path: str, headers: Mapping[str, str], message: dict[str, Any]
    ) -> None:
        if method == "GET" and path == "/sse":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            writer.write(b"event: endpoint\ndata: /messages\n\n")
            self._streams.append(writer)
            await asyncio.get_running_loop().create_future()
        elif path == "/sse" and self.has_only_sse:
            _send(writer, 405, b"")
        elif method != "POST":
            _send(writer, 405 if method == "GET" else 200, b"")
        elif path == "/messages":
            await self._answer_sse(writer, message)
        elif (told := message.get("params", {}).get("name")) in ENDLESS and path != "/moved":
            await self._pour(writer, *ENDLESS[told])
        elif told in self.answers:
            status, body, more = self.answers[told]
            _send(writer, status, body, **more)
        elif not _misbehaved(writer, message.get("params", {}).get("name")):
            await self._answer_mcp(writer, headers, message)
        await writer.drain()

    async def _answer_mcp(
        self, writer: asyncio.StreamWriter, headers: Mapping[str, str], message: dict[str, Any]
    ) -> None:
        method, session = message.get("method"), headers.get("mcp-session-id")
        if method == "server/discover":
            _send(writer, self.discover_status, b"unknown")
        elif method == "initialize" and self.start_status:
            _send(writer, self.start_status, b"no")
        elif method == "initialize":
            self.sessions.add(f"s{len(self.seen)}")
            _send(writer, 200, _result(message, handshake()), **{"mcp-session-id": f"s{len(self.seen)}"})
        elif session not in self.sessions:
            _send(writer, *self.forgotten)
        elif "id" not in message:
            _send(writer, 202, b"")
        else:
            _send(writer, 200, _result(message, await self._result(message, headers)))

    async def _answer_sse(self, writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
        if message.get("params", {}).get("name") == "500":
            _send(writer, 500, b"no")
            return
        _send(writer, 202, b"Accepted")
        if message.get("params", {}).get("name") == "endless-event":
            await self._pour(self._streams[-1], b"", ENDLESS["endless-event"][1])
        elif "id" in message:  # beside what comes next on this connection
            self._tasks.add(asyncio.create_task(self._answer_on_stream(message)))

    async def _answer_on_stream(self, message: dict[str, Any]) -> None:
        result = handshake() if message["method"] == "initialize" else await self._result(message, {})
        self._streams[-1].write(b"event: message\ndata: " + _result(message, result) + b"\n\n")

    async def _result(self, message: dict[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        params = message.get("params", {})
        if message["method"] == "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
        if message["method"] != "tools/call":
            return {}
        if params["name"] == "wait":
            await self.released.wait()
        text = json.dumps(dict(headers)) if params["name"] == "headers" else params["arguments"].get("text", "")
        if params["name"] == "values":
            return {"content": [], "structuredContent": {"values": [[]] * params["arguments"]["n"]}}
        if params["name"] == "blocks":
            return {"content": [{"type": "text", "text": ""}] * params["arguments"]["n"]}
        if "n" in params["arguments"]:
            text = "x" * params["arguments"]["n"]
        return {"content": [{"type": "text", "text": text}]}

    async def _pour(self, writer: asyncio.StreamWriter, head: bytes, piece: bytes) -> None:
        """Send what has no end, until nobody takes it."""
        writer.write(head)
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
            self.n_poured += len(piece)

    def forget_sessions(self) -> None:
        """Know no session any more, as after a restart."""
        self.sessions.clear()

    def end_streams(self) -> None:
        """End what is read of HTTP+SSE."""
        for writer in self._streams:
            writer.close()

    async def close(self) -> None:
        """End all connections."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _misbehaved(writer: asyncio.StreamWriter, told: str | None) -> bool:
    """Do what the name of a tool says, and say whether it says anything."""
    if told == "reset":
        writer.transport.abort()
    elif told == "half":
        writer.write(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{"jsonrpc"')
        writer.close()
    elif told == "half-stream":
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 999\r\n\r\n: ping\n\n")
        writer.close()
    elif told == "html":
        _send(writer, 200, b"<html>", "text/html")
    elif told == "redirect":
        port = writer.get_extra_info("sockname")[1]
        _send(writer, 307, b"", location=f"http://me:s3cret@127.0.0.2:{port}/mcp?key=s3cret#s3cret")
    elif told is not None and told.isdigit():
        _send(writer, int(told), b"no")
    else:
        return False
    return True


def handshake() -> dict[str, Any]:
    """Return what an `initialize` is answered with."""
    info = {"name": "http", "version": "1"}
    return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}


def _result(message: dict[str, Any], result: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()


def _send(
    writer: asyncio.StreamWriter, status: int, body: bytes, kind: str = "application/json", **headers: str
) -> None:
    told = {"content-length": str(len(body)), "content-type": kind, **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    writer.write(f"HTTP/1.1 {status} Told\r\n{lines}\r\n".encode() + body)


@asynccontextmanager
async def http_server(port: int = 0) -> AsyncIterator[HttpServer]:
    """Serve until the block is left."""
    server = HttpServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", port)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        await server.close()
