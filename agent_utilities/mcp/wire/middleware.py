"""The seam on the wire: sets each request's verdict, and stamps what was decided on its result."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import mcp_types
from mcp.server.caching import CacheHint
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from opentelemetry import trace

from agent_utilities.catalog.entry_names import CALL_TOOL
from agent_utilities.catalog.entry_names import EVERY_NAME as ENTRY_NAMES
from agent_utilities.catalog.model import ComponentKind
from agent_utilities.errors import SelectionError
from agent_utilities.mcp.fastmcp_internals import connection_of
from agent_utilities.mcp.host import Host
from agent_utilities.mcp.live_sessions import LiveSessions
from agent_utilities.mcp.observers.base import ToolCalled, ToolsListed, ToolsSought
from agent_utilities.mcp.observers.span_events import turn_span
from agent_utilities.mcp.search_session import SessionView
from agent_utilities.mcp.session_capabilities import SessionCapabilities
from agent_utilities.mcp.surface.verdict import CollectingDecisions, Verdict
from agent_utilities.mcp.taken_capabilities import with_capabilities
from agent_utilities.mcp.tool_search.calls import Call
from agent_utilities.mcp.tool_search.tool_search import ToolSearch
from agent_utilities.mcp.wire.changes import Changes
from agent_utilities.mcp.wire.groups import add_groups
from agent_utilities.mcp.wire.parameter_headers import refuse_headers
from agent_utilities.mcp.wire.request import selection_of
from agent_utilities.mcp.wire.session_view import session_view
from agent_utilities.mcp.wire.summary import summarise
from agent_utilities.selection.channels import META_KEY
from agent_utilities.selection.merge import merge
from agent_utilities.selection.model import Selection
from agent_utilities.selection.parse import read_meta
from agent_utilities.selection.resolution import ANSWERED
from agent_utilities.visibility.decision import Decision
from agent_utilities.visibility.revision import revision

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
_ABOUT_TOOLS = frozenset(("tools/list", "tools/call", *_GREETINGS))
_NO_COMPLETION = mcp_types.CompleteResult(completion=mcp_types.Completion(values=[]))


class WireHost(Host, Protocol):
    """What the wire asks of a server besides."""

    changes: Changes
    tool_search: ToolSearch
    live_sessions: LiveSessions

    def cache_hint(self, method: str) -> CacheHint | None:
        """Return what the author says of how long a list may be kept."""
        ...

    async def caller_instructions(self) -> str | None:
        """Return what the present caller is told of the server for models; None where it is what everybody is."""
        ...

    async def after(self, method: str, params: Mapping[str, Any], result: Any, verdict: Verdict) -> Any:
        """Return the result of a request that lists nothing, once what follows from it is done."""
        ...

    def session_began(self, connection: Connection, capabilities: SessionCapabilities) -> None:
        """Take note of a session that begins."""
        ...

    async def may_use_task(self, task_id: str) -> bool:
        """Whether the caller may use the tool that a background task of his runs."""
        ...

    async def may_complete(self, reference: Any) -> bool:
        """Whether the prompt or resource that a completion is for is permitted."""
        ...


class WireMiddleware:
    """Middleware of the SDK's server: the request that arrives here decides for everything behind it.

    A server mounted in another has no part in it: the verdict is made where the request arrives, on the names its
    caller sees.

    Args:
        host: the server that requests arrive at.
    """

    def __init__(self, host: WireHost) -> None:
        self._host = host

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None:
            return await call_next(ctx)
        # Asked first: the verdict may list tools to a caller whose call's headers had none to be checked against.
        is_call = ctx.method == "tools/call"
        was_listed = is_call and self._host.surface.catalogs.of_caller("tool") is not None
        view = session_view(ctx, self._host.session_began)
        if view is not None:
            view = replace(view, note=lambda changed: self._take_note(ctx, changed))
        selection = _selection(ctx, self._host)
        await self._wait_for_first(ctx, selection)
        verdict = await self._host.verdict(
            selection,
            lists_tools=ctx.method == "tools/list",
            view=view,
            is_about_tools=ctx.method in _ABOUT_TOOLS,
        )
        if view is not None and (words := _words(verdict)):
            view.trail.asked(words)
        if view is not None and (verdict.capabilities is not None or ToolSearch.may_defer(verdict)):
            self._host.live_sessions.note(connection_of(ctx), ctx.request, view)
        self._take_note(ctx, verdict)
        with self._host.surface.under_verdict(verdict):
            try:
                if is_call:
                    result = await self._call(ctx, call_next, verdict, was_listed=was_listed)
                else:
                    result = await self._serve(ctx, call_next, verdict)
            except Exception:
                self._host.surface.observers.served(ctx.method, "error")
                raise
            finally:
                if is_call or ctx.method == "tools/list":
                    self._turn_beside(ctx, verdict)
                if verdict.capabilities is not None and verdict.capabilities.has_changed(ctx.method):
                    self._host.changes.tell_tools(connection_of(ctx))
        self._host.surface.observers.served(ctx.method, "ok" if _is_ok(result) else "error")
        return result

    async def _wait_for_first(self, ctx: ServerRequestContext[Any, Any], selection: Selection) -> None:
        """Have lists, searches, and look-ups by name wait for what was never seen; nothing else ever does."""
        if (kind := _LISTS.get(ctx.method)) is not None:
            await self._host.wait_for_first(selection, kind)
        elif (looked_up := _LOOK_UPS.get(ctx.method)) is not None:
            kind, key = looked_up
            params = ctx.params or {}
            name = params.get(key)
            if kind == "tool" and name == CALL_TOOL:  # the call of the tool that it names
                name = (params.get("arguments") or {}).get("name", name)
            elif kind == "tool" and name in ENTRY_NAMES:
                name = None
            await self._host.wait_for_first(selection, kind, None if name is None else str(name))

    async def _serve(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext, verdict: Verdict) -> HandlerResult:
        if ctx.method == "completion/complete" and not await self._host.may_complete((ctx.params or {}).get("ref")):
            return _NO_COMPLETION
        if ctx.method.startswith("tasks/") and not await self._host.may_use_task(task := _task_id(ctx)):
            raise MCPError(mcp_types.INVALID_PARAMS, f"Task {task} not found")  # as for one that never was
        if ctx.method in _GREETINGS:
            return await self._greet(await call_next(ctx))
        kind = _LISTS.get(ctx.method)
        if kind is None:
            answer: HandlerResult = await self._host.after(ctx.method, ctx.params or {}, await call_next(ctx), verdict)
            return answer
        with CollectingDecisions(verdict) as decisions:
            result = await call_next(ctx)
        self._take_note(ctx, verdict, kind)
        if isinstance(result, dict):
            decision = decisions.get(kind)
            summary = await summarise(self._host, verdict, kind, decision)
            result["_meta"] = {**(result.get("_meta") or {}), META_KEY: summary}
            if kind == "tool" and self._host.surface.operator.settings.groups:
                add_groups(result.get("tools") or ())
            if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                self._set_cache(ctx.method, result, verdict, is_whole="absent" not in summary)
            if kind == "tool" and decision is not None:
                self._host.surface.observers.listed(ToolsListed(ctx.method, decision, summary))
                self._tell_sought(verdict, decision)
        return result

    def _tell_sought(self, verdict: Verdict, decision: Decision) -> None:
        """Tell that tools were sought by a list's words, and how many answer: once a turn, where there are sessions."""
        is_asked = decision.status in ANSWERED or decision.status == "no_match"
        if not is_asked or not (words := _words(verdict)):
            return
        if verdict.trail is None or verdict.trail.is_sought_first():
            n_found = len(decision.preferences.resolution.tools) if decision.status in ANSWERED else 0
            self._host.surface.observers.sought(ToolsSought(words, n_found, verdict.trail))

    async def _greet(self, result: HandlerResult) -> HandlerResult:
        """Tell a caller of this server what is for him to know."""
        if isinstance(result, dict) and (instructions := await self._host.caller_instructions()) is not None:
            result["instructions"] = instructions
        return result

    def _take_note(
        self, ctx: ServerRequestContext[Any, Any], verdict: Verdict, listed: ComponentKind | None = None
    ) -> None:
        """Remember who is to be told of changes on his connection, and under which bounds he lists."""
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._host.changes.heard(connection_of(ctx), verdict, listed)

    async def _call(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext, verdict: Verdict, *, was_listed: bool
    ) -> HandlerResult:
        """Serve a call, tied to the surface it is made under in its log line and span.

        Args:
            ctx: the request's.
            call_next: serves it.
            verdict: what holds for it.
            was_listed: whether its caller had been listed tools, so that the SDK has checked its headers.
        """
        surface, params = self._host.surface, ctx.params or {}
        decision = await surface.unanswered_decision(await self._host.catalog("tool"), verdict)
        tied_to = revision(decision, verdict.asked)
        trace.get_current_span().set_attribute("agent_utilities.revision", tied_to)
        call = await self._host.tool_search.called(params, verdict) if ToolSearch.may_defer(verdict) else Call(params)
        if call.is_wrapped:
            ctx = replace(ctx, params=call.params)
        name = call.name
        logger.info("tools/call name=%r revision=%s", name, tied_to)
        if not was_listed and not call.is_wrapped:  # of a tool behind `call_tool` the headers say nothing
            refuse_headers(surface, ctx.request, call.params)
        started, ok = time.perf_counter(), False
        try:
            result = await call_next(ctx)
            ok = _is_ok(result)
            if verdict.capabilities is not None and isinstance(result, dict):
                taken = verdict.capabilities.used(decision.catalog, name) if ok else verdict.capabilities
                result = with_capabilities(result, taken)
            if call.is_wrapped and not ok and isinstance(result, dict):
                return await self._host.tool_search.explained(call, result, verdict)
            return result
        finally:
            seconds = time.perf_counter() - started
            words = _words(verdict)
            surface.observers.called(ToolCalled(name, tied_to, ok, seconds, decision, verdict.trail, words))
            if ok and verdict.trail is not None and name in decision.permitted_names:
                verdict.trail.used(name)

    def _turn_beside(self, ctx: ServerRequestContext[Any, Any], verdict: Verdict) -> None:
        """Have words that no list was turned by open a turn of their session, without the request waiting for it.

        They came with a call, or with a list that was made before anything could rank tools for them.
        """
        if verdict.view is None or not self._host.tool_search.opens_turn(verdict):
            return
        session, connection = verdict.view.session, connection_of(ctx)

        async def tell_changed() -> None:
            self._host.changes.tell_tools(connection)

        beside = replace(verdict, view=SessionView(session, tell_changed))

        async def turn() -> None:
            with turn_span():
                await self._host.tool_search.turn_later(beside)

        self._host.changes.beside.start(turn())

    def _set_cache(self, method: str, result: dict[str, Any], verdict: Verdict, *, is_whole: bool) -> None:
        """Say how long and by whom a list may be kept: one cut by its caller is the caller's alone.

        One that something is absent from may not be kept at all.
        """
        settings = self._host.surface.operator.settings
        hint = self._host.cache_hint(method)
        ttl_ms = hint.ttl_ms if hint is not None else settings.list_ttl_ms
        if verdict.shapes_lists and verdict.preferences.query is not None:
            is_unavailable = verdict.preferences.resolution.status == "unavailable"
            ttl_ms = 0 if is_unavailable else min(ttl_ms, settings.queried_list_ttl_ms)
        is_private = verdict.by_caller or self._host.auth is not None
        scope = hint.scope if hint is not None else "public"
        result["ttlMs"] = ttl_ms if is_whole else 0
        result["cacheScope"] = "private" if is_private else scope


def _selection(ctx: ServerRequestContext[Any, Any], host: Host) -> Selection:
    """Return the caller's selection: that of the HTTP request, and that in the MCP request's own `_meta`.

    Raises:
        MCPError: it is malformed.
    """
    try:
        selection = merge(selection_of(ctx.request), read_meta((ctx.params or {}).get("_meta")))
        host.surface.operator.check(selection)
        return selection
    except SelectionError as error:
        raise MCPError(mcp_types.INVALID_PARAMS, str(error), error.as_dict()) from None


def _words(verdict: Verdict) -> str:
    """Return the words that the caller gave with a request; those that an operator gave once for all are nobody's."""
    query = verdict.effective.query
    return verdict.effective.query_text or "" if query is not None and query.side == "caller" else ""


def _task_id(ctx: ServerRequestContext[Any, Any]) -> str:
    return str((ctx.params or {}).get("taskId"))


def _is_ok(result: HandlerResult) -> bool:
    return not (isinstance(result, dict) and result.get("isError") is True)
