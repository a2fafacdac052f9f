"""The seam on the wire: sets each request's verdict, and stamps what was decided on its result."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import mcp_types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from opentelemetry import trace

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.errors import SelectionError
from agent_utilities.mcp.request import selection_of
from agent_utilities.mcp.summary import summarise, tell
from agent_utilities.mcp.surface import Verdict

if TYPE_CHECKING:
    from agent_utilities.mcp.server import AgentServer

logger = logging.getLogger("agent_utilities.wire")

META_KEY = "agent-utilities/selection"
"""The key of a list result's `_meta` that tells what was decided."""

_LISTS: dict[str, ComponentKind] = {
    "tools/list": "tool",
    "prompts/list": "prompt",
    "resources/list": "resource",
    "resources/templates/list": "template",
}
_NO_COMPLETION = mcp_types.CompleteResult(completion=mcp_types.Completion(values=[]))


class WireMiddleware:
    """Middleware of the SDK's server: the request that arrives here decides for everything behind it.

    A server mounted in another has no part in it: the verdict is made where the request arrives, on the names its
    caller sees.

    Args:
        server: the server that requests arrive at.
    """

    def __init__(self, server: AgentServer) -> None:
        self._server = server

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._server.changes.connections.add(ctx.session._connection)
        if ctx.request_id is None:
            return await call_next(ctx)
        try:
            caller = selection_of(ctx.request)
        except SelectionError as error:
            raise MCPError(mcp_types.INVALID_PARAMS, str(error), error.as_dict()) from None
        verdict = await self._server.verdict(caller, lists_tools=ctx.method == "tools/list")
        with self._server.surface.under_verdict(verdict):
            try:
                result = await self._serve(ctx, call_next, verdict)
            except Exception:
                self._count(ctx, "error")
                raise
        failed = isinstance(result, dict) and result.get("isError") is True
        self._count(ctx, "error" if failed else "ok")
        return result

    async def _serve(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext, verdict: Verdict) -> HandlerResult:
        if ctx.method == "tools/call":
            await self._tie(ctx, verdict)
        if ctx.method == "completion/complete" and self._server._completion_handler is not None:
            if not await self._completes(ctx.params):
                return _NO_COMPLETION
        result = await call_next(ctx)
        kind = _LISTS.get(ctx.method)
        if kind is not None and isinstance(result, dict):
            await self._stamp(ctx, result, verdict, kind)
        return result

    async def _tie(self, ctx: ServerRequestContext[Any, Any], verdict: Verdict) -> None:
        """Tie a call to the surface it is made under, in its log line and span."""
        revision = await self._server.revision(verdict)
        trace.get_current_span().set_attribute("agent_utilities.revision", revision)
        name = ctx.params.get("name") if ctx.params else None
        logger.info("tools/call name=%r revision=%s", name, revision)

    async def _completes(self, params: Any) -> bool:
        """Whether a completion's reference is permitted; one that is not reads like one that never existed."""
        reference = params.get("ref") if params else None
        if not isinstance(reference, dict):
            return True
        if reference.get("type") == "ref/prompt":
            return await self._server.get_prompt(str(reference.get("name"))) is not None
        uri = str(reference.get("uri"))
        listed = await self._server.list_resource_templates(run_middleware=False)
        if any(each.uri_template == uri for each in listed):
            return True
        found, exists = await self._server._lookup_resource(uri)
        if found is None and not exists:
            return await self._server.get_resource_template(uri) is not None
        return found is not None

    async def _stamp(
        self, ctx: ServerRequestContext[Any, Any], result: dict[str, Any], verdict: Verdict, kind: ComponentKind
    ) -> None:
        result["_meta"] = {**(result.get("_meta") or {}), META_KEY: await summarise(self._server, verdict, kind)}
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            self._set_cache(ctx.method, result, verdict)
        if kind == "tool":
            tell(self._server, verdict, result["_meta"][META_KEY], ctx.method)

    def _set_cache(self, method: str, result: dict[str, Any], verdict: Verdict) -> None:
        """Say how long and by whom a list may be kept: one cut by its caller is the caller's alone."""
        settings = self._server.surface.settings
        hint = self._server._mcp_server.cache_hints.get(method)
        ttl_ms = hint.ttl_ms if hint is not None else settings.list_ttl_ms
        if verdict.curated and verdict.effective.query is not None:
            unanswered = verdict.resolution.status == "unavailable"
            ttl_ms = 0 if unanswered else min(ttl_ms, settings.queried_list_ttl_ms)
        private = verdict.by_caller or self._server.auth is not None
        scope = hint.scope if hint is not None else "public"
        result["ttlMs"] = ttl_ms
        result["cacheScope"] = "private" if private else scope

    def _count(self, ctx: ServerRequestContext[Any, Any], outcome: str) -> None:
        if self._server.surface.metrics is not None:
            self._server.surface.metrics.served(ctx.method, outcome)
