"""What a refused HTTP request is told: clients of MCP show an error of the protocol, and throw any other body away."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

import mcp_types
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_utilities.errors import InputError
from agent_utilities.mcp.events import Event, RequestRefused

logger = logging.getLogger("agent_utilities.http")

_N_READ = 1 << 16
"""The most bytes of a request in which its id is looked for."""
_N_LOGGED, _MINUTE_S = 16, 60.0
"""The most lines in a minute, each another: strangers may not fill the log."""


class RefusedRequests:
    """ASGI middleware: a JSON-RPC request that is refused over HTTP is answered by a JSON-RPC error with its id.

    The message says all that the body would have said, which is the error's data. Each refusal is told and logged.

    Args:
        app: what may refuse a request, by a JSON body with an `error` or by a 503 in plain text.
        notify: told of each.
    """

    def __init__(self, app: ASGIApp, notify: Callable[[Event], None]) -> None:
        self.app, self._notify = app, notify
        self._logged: set[str] = set()
        self._since_s = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        received, answer, starts = list[Message](), bytearray(), list[Message]()
        asked, is_read = b"", scope["method"] != "POST"
        while not is_read:
            received.append(await receive())
            asked += received[-1].get("body", b"")
            is_read = len(asked) >= _N_READ or not received[-1].get("more_body", False)

        async def receiving() -> Message:
            return received.pop(0) if received else await receive()

        async def telling(message: Message) -> None:
            nonlocal asked
            if message["type"] == "http.response.start" and _is_refusal(message):
                starts.append(message)
            elif not starts:
                asked = b""  # it is served, maybe for long
                await send(message)
            else:
                answer.extend(message.get("body", b""))
            if starts and message["type"] == "http.response.body" and not message.get("more_body", False):
                body = self._told(starts[0]["status"], bytes(answer), asked[:_N_READ])
                headers = MutableHeaders(scope=starts[0])
                headers["content-length"] = str(len(body))
                headers["content-type"] = headers["content-type"] if body == answer else "application/json"
                await send(starts[0])
                await send({"type": "http.response.body", "body": body})

        await self.app(scope, receiving, telling)

    def _told(self, status: int, answer: bytes, asked: bytes) -> bytes:
        """Return the body of a refusal, for a request that begins so."""
        told = _object(answer) or {"error": answer.decode(errors="replace").strip()}
        if "jsonrpc" in told or "error" not in told:
            return answer
        error = told["error"] if isinstance(told["error"], dict) else told
        is_ours = error.keys() == {"what", "value", "source", "hint"}
        text = str(InputError(**error) if is_ours else error.get("error_description", error.get("error")))
        self._note(status, text)
        if b'"jsonrpc"' not in asked:
            return answer
        code = mcp_types.INVALID_PARAMS if status in (400, 404) else mcp_types.INVALID_REQUEST
        code = code if status < 500 else mcp_types.INTERNAL_ERROR
        id_ = _object(asked).get("id")
        answered = {"jsonrpc": "2.0", "id": id_ if type(id_) in (int, str) else None}
        return json.dumps({**answered, "error": {"code": code, "message": text, "data": error}}).encode()

    def _note(self, status: int, text: str) -> None:
        self._notify(RequestRefused(status))
        if (now_s := time.monotonic()) - self._since_s > _MINUTE_S:
            self._since_s = now_s
            self._logged.clear()
        if text not in self._logged and len(self._logged) < _N_LOGGED:
            self._logged.add(text)
            logger.log(logging.INFO if status == 401 else logging.WARNING, "%s", text)


def _is_refusal(start: Message) -> bool:
    kinds = ("application/json", "text/plain") if start["status"] == 503 else ("application/json",)
    return start["status"] >= 400 and Headers(raw=start["headers"]).get("content-type", "").startswith(kinds)


def _object(text: bytes) -> dict[str, Any]:
    """Return what a JSON object holds; nothing where it can't be read, or is none."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}
