"""The seam on the wire: makes each request's verdict, and stamps what was decided on its result."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import mcp_types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from opentelemetry import trace

from agent_utilities.catalog.entry_tools import CALL_TOOL
from agent_utilities.catalog.entry_tools import EVERY_NAME as ENTRY_NAMES
from agent_utilities.catalog.model import ComponentKind
from agent_utilities.errors import SelectionError
from agent_utilities.mcp.answers import may_complete, may_use_task
from agent_utilities.mcp.events import RequestServed
from agent_utilities.mcp.fastmcp_internals import cache_hint, connection_of
from agent_utilities.mcp.feature import BoundError
from agent_utilities.mcp.request import Call, Request, RequestBegan, ToolCalled, ToolsListed, serving
from agent_utilities.mcp.sessions import Client
from agent_utilities.mcp.surface.surface import Verdict
from agent_utilities.mcp.wire.parameter_headers import refuse_headers
from agent_utilities.mcp.wire.request import selection_of
from agent_utilities.mcp.wire.summary import add_groups, summarise
from agent_utilities.selection.channels import META_KEY
from agent_utilities.selection.merge import merge
from agent_utilities.selection.model import Selection
from agent_utilities.selection.parse import read_meta
from agent_utilities.visibility.decision import revision

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer

logger = logging.getLogger("agent_utilities.wire")

_LISTS: dict[str, ComponentKind] = {
    "tools/list": "tool",
    "prompts/list": "prompt",
    "resources/list": "resource",
    "resources/templates/list": "template",
}
_LOOK_UPS: dict[str, tuple[ComponentKind, str]] = {
    "tools/call": ("tool", "name"),
    "prompts/get": ("prompt", "name"),
    "resources/read": ("resource", "uri"),
}
_GREETINGS = ("initialize", "server/discover")
_NO_COMPLETION = mcp_types.CompleteResult(completion=mcp_types.Completion(values=[]))

_Context = ServerRequestContext[Any, Any]


class WireMiddleware:
    """Middleware of the SDK's server: the request that arrives here decides for everything behind it.

    A server mounted in another has no part in it: the verdict is made where the request arrives, on the names its
    caller sees.

    Args:
        host: the server that requests arrive at.
    """

    def __init__(self, host: AgentServer) -> None:
        self._host, self._features = host, host.features

    async def __call__(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None:
            return await call_next(ctx)
        # Asked first: the verdict may list tools to a caller whose call's headers had none to be checked against.
        is_call = ctx.method == "tools/call"
        was_listed = is_call and self._host.surface.catalogs.of_caller("tool") is not None
        request = await self._request(ctx)
        self._note(ctx, request.verdict)
        self._host.notify(RequestBegan(request))
        try:
            with serving(request):
                if is_call:
                    result = await self._call(ctx, call_next, request, was_listed=was_listed)
                else:
                    result = await self._serve(ctx, call_next, request)
        except Exception:
            self._host.notify(RequestServed(ctx.method, "error"))
            raise
        finally:
            await self._features.done(request)
        self._host.notify(RequestServed(ctx.method, "ok" if _is_ok(result) else "error"))
        return result

    async def _request(self, ctx: _Context) -> Request:
        """Return what features made of a request.

        Raises:
            MCPError: its selection is malformed, or a feature could not tell its bounds.
        """
        try:
            selection = merge(selection_of(ctx.request), read_meta((ctx.params or {}).get("_meta")))
            self._host.surface.operator.check(selection)
        except SelectionError as error:
            raise MCPError(mcp_types.INVALID_PARAMS, str(error), error.as_dict()) from None
        await self._wait_for_first(ctx, selection)
        client = None
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            client = Client(ctx, self._host.changes.tell_tools, self._host.changes.heard)
        try:
            return await self._host.request(
                selection,
                method=ctx.method,
                params=ctx.params,
                session=self._host.sessions.of(ctx),
                client=client,
            )
        except BoundError as error:
            raise MCPError(mcp_types.INTERNAL_ERROR, str(error)) from None

    async def _wait_for_first(self, ctx: _Context, selection: Selection) -> None:
        """Have lists, searches, and look-ups by name wait for what was never seen; nothing else ever does."""
        if (kind := _LISTS.get(ctx.method)) is not None:
            await self._features.wait_for_first(selection, kind)
        elif (looked_up := _LOOK_UPS.get(ctx.method)) is not None:
            kind, key = looked_up
            params = ctx.params or {}
            name = params.get(key)
            if kind == "tool" and name == CALL_TOOL:  # the call of the tool that it names
                name = (params.get("arguments") or {}).get("name", name)
            elif kind == "tool" and name in ENTRY_NAMES:
                name = None
            await self._features.wait_for_first(selection, kind, None if name is None else str(name))

    async def _serve(self, ctx: _Context, call_next: CallNext, request: Request) -> HandlerResult:
        if ctx.method == "completion/complete" and not await may_complete(self._host, request.params.get("ref")):
            return _NO_COMPLETION
        if ctx.method.startswith("tasks/") and not await may_use_task(self._host, task := _task_id(ctx)):
            raise MCPError(mcp_types.INVALID_PARAMS, f"Task {task} not found")  # as for one that never was
        if (kind := _LISTS.get(ctx.method)) is not None:
            return await self._list(ctx, call_next, request, kind)
        result = await call_next(ctx)
        if not isinstance(result, dict):
            return result
        if ctx.method in _GREETINGS:
            if (instructions := await self._host.instructions_for(request)) is not None:
                result["instructions"] = instructions
            return result
        return await self._features.after(request, result)

    async def _list(self, ctx: _Context, call_next: CallNext, request: Request, kind: ComponentKind) -> HandlerResult:
        """Serve a list, with what its caller is told of it beside it."""
        result = await call_next(ctx)
        self._note(ctx, request.verdict, kind)
        if not isinstance(result, dict):
            return result
        decision = request.verdict.decisions.get((self._host.surface, kind))
        summary = await summarise(self._host, request, kind, decision)
        result["_meta"] = {**(result.get("_meta") or {}), META_KEY: summary}
        if kind == "tool" and self._host.surface.operator.settings.groups:
            add_groups(result.get("tools") or ())
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            self._set_cache(result, request, kind, is_whole="absent" not in summary)
        if kind == "tool" and decision is not None:
            self._host.notify(ToolsListed(ctx.method, decision, summary, request))
        return result

    def _note(self, ctx: _Context, verdict: Verdict, listed: ComponentKind | None = None) -> None:
        """Remember who is to be told of changes on their connection, and under which bounds they list."""
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._host.changes.heard(connection_of(ctx.session), verdict, listed)

    async def _call(self, ctx: _Context, call_next: CallNext, request: Request, *, was_listed: bool) -> HandlerResult:
        """Serve a call, tied to the surface it is made under in its log line and span.

        Args:
            ctx: the request's.
            call_next: serves it.
            request: as features made it.
            was_listed: whether its caller had been listed tools, so that the SDK has checked its headers.
        """
        surface, verdict = self._host.surface, request.verdict
        decision = await surface.unanswered_decision(await self._host.catalog("tool"), verdict)
        tied_to = revision(decision, verdict.asked)
        trace.get_current_span().set_attribute("agent_utilities.revision", tied_to)
        call = await self._features.before_call(request, Call(request.params))
        if call.params is not request.params:
            ctx = replace(ctx, params=call.params)
        logger.info("tools/call name=%r revision=%s", call.name, tied_to)
        if not was_listed and not call.is_wrapped:  # of a tool behind another the headers say nothing
            refuse_headers(surface, ctx.request, call.params)
        started, ok = time.perf_counter(), False
        try:
            result = await call_next(ctx)
            ok = _is_ok(result)
            if isinstance(result, dict):
                result = await self._features.after_call(request, replace(call, ok=ok), result)
            return result
        finally:
            seconds = time.perf_counter() - started
            self._host.notify(ToolCalled(call.name, tied_to, ok, seconds, decision, request))

    def _set_cache(self, result: dict[str, Any], request: Request, kind: ComponentKind, *, is_whole: bool) -> None:
        """Say how long and by whom a list may be kept: one cut by its caller is the caller's alone.

        One that something is absent from may not be kept at all.
        """
        hint = cache_hint(self._host, request.method)
        ttl_ms = hint.ttl_ms if hint is not None else self._host.surface.operator.settings.list_ttl_ms
        if (limit_ms := self._features.keeping_ms(request, kind)) is not None:
            ttl_ms = min(ttl_ms, limit_ms)
        is_private = request.verdict.by_caller or self._host.auth is not None
        scope = hint.scope if hint is not None else "public"
        result["ttlMs"] = ttl_ms if is_whole else 0
        result["cacheScope"] = "private" if is_private else scope


def _task_id(ctx: _Context) -> str:
    return str((ctx.params or {}).get("taskId"))


def _is_ok(result: HandlerResult) -> bool:
    return not (isinstance(result, dict) and result.get("isError") is True)
