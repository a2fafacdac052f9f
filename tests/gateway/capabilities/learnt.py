"""All that a caller can learn of a gateway, in one value to be compared with another gateway's."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp import MCPError
from pydantic import ConfigDict

from agent_utilities import AgentServer
from agent_utilities.selection.channels import META_KEY
from tests.gateway.capabilities.capable import LONG_S
from tests.parts import capabilities_of

BASE = "http://127.0.0.1"
_VARYING = re.compile(r"(?m)^(?:# .*|(?:process|python)_.*|.*_(?:created|seconds\S*|bucket\S*|sum)\b.*)\n")
"""Lines of the metrics that tell of this process, or of time."""
_AT_WORK = re.compile(r'(?m)^mcp_upstreams\{state="(?:unseen|starting|ready|idle)"\} (.*)\n')
_STARTS = re.compile(r"(?m)^mcp_upstream_starts_total [1-9].*\n")
_STATE = re.compile(r'(?<=")(?:unseen|starting|ready|idle)(?=":\d|","tools")')
"""What the gateway's own server is at just now: it is listed behind, and let go."""


class Answer(mcp_types.Result):
    """Any answer, with all that is in it."""

    model_config = ConfigDict(extra="allow")


class Caller:
    """One caller over HTTP: his session, and the pages that he can get.

    Args:
        client: his client.
        web: gets pages.
    """

    def __init__(self, client: Client[Any], web: httpx2.AsyncClient) -> None:
        self.client, self._web = client, web
        self.notices: list[str] = []

    async def ask(self, method: str, params: dict[str, Any], **selection: Any) -> Any:
        """Return the answer to any request, or its error."""
        given = {**params, "_meta": {META_KEY: selection}} if selection else params
        request = mcp_types.Request[Any, Any](method=method, params=given)
        try:
            answer = await self.client.session.send_request(request, Answer)
        except MCPError as error:
            return {"code": error.error.code, "message": error.error.message, "data": error.error.data}
        return answer.model_dump(mode="json", by_alias=True)

    async def call(self, tool: str, arguments: dict[str, Any], **selection: Any) -> Any:
        """Return the answer to a call."""
        return await self.ask("tools/call", {"name": tool, "arguments": arguments}, **selection)

    async def page(self, path: str, **headers: str) -> str:
        """Return a page's status and text; of metrics what does not tell of time."""
        answer = await self._web.get(path, headers=headers)
        text = _VARYING.sub("", answer.text)
        n_at_work = sum(map(float, _AT_WORK.findall(text)))
        text = _STATE.sub("any", _STARTS.sub("started\n", _AT_WORK.sub("", text)))
        return f"{answer.status_code} {n_at_work} {text}"


@asynccontextmanager
async def caller_of(app: Any, mode: str = "legacy", **headers: str) -> AsyncIterator[Caller]:
    """Call an application that runs, with no socket between."""

    def client(headers: Any = None, timeout: Any = None, auth: Any = None, **options: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app), headers=headers, timeout=timeout, auth=auth, **options
        )

    heard: list[str] = []

    async def note(message: Any) -> None:
        heard.append(type(message).__name__)

    transport = StreamableHttpTransport(f"{BASE}/mcp", headers=headers, httpx_client_factory=client)
    async with (
        Client(transport, mode=mode, timeout=LONG_S, message_handler=note) as connected,
        client(headers, base_url=BASE) as web,
    ):
        caller = Caller(connected, web)
        caller.notices = heard
        yield caller


@asynccontextmanager
async def serving(gateway: AgentServer) -> AsyncIterator[Any]:
    """Serve a gateway over HTTP for the length of a block; yields its application, whose words can be routed."""
    app = gateway.http_app(host_origin_protection=False, json_response=True)
    async with app.router.lifespan_context(app):
        await capabilities_of(gateway).switching.router.wait_until_ready()
        yield app


async def all_that_is_learnt(caller: Caller, name: str, words: str, tool: str) -> list[Any]:
    """Return every answer to a caller who knows the name of a capability, and what it is for.

    Args:
        caller: asks.
        name: the capability's.
        words: call for it.
        tool: one of its tools; its server has prompts and resources too.
    """
    server = tool.rpartition("_")[0]
    learnt: list[Any] = [
        await caller.ask("tools/list", {}),
        await caller.ask("tools/list", {}, query=words),
        await caller.ask("tools/list", {}, capabilities=name),
        await caller.ask("tools/list", {}, tools=f"{name},{server},{tool}"),
        await caller.ask("tools/list", {}, pins=tool, tool_search="on", query=words),
        await caller.call(tool, {"text": "x"}),
        await caller.call(tool, {"text": "x"}, capabilities=name),
        await caller.call(tool, {"text": "x"}, query=words),
    ]
    for arguments in (
        {"action": "list"},
        {"action": "discover", "intent": words},
        {"action": "enable", "name": name},
        {"action": "enable", "name": server},
        {"action": "disable", "name": name},
        {"action": "list"},
    ):
        learnt.append(await caller.call("capability", arguments))
    for search in (words, name, f"select:{tool}"):
        learnt.append(await caller.call("tool_search", {"query": search}, tool_search="on"))
    learnt.append(await caller.call("call_tool", {"name": tool, "arguments": {"text": "x"}}, tool_search="on"))
    prompt, uri = f"{server}_greet", "note://a"
    for method, params in (
        ("prompts/list", {}),
        ("prompts/get", {"name": prompt, "arguments": {"name": "x"}}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("resources/read", {"uri": uri}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": prompt}, "argument": {"name": "name", "value": ""}},
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": "note://{name}"}, "argument": {"name": "name", "value": ""}},
        ),
    ):
        learnt.append([method, await caller.ask(method, params), await caller.ask(method, params, capabilities=name)])
    for path in (
        "/tools",
        f"/tools?capabilities={name}&explain=1",
        f"/tools?q={words}&explain=1",
        f"/context?capabilities={name}",
        "/context",
        "/health",
        "/ready",
        "/metrics",
    ):
        learnt.append([path, await caller.page(path)])
    return [*learnt, list(caller.notices)]
