"""Lists, component by component: each is made fit for its client by itself, and once."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import mcp_types
from cachetools import LRUCache
from fastmcp.server.dependencies import bind_request_context
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agent_utilities.compat.fastmcp_server import low_level_server
from agent_utilities.protocol.fit import GROUPS_KEY, KINDS, TOOL, Fit, Kind, fitted
from agent_utilities.runtime.waiting import in_turns
from agent_utilities.seam.components import ForeignTool
from agent_utilities.seam.request import LISTED, UNFIT, Request, request_in_force

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer

logger = logging.getLogger("agent_utilities.wire")

_N_KEPT = 512
"""The most tools that are cached in wire form; longer lists are converted anew."""
_LONGEST_KEPT = 16 << 10
"""The most characters of JSON of a cached tool: all together take 8 MiB at most."""
_N_PAGES = 16
"""The most lists of tools that are cached in wire form; callers with the same list share one."""


page_in_force: ContextVar[list[dict[str, Any]] | None] = ContextVar("agent_utilities_page", default=None)
"""The items of the list that is being made, each as it is sent; callers share them, so no feature is given them."""
_Page = list[tuple[Any, Fit]]
"""Definitions, each with its wire form for clients."""


class Lists:
    """Converts each component of a list for its client separately, so that an invalid one affects no other.

    The SDK validates a list as a whole, and answers with an error where one component is invalid in the client's
    protocol version. It gets an empty list, and the components are put in afterwards. Each is converted once, for as
    long as its definition is the same; those of an upstream are sent as they came.
    """

    def __init__(self, server: AgentServer) -> None:
        self._server = server
        self._kept: LRUCache[tuple[str, str, bool], tuple[Any, Fit]] = LRUCache(_N_KEPT)
        self._pages: LRUCache[tuple[Any, ...], tuple[list[object | None], Sequence[Any], _Page]] = LRUCache(_N_PAGES)
        self._told: LRUCache[tuple[str, str], str] = LRUCache(_N_KEPT)
        sdk = low_level_server(server)
        for kind in KINDS.values():
            entry = sdk.get_request_handler(kind.method)
            assert entry is not None  # FastMCP's own
            handler = partial(self._emptied, kind, entry.handler)
            sdk.add_request_handler(kind.method, mcp_types.PaginatedRequestParams, handler)

    async def _emptied(
        self,
        kind: Kind,
        list_them: Any,
        ctx: ServerRequestContext[Any, Any],
        params: mcp_types.PaginatedRequestParams | None,
    ) -> Any:
        """Return a page without its components, which are in force by then: the SDK's handler, around FastMCP's."""
        request, items = request_in_force(), page_in_force.get()
        if request is None or items is None:
            return await list_them(ctx, params)
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        # Where a client in this process is handed the result itself, what is in it can't be shared.
        is_shared = ctx.request is not None or self._server.transport == "stdio"
        if kind is TOOL and is_shared and not self._server.pages_lists and (params is None or params.cursor is None):
            with bind_request_context(ctx):
                tools = await self._server.list_tools()
            if (page := await self._page(tools, is_modern=is_modern)) is not None:
                self._put(kind, page, request, items)
                return mcp_types.ListToolsResult(tools=[])
            request.values[LISTED] = tools
        result = await list_them(ctx, params)
        name = kind.model_field
        definitions = getattr(result, name)
        keeps = is_shared and len(definitions) <= _N_KEPT
        page = [
            (definition, self._fit(kind, definition, is_modern=is_modern, keeps=keeps))
            async for definition in in_turns(definitions)
        ]
        if not is_shared:
            page = [(definition, replace(fit, item=deepcopy(fit.item))) for definition, fit in page]
        self._put(kind, page, request, items)
        return result.model_copy(update={name: []})

    async def _page(self, tools: Sequence[Any], *, is_modern: bool) -> _Page | None:
        """Return a list of tools that are all of servers behind, ready to go out; None where any is not.

        It is made ready once for each era, for as long as the tools and what they are made of are the same.
        """
        if not all(isinstance(tool, ForeignTool) and tool.stamp and tool.version is None for tool in tools):
            return None
        stamps = [tool.stamp for tool in tools]
        key = is_modern, *map(id, tools)
        before = self._pages.get(key)
        if before is None or before[0] != stamps:
            made = [tool.to_mcp_tool(name=tool.name) async for tool in in_turns(tools)]
            page = [(each, self._fit(TOOL, each, is_modern=is_modern, keeps=False)) for each in made]
            before = stamps, tools, page
            if len(tools) <= _N_KEPT:
                self._pages[key] = before
        return before[2]

    def _put(self, kind: Kind, page: _Page, request: Request, items: list[dict[str, Any]]) -> None:
        """Add a page's components to a list's items, and report those that its client does not get as they are."""
        for definition, fit in page:
            if fit.item is not None:
                items.append(fit.item)
            if fit.problem:
                self._tell(kind, definition, fit, request)

    def _fit(self, kind: Kind, definition: Any, *, is_modern: bool, keeps: bool) -> Fit:
        if (fit := getattr(definition, "fit", None)) is not None:  # of a server behind: as it came
            return self._grouped(kind, fit(kind, is_modern=is_modern))
        key = kind.method, str(getattr(definition, kind.model_key)), is_modern
        before, made = self._kept.get(key, (None, Fit(None)))
        if not keeps or before != definition:
            item = definition.model_dump(by_alias=True, mode="json", exclude_none=True)
            made = self._grouped(kind, fitted(kind, item, is_modern=is_modern, as_sieved=True))
            if keeps and len(json.dumps(made.item)) <= _LONGEST_KEPT:
                # A copy, since what a definition is made of may be changed in place.
                self._kept[key] = definition.model_copy(deep=True), made
        return made

    def _grouped(self, kind: Kind, fit: Fit) -> Fit:
        if kind is not TOOL or fit.item is None or not self._server.surface.operator.settings.groups:
            return fit
        return replace(fit, item=with_groups(fit.item))

    def _tell(self, kind: Kind, definition: Any, fit: Fit, request: Request) -> None:
        """Report a component that its client does not get as it is: to the client, and once in the log."""
        name = str(getattr(definition, kind.model_key))
        request.values.setdefault(UNFIT, {})[name] = fit.problem
        if self._told.get((kind.method, name)) != fit.problem:
            self._told[kind.method, name] = fit.problem
            what = "is listed without what clients can't read" if fit.item is not None else "is left out of lists"
            logger.warning("%s %r %s: %s", kind.name, name, what, fit.problem)


def with_groups(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a listed tool with its tags as groups, beside its own ones: each is a toolset."""
    meta = tool.get("_meta") or {}
    if not isinstance(own_meta := meta.get("fastmcp"), dict) or not (tags := own_meta.get("tags")):
        return tool
    own = meta.get(GROUPS_KEY)
    groups = list(dict.fromkeys([*own, *tags])) if isinstance(own, list) else tags
    return {**tool, "_meta": {**meta, GROUPS_KEY: groups}}
