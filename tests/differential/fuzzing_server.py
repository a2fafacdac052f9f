"""An MCP server that plays what `plays.py` makes of each request, in frames of every kind that are legal, or nearly.

    python -m tests.differential.fuzzing_server stdio ERA SCHEME SEED N_LISTED
    python -m tests.differential.fuzzing_server http ERA SCHEME SEED N_LISTED      (prints its URL)

It is of one era, lists `N_LISTED` components of each kind that follow from `SEED`, and reads nothing of what it is sent
but method, params and id.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.differential.plays import MODERN, listed, play, seed_of
from tests.differential.values import Message

_KINDS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_PAGE = 50
_GARBAGE = (
    *("", "   ", "starting up ...", "[1, 2]", "42", '"text"', "{'not': json}", "\x1b[31mred\x1b[0m", "null", "{}"),
    '{"jsonrpc": "2.0", "id": "never asked", "result": {}}',
    '{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "of nothing"}}',
)
"""Lines that answer nothing."""


class Server:
    """What answers, on any transport."""

    def __init__(self, era: str, scheme: str, seed: str, n_listed: str) -> None:
        self.era, self.scheme, self._seed, self._n_listed = era, scheme, int(seed), int(n_listed)

    def messages(self, request: Message) -> list[Message]:
        """Return what is sent on a request, the answer last; nothing on what is no request."""
        if "id" not in request or "method" not in request:
            return []
        params = request.get("params") or {}
        if seed_of(request["method"], params) is None:
            return [_to(request, self._answer(request["method"], params))]
        played = play(request["method"], params, self.scheme, self.era)
        token = (params.get("_meta") or {}).get("progressToken")
        notices = [_with_token(notice, token) for notice in played.notices]
        return [*({"jsonrpc": "2.0", **each} for each in notices if each), _to(request, played.answer)]

    def _answer(self, method: str, params: Message) -> Message:
        capabilities: Message = {"tools": {"listChanged": True}, "prompts": {}, "resources": {}, "completions": {}}
        capabilities["logging"] = {}
        if method == "server/discover" and self.era == MODERN:
            return {"result": self._kept({"supportedVersions": [MODERN], "capabilities": capabilities})}
        if method == "initialize" and self.era != MODERN:
            info = {"name": "fuzz", "version": "1"}
            return {"result": {"protocolVersion": self.era, "capabilities": capabilities, "serverInfo": info}}
        if method == "initialize":
            told = {"supported": [MODERN], "requested": params.get("protocolVersion")}
            return {"error": {"code": -32022, "message": "the initialize handshake is not accepted", "data": told}}
        if method in ("ping", "logging/setLevel"):
            return {"result": {}}
        if (kind := _KINDS.get(method)) is not None:
            return {"result": self._kept(self._page(kind, int(params.get("cursor") or 0)))}
        if method == "tools/call":
            given = json.dumps(params.get("arguments", "absent"), sort_keys=True)
            return {"result": self._kept({"content": [{"type": "text", "text": given}]})}
        return {"error": {"code": -32601, "message": f"no such method: {method}"}}

    def _page(self, kind: str, start: int) -> Message:
        items = listed(kind, self._seed, self._n_listed, self.scheme)
        page: Message = {kind: items[start : start + _PAGE]}
        return page | ({"nextCursor": str(start + _PAGE)} if start + _PAGE < len(items) else {})

    def _kept(self, result: Message) -> Message:
        return result | ({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if self.era == MODERN else {})


def _to(request: Message, answer: Message) -> Message:
    return {"jsonrpc": "2.0", "id": request["id"], **answer}


def _with_token(notice: Message, token: Any) -> Message | None:
    if notice["method"] != "notifications/progress":
        return notice
    return None if token is None else {**notice, "params": {"progressToken": token, **notice["params"]}}


def written(rng: Random, message: Message, **options: Any) -> bytes:
    """Return a message as JSON, in one of the ways in which it is written."""
    text = json.dumps(message, ensure_ascii=rng.random() < 0.5, separators=rng.choice(((",", ":"), None)), **options)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(message, **options).encode()


def cut(rng: Random, data: bytes, n_most: int = 4) -> Iterator[bytes]:
    """Yield data in pieces, cut anywhere."""
    places = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(n_most)))
    for start, end in zip([0, *places], [*places, len(data)], strict=True):
        if start < end:
            yield data[start:end]


# -- stdio -------------------------------------------------------------------------------------------------------------


def serve_stdio(server: Server) -> None:
    """Answer each line, until there are no more; the answer to a call that says it is the last has no line's end."""
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if request.get("method") == "tools/call" and (request["params"].get("arguments") or {}).get("last"):
            out.write(json.dumps(server.messages(request)[-1]).encode())
            out.flush()
            return
        rng = Random(f"frame {seed_of(request.get('method', ''), request.get('params') or {})}")
        for message in server.messages(request):
            if rng.random() < 0.1:
                out.write(f"{rng.choice(_GARBAGE)}\n".encode())
            ends, begins = rng.choice((b"\n", b"\n", b"\r\n", b" \n", b"\n\n")), rng.choice((b"", b"", b"", b"  "))
            for piece in cut(rng, begins + written(rng, message) + ends):
                out.write(piece)
                out.flush()


# -- streamable HTTP ---------------------------------------------------------------------------------------------------


class Http:
    """Answers POSTs, each in a frame of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode("latin-1").split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if first.startswith("POST"):
                    await self._post(writer, json.loads(body))
                else:
                    writer.write(_head(200 if first.startswith("DELETE") else 405, **{"content-length": "0"}))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _post(self, writer: asyncio.StreamWriter, request: Message) -> None:
        messages = self._server.messages(request)
        if not messages:
            writer.write(_head(202, **{"content-length": "0"}))
            return
        rng = Random(f"frame {seed_of(request['method'], request.get('params') or {})}")
        session = {"mcp-session-id": "one"} if request["method"] == "initialize" else {}
        if len(messages) > 1 or rng.random() < 0.5:
            kind, body = "text/event-stream", b"".join(_events(rng, messages))
            kind += rng.choice(("", "; charset=utf-8", ";charset=UTF-8"))
        else:
            kind, body = rng.choice(("application/json", "application/json; charset=utf-8", "Application/JSON")), b""
            body = rng.choice((b"", b"", b"\n  ")) + written(rng, messages[0], indent=rng.choice((None, None, 2)))
        is_error = "error" in messages[0] and kind.lower().startswith("application")
        status = rng.choice((400, 422, 500)) if is_error and rng.random() < 0.2 else 200
        if rng.random() < 0.3:
            writer.write(_head(status, **{"content-type": kind, "content-length": str(len(body)), **session}) + body)
            return
        writer.write(_head(status, **{"content-type": kind, "transfer-encoding": "chunked", **session}))
        for piece in cut(rng, body, 6):
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")


def _events(rng: Random, messages: list[Message]) -> Iterator[bytes]:
    """Yield server-sent events, as the standard lets them be written."""
    end = rng.choice((b"\n", b"\n", b"\r\n", b"\r"))
    if rng.random() < 0.1:
        yield b"\xef\xbb\xbf"
    for n, message in enumerate(messages):
        if rng.random() < 0.2:
            yield rng.choice((b": ping", b":", b"retry: 10000", b"odd: field", b"data", b"event: ping")) + end + end
        yield rng.choice((b"event: message" + end, b"event:message" + end, b"", f"id: {n}".encode() + end))
        # Lines end where an event's data has a line's end; over several lines of it they are joined again.
        for line in written(rng, message, indent=rng.choice((None, None, None, 1))).split(b"\n"):
            yield rng.choice((b"data: ", b"data:")) + line + end
        yield end


def _head(status: int, **headers: str) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Told\r\n{lines}\r\n".encode()


async def serve_http(server: Server) -> None:
    """Serve on a port of its own choice."""
    listening = await asyncio.start_server(Http(server).serve, "127.0.0.1", 0, limit=2**26)
    print(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp", flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    transport, *given = sys.argv[1:]
    if transport == "stdio":
        serve_stdio(Server(*given))
    else:
        asyncio.run(serve_http(Server(*given)))
