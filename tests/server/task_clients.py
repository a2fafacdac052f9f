"""A client of 2026-07-28 that takes background tasks, and checks nothing."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

import httpx2
from mcp_types import CLIENT_CAPABILITIES_META_KEY

from tests.wire.http_raw import Headers, RawHttp
from tests.wire.wires import ACCEPT, ENVELOPE, MODERN, jsonrpc

TASKS: dict[str, Any] = {"io.modelcontextprotocol/tasks": {}}


class TaskClient:
    """Asks one thing after the other.

    Args:
        url: the server's root.
        token: what it shows; nothing where empty.
        query: on the URL of each request.
        takes: whether it declares tasks with each request.
    """

    def __init__(self, url: str, token: str = "", query: str = "", *, takes: bool = True) -> None:
        self._url, self._target = url, f"/mcp{query}"
        self._headers: Headers = [("authorization", f"Bearer {token}")] if token else []
        offered: dict[str, Any] = {"elicitation": {}} | ({"extensions": TASKS} if takes else {})
        self._meta = {**ENVELOPE, CLIENT_CAPABILITIES_META_KEY: offered}

    def ask(self, method: str, params: dict[str, Any] | None = None, *, name: str = "") -> Any:
        """Return the `result` or `error` of a request, whose header names what it is about, or else `name`."""
        given = params or {}
        name = name or given.get("name") or given.get("taskId") or ""
        headers = [ACCEPT, ("mcp-protocol-version", MODERN), ("mcp-method", method), ("mcp-name", name)]
        body = jsonrpc(method, given, meta=self._meta)
        with closing(RawHttp(self._url)) as http:
            message = json.loads(http.send("POST", self._target, [*headers, *self._headers], body).message)
        return message["result"] if "result" in message else message["error"]

    def call(self, tool: str, **arguments: Any) -> Any:
        """Return what comes of a call."""
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def text(self, tool: str, **arguments: Any) -> Any:
        """Return the text that a call is answered with, which is JSON."""
        return json.loads(self.call(tool, **arguments)["content"][0]["text"])

    def task(self, tool: str = "up_work", **arguments: Any) -> str:
        """Return the id of the task that is made of a call."""
        made = self.call(tool, **arguments)
        assert made.get("resultType") == "task", made
        return str(made["taskId"])

    def get(self, task: str) -> Any:
        """Return how far a task is, or the error."""
        return self.ask("tasks/get", {"taskId": task})


Ask = Callable[..., Awaitable[Any]]


def asking(web: httpx2.AsyncClient) -> Ask:
    """Return what asks by a client of a server's application, in this process, and returns the whole answer."""
    meta = {**ENVELOPE, CLIENT_CAPABILITIES_META_KEY: {"extensions": TASKS}}

    async def ask(method: str, params: dict[str, Any], token: str = "", query: str = "") -> Any:
        name = params.get("name") or params.get("taskId") or ""
        headers = [ACCEPT, ("mcp-protocol-version", MODERN), ("mcp-method", method), ("mcp-name", name)]
        headers += [("authorization", f"Bearer {token}")] if token else []
        answer = await web.post(f"/mcp{query}", json=jsonrpc(method, params, meta=meta), headers=dict(headers))
        return answer.json()

    return ask
