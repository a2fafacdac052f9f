"""The HTTP routes beside MCP: the tool list as plain JSON, health, readiness and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastmcp.server.auth.middleware import RequireAuthMiddleware
from fastmcp.tools.base import Tool
from fastmcp.utilities.versions import dedupe_with_versions
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, request_response

from agent_utilities.catalog.tokens import n_tokens
from agent_utilities.mcp.request import selection_of
from agent_utilities.mcp.summary import summarise, tell
from agent_utilities.resolution.reasons import reasons_by_name
from agent_utilities.runtime.turns import in_turns
from agent_utilities.selection.merge import effective
from agent_utilities.selection.model import NameSet, Selection

if TYPE_CHECKING:
    from agent_utilities.mcp.metrics import Metrics
    from agent_utilities.mcp.server import AgentServer


def routes(server: AgentServer, metrics: Metrics) -> list[BaseRoute]:
    """Return the routes of a server; `/tools` and `/metrics` are behind its auth, health checks are not."""

    async def tools(request: Request) -> Response:
        return JSONResponse(await _tools(server, selection_of(request)))

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok", "server": server.name})

    async def ready(request: Request) -> Response:
        started = server._started.is_set()
        body = {"status": "ready" if started else "starting", "server": server.name, **server.resolver.health()}
        return JSONResponse(body, status_code=200 if started else 503)

    async def exposition(request: Request) -> Response:
        return Response(metrics.text(), headers={"content-type": metrics.content_type})

    return [
        _guarded(server, "/tools", tools),
        Route("/health", health),
        Route("/ready", ready),
        _guarded(server, "/metrics", exposition),
    ]


def _guarded(server: AgentServer, path: str, endpoint: Any) -> Route:
    if server.auth is None:
        return Route(path, endpoint)
    guarded = RequireAuthMiddleware(
        request_response(endpoint), server.auth.required_scopes, None, server.auth.challenge_scopes
    )
    return Route(path, guarded, methods=["GET"])


async def _tools(server: AgentServer, caller: Selection) -> dict[str, Any]:
    """Return what `tools/list` would show this caller, as plain JSON."""
    verdict = await server.verdict(caller, lists_tools=True)
    with server.surface.under_verdict(verdict):
        listed = dedupe_with_versions(list(await server.list_tools()), lambda tool: tool.name)
        summary = await summarise(server, verdict, "tool")
        tell(server, verdict, summary, "GET /tools")
    stands = reasons_by_name(verdict.resolution)
    tools = [{**_shown(tool), **stands.get(tool.name, {})} async for tool in in_turns(listed)]
    selection = {**summary, "caller": _as_given(caller)}
    return {"server": server.name, "tools": tools, "selection": selection, "revision": summary["revision"]}


def _shown(tool: Tool) -> dict[str, Any]:
    definition = tool.to_mcp_tool(name=tool.name)
    return {
        "name": tool.name,
        "title": definition.title,
        "description": tool.description,
        "tags": sorted(tool.tags),
        "readOnly": bool(tool.annotations and tool.annotations.read_only_hint),
        "tokens": n_tokens(definition.model_dump(mode="json", by_alias=True, exclude_none=True)),
    }


def _as_given(caller: Selection) -> dict[str, Any]:
    """Return the caller's own settings that hold; the operator's are not the caller's to know."""
    held = effective(caller)
    given: dict[str, Any] = {}
    for name in ("allow_tools", "allow_tags", "deny_tools", "deny_tags"):
        for setting in getattr(held, name):
            if isinstance(setting.value, NameSet):
                given.setdefault(name, []).extend(setting.value.spelled())
    if held.read_only is not None:
        given["read_only"] = True
    if held.query_text is not None:
        given["query"] = held.query_text
    if held.top_k is not None:
        given["top_k"] = held.top_k.value
    return given
