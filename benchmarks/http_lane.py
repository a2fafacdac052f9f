"""A client for real HTTP on loopback: posts one request at a time, timed to the last byte of its answer."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal, Self

import httpx2

from benchmarks.contenders import ContenderError, Process
from benchmarks.measure import Timing
from benchmarks.worker import ENVELOPE, PROTOCOL

Era = Literal["2026-07-28", "handshake"]
ERAS: tuple[Era, ...] = ("2026-07-28", "handshake")
HANDSHAKE = "2025-11-25"
_HEADERS = {"host": "127.0.0.1", "accept": "application/json, text/event-stream", "content-type": "application/json"}


class HttpClient:
    """Speaks MCP to one worker in both eras, without a client's own parsing, the same for every server.

    Args:
        process: the worker; it is told to serve.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        port = process.ask("serve")["port"]
        self._client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=120, trust_env=False)
        self._base = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        self._session = self._shake_hands()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def _shake_hands(self) -> dict[str, str]:
        client = {"name": "benchmark", "version": "1"}
        params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": client}
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        answer = self._client.post("/mcp", json=body, headers=self._base).raise_for_status()
        session = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": HANDSHAKE}
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        self._client.post("/mcp", json=done, headers=self._base | session).raise_for_status()
        return session

    def post(
        self,
        era: Era,
        method: str,
        params: dict[str, Any],
        headers: dict[str, str],
        n_calls: int,
        n_tools: int,
    ) -> list[Timing]:
        """Return the timings of requests: wall time here, processor time of the server as a mean over them.

        The last answer is checked.

        Raises:
            ContenderError: the answer is an error, or a list has not `n_tools` tools.
        """
        if era == "handshake":
            sent = self._base | self._session | headers
        else:
            named = {"mcp-name": params["name"]} if "name" in params else {}
            sent = self._base | {"mcp-protocol-version": PROTOCOL, "mcp-method": method} | named | headers
            params = {"_meta": ENVELOPE, **params}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        walls, answer = [], b""
        cpu_s = self._process.ask("spent")["cpu_s"]
        for _ in range(n_calls):
            started = time.perf_counter()
            answer = self._client.post("/mcp", content=body, headers=sent).raise_for_status().content
            walls.append(time.perf_counter() - started)
        cpu_s = (self._process.ask("spent")["cpu_s"] - cpu_s) / n_calls
        reply = json.loads(answer.partition(b"data: ")[2] if era == "handshake" else answer)
        result = reply.get("result", {"isError": True})
        if result.get("isError") or len(result.get("tools", ())) != n_tools:
            raise ContenderError(
                f"{self._process.contender.lane}: {method} over HTTP did not give {n_tools} tools: {answer[:300]!r}"
            )
        return [Timing(wall_s, cpu_s) for wall_s in walls]


def http_post(method: str, params: dict[str, Any] | None, headers: Mapping[str, str]) -> bytes:
    """Return the bytes of a request, or of a notice where it has no params, on a connection that is kept."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message |= {"id": 1, "params": params}
    body = json.dumps(message).encode()
    sent = {**_HEADERS, **headers, "content-length": str(len(body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    return f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body
