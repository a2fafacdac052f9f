"""Lists all that an upstream has, page by page and within bounds, and takes it as a snapshot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import mcp_types
from mcp import MCPError

from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.connection import Live
from agent_utilities.upstream.policy import ListingBounds
from agent_utilities.upstream.snapshot import Snapshot

Component = mcp_types.Tool | mcp_types.Prompt | mcp_types.Resource | mcp_types.ResourceTemplate

_N_ITEMS_A_TURN = 200
"""How many components are judged before other work has its turn."""
_N_PROBLEMS = 100


async def take_snapshot(live: Live, config: UpstreamConfig, bounds: ListingBounds) -> Snapshot:
    """Return all that an upstream lists now. Of what it has no capability for, it is not asked.

    Args:
        live: the connection to it.
        config: the upstream's.
        bounds: how much is taken; what is left out is told in `problems`.

    Raises:
        MCPError: it answers with an error.
        ValidationError: it answers with what is no listing.
    """
    session, has = live.session, live.server_capabilities
    session.listed.problems.clear()
    listing = _Listing(bounds)
    tools = await listing.all("tool", has.tools, session.list_tools, lambda page: page.tools)
    prompts = await listing.all("prompt", has.prompts, session.list_prompts, lambda page: page.prompts)
    resources = await listing.all("resource", has.resources, session.list_resources, lambda page: page.resources)
    try:
        templates = await listing.all(
            "resource template", has.resources, session.list_resource_templates, lambda page: page.resource_templates
        )
    except MCPError as error:  # many that have resources know nothing of templates
        if error.code != mcp_types.METHOD_NOT_FOUND:
            raise
        templates = ()
    problems = [*session.listed.problems, *listing.problems]
    if len(problems) > _N_PROBLEMS:
        problems[_N_PROBLEMS:] = [f"{len(problems) - _N_PROBLEMS} more that could not be taken"]
    return Snapshot(
        upstream=config.name,
        config_digest=config.digest,
        taken_at_s=time.time(),
        protocol_version=live.protocol_version,
        server_info=_plain(live.server_info),
        instructions=live.instructions,
        capabilities=_plain(has),
        tools=tools,
        prompts=prompts,
        resources=resources,
        templates=templates,
        problems=tuple(problems),
    )


class _Listing:
    """Takes the components of one upstream, within bounds that hold for each kind.

    Args:
        bounds: how much is taken.
    """

    def __init__(self, bounds: ListingBounds) -> None:
        self._bounds = bounds
        self.problems: list[str] = []

    async def all(
        self,
        kind: str,
        capability: object,
        list_page: Callable[..., Awaitable[Any]],
        items: Callable[[Any], Iterable[Component]],
    ) -> tuple[Any, ...]:
        """Return all components of a kind, in the upstream's order; of two with one name the first."""
        found: dict[str, Component] = {}
        if capability is None:
            return ()
        n_bytes, cursor, seen = 0, None, set[str]()
        for n_page in range(self._bounds.n_pages):
            page = await list_page(params=mcp_types.PaginatedRequestParams(cursor=cursor) if n_page else None)
            for n_item, item in enumerate(items(page)):
                if n_item % _N_ITEMS_A_TURN == _N_ITEMS_A_TURN - 1:
                    await asyncio.sleep(0)
                n_bytes += len(item.model_dump_json(by_alias=True, exclude_none=True))
                if len(found) >= self._bounds.n_items or n_bytes > self._bounds.n_bytes:
                    self._told(f"more {kind}s than the {len(found)} that are taken: over what is taken of one upstream")
                    return tuple(found.values())
                if found.setdefault(_key(item), item) is not item:
                    self._told(f"{kind} {_key(item)!r} is listed more than once; the first is taken")
            cursor = page.next_cursor
            if cursor is None:
                return tuple(found.values())
            if cursor in seen:
                self._told(f"{kind}s: page {cursor!r} comes again, so what follows it is left out")
                return tuple(found.values())
            seen.add(cursor)
        self._told(f"{kind}s: over {self._bounds.n_pages} pages; what follows is left out")
        return tuple(found.values())

    def _told(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


def _key(item: Component) -> str:
    if isinstance(item, mcp_types.Resource):
        return str(item.uri)
    if isinstance(item, mcp_types.ResourceTemplate):
        return item.uri_template
    return item.name


def _plain(value: mcp_types.Implementation | mcp_types.ServerCapabilities | None) -> dict[str, Any]:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True) if value is not None else {}
