"""What a refused HTTP request is told: clients of MCP show an error of the protocol, and throw any other body away."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

import anyio
import mcp_types
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_utilities.mcp.events import Event, RequestRefused

logger = logging.getLogger("agent_utilities.http")

_N_READ = 1 << 16
"""The most bytes of a request in which its id is looked for."""
_READ_S = 1.0
"""Seconds that the rest of a refused request is waited for, to read its id."""
_N_LOGGED = 16
"""The most lines in a minute, each another."""
_MINUTE_S = 60.0


class RefusedRequests:
    """ASGI middleware: a JSON-RPC request that is refused over HTTP is answered by a JSON-RPC error with its id.

    Its message says all that the body would have said, which stands in its data; what is no JSON-RPC is answered as it
    was. Each refusal is told to observers, and logged.

    Args:
        app: what may refuse a request by a JSON body with an `error`, or by a 503 in plain text.
        notify: told of each.
    """

    def __init__(self, app: ASGIApp, notify: Callable[[Event], None]) -> None:
        self.app, self._notify = app, notify
        self._logged: set[str] = set()
        self._since_s = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        asked, answer, starts = _Beginning(receive, scope["method"]), bytearray(), list[Message]()

        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_refusal(message):
                starts.append(message)
            elif not starts:
                asked.forget()
                await send(message)
            else:
                answer.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    body = self._told(starts[0]["status"], bytes(answer), await asked.whole())
                    headers = MutableHeaders(scope=starts[0])
                    headers["content-length"] = str(len(body))
                    if body != answer:
                        headers["content-type"] = "application/json"
                    await send(starts[0])
                    await send({"type": "http.response.body", "body": body})

        await self.app(scope, asked.receive, telling)

    def _told(self, status: int, answer: bytes, asked: bytes) -> bytes:
        """Return the body of a refusal, for a request of which so much is known."""
        told = _object(answer) or {"error": {"what": answer.decode(errors="replace").strip()}}
        if "jsonrpc" in told or "error" not in told:
            return answer
        error = told["error"] if isinstance(told["error"], dict) else told
        self.note(status, text := _sentence(error))
        if b'"jsonrpc"' not in asked:
            return answer
        id_ = _object(asked).get("id")
        code = mcp_types.INVALID_PARAMS if status in (400, 404) else mcp_types.INVALID_REQUEST
        code = code if status < 500 else mcp_types.INTERNAL_ERROR
        return json.dumps(
            {
                "jsonrpc": "2.0",
                "id": id_ if type(id_) in (int, str) else None,
                "error": {"code": code, "message": text, "data": error},
            },
            ensure_ascii=False,
        ).encode()

    def note(self, status: int, text: str) -> None:
        """Log a refusal, and tell of it: strangers may not fill the log."""
        self._notify(RequestRefused(status))
        if (now_s := time.monotonic()) - self._since_s > _MINUTE_S:
            self._since_s = now_s
            self._logged.clear()
        if text not in self._logged and len(self._logged) < _N_LOGGED:
            self._logged.add(text)
            logger.log(logging.INFO if status == 401 else logging.WARNING, "%s", text)


class _Beginning:
    """The beginning of a POST's body, kept as it is received, until it is known that nothing is refused."""

    def __init__(self, receive: Receive, method: str) -> None:
        self._receive, self._kept, self._is_read = receive, bytearray(), method != "POST"

    async def receive(self) -> Message:
        message = await self._receive()
        if not self._is_read:
            self._kept.extend(message.get("body", b"")[: _N_READ - len(self._kept)])
            self._is_read = len(self._kept) >= _N_READ or not message.get("more_body", False)
        return message

    async def whole(self) -> bytes:
        """Return it, what nobody has read yet too."""
        with anyio.move_on_after(_READ_S):
            while not self._is_read:
                await self.receive()
        return bytes(self._kept)

    def forget(self) -> None:
        self._kept, self._is_read = bytearray(), True


def _is_refusal(start: Message) -> bool:
    """Whether an answer may be one of ours that refuses; those of the SDK and of streams are let through."""
    kinds = ("application/json", "text/plain") if start["status"] == 503 else ("application/json",)
    return start["status"] >= 400 and Headers(raw=start["headers"]).get("content-type", "").startswith(kinds)


def _object(text: bytes) -> dict[str, Any]:
    """Return what a JSON object holds; nothing where it can't be read, or is none."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _sentence(error: dict[str, Any]) -> str:
    """Return an error in a sentence: ours as it reads everywhere, OAuth's by its description."""
    if "source" in error:
        return f"{error['what']}: {error['value']!r} (from {error['source']}); {error['hint']}"
    return str(error.get("what") or error.get("error_description") or error.get("error"))
