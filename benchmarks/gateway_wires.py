"""Two wires that only gateways are asked over: mcp-hub's, and lines of JSON among which the server asks back."""

from __future__ import annotations

import itertools
import json
from typing import IO, Any

from tests.wire.http_raw import RawHttp, Stream
from tests.wire.wires import LEGACY, Answer, jsonrpc

_ABOUT = {"name": "benchmark", "version": "1"}
_INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def _initialize(version: str) -> dict[str, Any]:
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": _ABOUT}


class HubCaller:
    """mcp-hub's own wire: a stream of events, and posts to the URL that its first event names.

    Args:
        http: a connection for posts.
        stream: the stream, open.
    """

    def __init__(self, http: RawHttp, stream: Stream) -> None:
        self._http, self._stream, self._ids = http, stream, itertools.count(1)
        self._endpoint = stream.event().decode()
        self.ask("initialize", _initialize("2025-06-18"))
        self._http.send("POST", self._endpoint, (), _INITIALIZED)

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Answer:
        """Send a request and return its answer; what else comes on the stream is passed over."""
        number = next(self._ids)
        self._http.send("POST", self._endpoint, (), {**jsonrpc(method, params), "id": number})
        while json.loads(event := self._stream.event()).get("id") != number:
            continue
        return Answer(200, event)

    def close(self) -> None:
        """Hang up."""
        self._stream.close()


class LineCaller:
    """A process's standard streams; what the server asks back is refused.

    Args:
        reads: its stdout.
        writes: its stdin.
    """

    def __init__(self, reads: IO[bytes], writes: IO[bytes]) -> None:
        self._reads, self._writes, self._ids = reads, writes, itertools.count(1)
        self.ask("initialize", _initialize(LEGACY))
        self._send(_INITIALIZED)

    def _send(self, message: dict[str, Any]) -> None:
        self._writes.write(json.dumps(message).encode() + b"\n")
        self._writes.flush()

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Answer:
        """Send a request and return its answer."""
        number = next(self._ids)
        self._send({**jsonrpc(method, params), "id": number})
        while line := self._reads.readline():
            message = json.loads(line)
            if "method" not in message and message.get("id") == number:
                return Answer(200, line)
            if "method" in message and "id" in message:
                refusal = {"code": -32601, "message": "no such thing here"}
                self._send({"jsonrpc": "2.0", "id": message["id"], "error": refusal})
        raise ConnectionError("the process closed its output")
