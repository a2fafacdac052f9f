"""Lists, component by component: each is made fit for its client by itself, and once."""

from __future__ import annotations

import asyncio
import json
import logging
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

import mcp_types
from cachetools import LRUCache
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agent_utilities.compat.fastmcp_server import low_level_server
from agent_utilities.mcp.request import Request, request_in_force
from agent_utilities.upstream.fit import KINDS, TOOL, Fit, Kind, fitted

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer

logger = logging.getLogger("agent_utilities.wire")

UNFIT = "unfit"
"""The key of a request's values that has what its client could not be given as it is, by name, each with why."""
_N_KEPT = 512
"""The most tools that are kept as they are on the wire; longer lists than that are made anew."""
_LONGEST_KEPT = 16 << 10
"""Characters of JSON of the longest tool that is kept: all together are 8 MiB of it at most."""
_A_TURN = 50
"""Components that are made ready without a turn for the event loop: a few milliseconds."""

GROUPS_KEY = "io.modelcontextprotocol/groups"
"""The key of a tool's `_meta` that holds the names of its groups, a list.

Source: SEP-2084 (closed, not part of the protocol); its TypeScript and Python implementations read this key.
"""


class Lists:
    """Makes each component of a list fit for its client by itself: an odd one costs none of the others.

    The SDK checks a list as a whole, and answers with an error where one component is none for the client's protocol
    version. It is given an empty one, and the components are put in it after that. Each is made ready once, for as long
    as its definition is the same; those of a server behind go out as they came.
    """

    def __init__(self, server: AgentServer) -> None:
        self._server = server
        self._kept: LRUCache[tuple[str, str, bool], tuple[Any, Fit]] = LRUCache(_N_KEPT)
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
        """Return a page without its components, which the request has by then: the SDK's handler, around FastMCP's."""
        result = await list_them(ctx, params)
        request = request_in_force()
        if request is None:
            return result
        name = kind.model_field
        definitions, is_modern = getattr(result, name), ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        # Where a client in this process is handed the result itself, what is in it can't be shared.
        is_shared = ctx.request is not None or self._server.transport == "stdio"
        keeps = is_shared and len(definitions) <= _N_KEPT
        for n, definition in enumerate(definitions, 1):
            fit = self._fit(kind, definition, is_modern=is_modern, keeps=keeps)
            if fit.item is not None:
                request.page.append(fit.item if is_shared else deepcopy(fit.item))
            if fit.problem:
                self._tell(kind, definition, fit, request)
            if n % _A_TURN == 0:
                await asyncio.sleep(0)
        return result.model_copy(update={name: []})

    def _fit(self, kind: Kind, definition: Any, *, is_modern: bool, keeps: bool) -> Fit:
        if (fit := getattr(definition, "fit", None)) is not None:  # of a server behind: as it came
            made: Fit = fit(kind, is_modern=is_modern)
            return made
        key = kind.method, str(getattr(definition, kind.model_key)), is_modern
        before, made = self._kept.get(key, (None, Fit(None)))
        if not keeps or before != definition:
            item = definition.model_dump(by_alias=True, mode="json", exclude_none=True)
            made = fitted(kind, item, is_modern=is_modern, as_sieved=True)
            if keeps and len(json.dumps(made.item)) <= _LONGEST_KEPT:
                # A copy, since what a definition is made of may be changed in place.
                self._kept[key] = definition.model_copy(deep=True), made
        return made

    def _tell(self, kind: Kind, definition: Any, fit: Fit, request: Request) -> None:
        """Say which component its client is not given as it is: to the client, and once in the log."""
        name = str(getattr(definition, kind.model_key))
        request.values.setdefault(UNFIT, {})[name] = fit.problem
        if self._told.get((kind.method, name)) != fit.problem:
            self._told[kind.method, name] = fit.problem
            what = "is listed without what clients can't read" if fit.item is not None else "is left out of lists"
            logger.warning("%s %r %s: %s", kind.name, name, what, fit.problem)

    def complete(self, kind: Kind, result: dict[str, Any], request: Request) -> None:
        """Put the components in the page that the SDK made ready."""
        items = [*result[kind.field], *request.page]
        if kind is TOOL and self._server.surface.operator.settings.groups:
            items = [with_groups(item) for item in items]
        result[kind.field] = items


def with_groups(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a listed tool with its tags as groups, beside those that it brings: each is a toolset."""
    meta = tool.get("_meta") or {}
    if not isinstance(told := meta.get("fastmcp"), dict) or not (tags := told.get("tags")):
        return tool
    own = meta.get(GROUPS_KEY)
    groups = list(dict.fromkeys([*own, *tags])) if isinstance(own, list) else tags
    return {**tool, "_meta": {**meta, GROUPS_KEY: groups}}
