"""The HTTP routes beside MCP: the tool list as plain JSON, health, readiness and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastmcp.tools.base import Tool
from fastmcp.utilities.versions import dedupe_with_versions
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from agent_utilities.catalog.context import n_tokens
from agent_utilities.policy.reasons import reasons_by_name
from agent_utilities.runtime.waiting import in_turns
from agent_utilities.seam.caller import NOBODY, caller_of
from agent_utilities.seam.components import bearing_of
from agent_utilities.seam.feature import BoundError
from agent_utilities.seam.panel import guarded, not_permitted
from agent_utilities.seam.request import ToolsListed, request_in_force, sender_of, serving
from agent_utilities.selection.active import Active, Threshold, written
from agent_utilities.selection.merge import LISTS, effective
from agent_utilities.selection.model import NameSet, Selection, Value
from agent_utilities.server.wire.summary import summarise

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer
    from agent_utilities.server.metrics import Metrics


def json_routes(host: AgentServer, metrics: Metrics) -> list[BaseRoute]:
    """Return the routes of a server; `/tools` and `/metrics` are behind its auth, health checks are not."""

    async def tools(request: Request) -> Response:
        return JSONResponse(await _tools(host, request))

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok", "server": host.name})

    async def ready(request: Request) -> Response:
        state = host.health()
        is_known = host.auth is None or caller_of(request) is not NOBODY
        try:
            knows = is_known and host.callers.may(request, "metrics")
        except BoundError:  # no more than whether it is ready, which who routes to it has to know
            knows = False
        body = {"status": state["status"], **({"server": host.name, **state} if knows else {})}
        return JSONResponse(body, status_code=200 if state["status"] == "ready" else 503)

    async def exposition(request: Request) -> Response:
        if not host.callers.may(request, "metrics"):
            return not_permitted("metrics")
        # With auth the route is behind it; without, whoever can reach the server is a caller.
        text = metrics.text(tells_denied=host.auth is not None)
        return Response(text, headers={"content-type": metrics.content_type})

    return [
        guarded(host, "/tools", tools),
        Route("/health", health),
        Route("/ready", ready),
        guarded(host, "/metrics", exposition),
    ]


async def _tools(host: AgentServer, request: Request) -> dict[str, Any]:
    caller = host.callers.selection_of(request)
    await host.pending.wait_for_first(caller, "tool")
    served = await host.request(caller, caller=sender_of(request), outer=request_in_force())
    with serving(served):
        listed = dedupe_with_versions(list(await host.list_tools()), lambda tool: tool.name)
        decision = served.verdict.decisions.get((host.surface, "tool"))
        summary = await summarise(host, served, "tool", decision)
    if decision is not None:
        host.notify(ToolsListed("GET /tools", decision, summary, served))
    reasons = reasons_by_name(served.verdict.preferences.resolution)
    tools = [{**_shown(tool), **reasons.get(tool.name, {})} async for tool in in_turns(listed)]
    selection = {**summary, "caller": _as_selected(caller.asked)}
    return {"server": host.name, "tools": tools, "selection": selection, "revision": summary["revision"]}


def _shown(tool: Tool) -> dict[str, Any]:
    definition, bearing = tool.to_mcp_tool(name=tool.name), bearing_of("tool", tool)
    return {
        "name": tool.name,
        "title": definition.title,
        "description": tool.description,
        "tags": sorted(tool.tags),
        "readOnly": bearing.read_only,
        "destructive": bearing.destructive,
        "tokens": n_tokens(definition.model_dump(mode="json", by_alias=True, exclude_none=True)),
    }


def _as_selected(caller: Selection) -> dict[str, Any]:
    """Return the caller's own settings that hold; the operator's are not shown to callers."""
    settled, spelled = effective(caller), dict[str, Any]()
    for name, settings in zip(LISTS, settled.lists, strict=True):
        for setting in settings:
            if isinstance(setting.value, NameSet):
                spelled.setdefault(name, []).extend(setting.value.spelled())
    spelled |= {flag: True for flag in ("read_only", "no_destructive") if getattr(settled, flag) is not None}
    scalars = {"query": settled.query_text, "top_k": settled.top_k_value}
    spelled |= {name: value for name, value in scalars.items() if value is not None}
    if settled.pins:
        spelled["pins"] = list(settled.pinned.spelled())
    if profiles := [setting.value for (field, _), setting in caller.slots if field == "profile"]:
        spelled["profile"] = [name for names in profiles if isinstance(names, tuple) for name in names]
    return spelled | {name: _spelled(value) for name, value in settled.search_values.items()}


def _spelled(value: Value) -> Any:
    return written(value) if isinstance(value, Active) else value.spelled if isinstance(value, Threshold) else value
