"""An upstream that writes down whatever reaches it: its environment, each message, each HTTP request's headers.

python recording_server.py RECORD stdio
python recording_server.py RECORD http|handshake|sse    on a free port, which uvicorn's line on stderr names;
                                                        `handshake` speaks 2025-11-25 alone
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
MODERN = b"2026-07-28"
UNSUPPORTED = {
    "jsonrpc": "2.0",
    "id": "server-error",
    "error": {"code": -32600, "message": "Bad Request: Unsupported protocol version: 2026-07-28"},
}
"""What SDKs answer that know no newer era."""


class Record:
    """Appends to a file."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "a", encoding="utf-8")
        self.write("environ", dict(os.environ))

    def write(self, kind: str, what: Any) -> None:
        """Write down one thing."""
        print(json.dumps({kind: what}), file=self._file, flush=True)


def on_stdio(record: Record) -> None:
    """Answer lines of JSON until they end."""
    tool = {"name": "look", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}
    for line in sys.stdin:
        record.write("message", line)
        request = json.loads(line)
        if "id" not in request:
            continue
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] == "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "recording", "version": "1"}}
            answer["result"] = {"protocolVersion": request["params"]["protocolVersion"], **about}
        elif request["method"] == "tools/list":
            answer["result"] = {"tools": [tool]}
        elif request["method"] == "tools/call":
            answer["result"] = {"content": [{"type": "text", "text": "looked"}]}
        else:
            answer["error"] = {"code": -32601, "message": "not here"}
        print(json.dumps(answer), flush=True)


def on_http(record: Record, kind: str) -> None:
    """Serve streamable HTTP or SSE."""
    import uvicorn
    from fastmcp import FastMCP

    server: FastMCP[Any] = FastMCP("recording")

    @server.tool
    def look(text: str = "") -> str:
        return "looked"

    app = server.http_app(transport="sse" if kind == "sse" else "http")

    async def recording(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        record.write("request", {"headers": headers, "query": scope["query_string"].decode("latin-1")})
        if kind == "handshake" and (b"mcp-protocol-version", MODERN) in scope["headers"]:
            headers_sent = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 400, "headers": headers_sent})
            return await send({"type": "http.response.body", "body": json.dumps(UNSUPPORTED).encode()})

        async def received() -> Any:
            message = await receive()
            if body := message.get("body"):
                record.write("message", body.decode())
            return message

        return await app(scope, received, send)

    uvicorn.run(recording, host="127.0.0.1", port=0, log_level="info", access_log=False, timeout_graceful_shutdown=1)


if __name__ == "__main__":
    kept = Record(sys.argv[1])
    on_stdio(kept) if sys.argv[2] == "stdio" else on_http(kept, sys.argv[2])
