"""Skills of upstreams, for callers of 2026-07-28: listed from snapshots, and fetched from their own server (SEP-2640).

A skill is permitted where each of its files may be read; bounds know the files by the skill's name too, with the
upstream's prefix. Only URIs are renamed: hosts check a skill's name against its `SKILL.md`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, cast

import mcp_types
from fastmcp.server.context import Context
from fastmcp.server.dependencies import bind_request_context
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agent_utilities.gateway.calls import Kind
from agent_utilities.gateway.components import UpstreamReadable, UpstreamResource
from agent_utilities.gateway.provider import UpstreamProvider
from agent_utilities.gateway.relay import present_caller
from agent_utilities.gateway.upstreams.operator.lock import Key
from agent_utilities.policy.bounds import Bounds
from agent_utilities.protocol.fit import ENVELOPE, SKILL, fitted
from agent_utilities.seam.components import entry_of
from agent_utilities.seam.host import Host, Pending
from agent_utilities.seam.request import Request, relayed, request_in_force

_GET = Kind[dict[str, Any]]("skills/get", lambda raw: raw, lambda _: {})
_UNKNOWN = mcp_types.INVALID_PARAMS
_FRESH_S = 10.0
"""The age at which a list has its snapshot renewed behind it: hosts list again where a digest does not fit."""


class Skills:
    """Serves `skills/list` and `skills/get`, with the server's own skills as FastMCP answers for them."""

    def __init__(self, host: Host, provider: UpstreamProvider, pending: Pending) -> None:
        self._host, self._provider, self._pending = host, provider, pending

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        request, is_list = request_in_force(), ctx.method == SKILL.method
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if request is None or not is_modern or not (is_list or ctx.method == _GET.method):
            return await call_next(ctx)
        try:
            own: Any = await call_next(ctx)
        except MCPError as error:
            # The server has no skills, or not this one; from a list, invalid params mean a cursor.
            if error.error.code != mcp_types.METHOD_NOT_FOUND and (is_list or error.error.code != _UNKNOWN):
                raise
            own = None
        if is_list:
            return await self._list(request, own or {**ENVELOPE, "skills": []})
        if (result := own or await self._get(ctx, request, uri := str(request.params.get("uri")))) is None:
            raise MCPError(_UNKNOWN, f"Unknown skill URI: {uri}")
        return result

    async def _list(self, request: Request, own: dict[str, Any]) -> dict[str, Any]:
        """Return a page of the server's own skills; the last has all of the upstreams' too."""
        if own.get("nextCursor"):
            return own
        await self._pending.wait_for_first(request.selection, "resource", None)
        shown = self._provider.shown()
        bounds = request.verdict.bounds
        served = [skill for name, skill in shown.skills.values() if await self._is_served(name, skill, bounds)]
        result = {**own, "skills": [*own["skills"], *served]}
        for caller, shot, _ in shown.reached.values():
            if shot.skills and time.time() - shot.taken_at_s > _FRESH_S:
                self._host.start(caller.upstream.renewed())
        return result

    async def _is_served(self, upstream: str, skill: Mapping[str, Any], bounds: Bounds) -> bool:
        """Whether the current caller reads a skill from its upstream, and bounds permit every file of it."""
        main = await self._host.component("resource", skill["uri"])
        listed = self._provider.shown().by_kind["resources"]
        if not isinstance(main, UpstreamResource) or main.caller.config.name != upstream:
            return False
        uris = () if skill["resources"] == "dynamic" else (file["uri"] for file in skill["resources"])
        files = (listed.get(uri) or main.model_copy(update={"uri": uri}) for uri in uris)
        return all(bounds.refusal(entry_of("resource", file)) is None for file in files)

    async def _get(self, ctx: ServerRequestContext[Any, Any], request: Request, uri: str) -> dict[str, Any] | None:
        """Return a skill as its upstream sends it, listed or not; None where the current caller may not have it."""
        main: Any = await self._host.component("resource", uri)
        if not isinstance(main, UpstreamReadable):
            return None
        caller, original, shown = main.caller, main.original(uri), self._provider.shown()
        _, shot, denied = shown.reached[name := caller.config.name]
        if not shot.has_skills or Key(name, "skills", original) in denied:
            return None
        with bind_request_context(ctx):
            async with Context(fastmcp=cast(Any, self._host)):
                raw = await relayed(caller.ask(_GET, uri=original))
        skill = raw.get("skill")
        fit = fitted(SKILL, skill if isinstance(skill, dict) else {}, is_modern=True)
        if (listed := fit.item) is None or listed["uri"] != original:
            message = f"upstream {name!r} answered with another skill, or none: {fit.problem}"
            raise MCPError(mcp_types.INTERNAL_ERROR, message)
        bounds, links = request.verdict.bounds, self._provider.links.of(present_caller())
        called = UpstreamResource.of(caller, uri, {"uri": original, "name": listed["frontmatter"]["name"]})
        if bounds.refusal(entry_of("resource", called)) is not None:
            return None
        skill = shown.uris.of_skill(caller.namespace, name, listed, links=links)
        if skill["uri"] != uri or not await self._is_served(name, skill, bounds):
            return None
        return {**ENVELOPE, **raw, "skill": skill, "cacheScope": "private"}  # bounds differ between callers
