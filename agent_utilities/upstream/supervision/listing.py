"""Lists all that an upstream has, page by page and within bounds, and takes it as a snapshot."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import mcp_types
from mcp import MCPError

from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.connections.client_internals import learn_tools
from agent_utilities.upstream.connections.connection import Live
from agent_utilities.upstream.connections.listed_items import (
    PROMPT,
    RESOURCE,
    TEMPLATE,
    TOOL,
    Component,
    Item,
    Kind,
    parsed,
)
from agent_utilities.upstream.snapshot import Snapshot
from agent_utilities.upstream.supervision.policy import ListingBounds

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
    has = live.server_capabilities
    listing = _Listing(live, bounds)
    tools = await listing.all(TOOL) if has.tools else ()
    if live.is_modern:
        await learn_tools(live.session, tools)
    prompts = await listing.all(PROMPT) if has.prompts else ()
    resources = await listing.all(RESOURCE) if has.resources else ()
    try:
        templates = await listing.all(TEMPLATE) if has.resources else ()
    except MCPError as error:  # many that have resources know nothing of templates
        if error.code != mcp_types.METHOD_NOT_FOUND:
            raise
        templates = ()
    problems = listing.problems
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
        live: the connection to it.
        bounds: how much is taken.
    """

    def __init__(self, live: Live, bounds: ListingBounds) -> None:
        self._live, self._bounds = live, bounds
        self.problems: list[str] = []

    async def all(self, kind: Kind) -> tuple[Any, ...]:
        """Return all components of a kind, in the upstream's order; of two with one name the first."""
        taken = _Taken(kind, self._bounds, self.problems)
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(self._bounds.n_pages):
            raw = await self._live.session.list_page(kind, cursor)
            items, problems = await asyncio.to_thread(parsed, kind, raw, self._live.protocol_version)
            self.problems += problems
            cursor = raw.get("nextCursor")
            if not taken.add(items) or cursor is None:
                return taken.components
            if cursor in seen:
                self.problems.append(f"{kind.name}s: a page comes again, and what would follow it is left out")
                return taken.components
            seen.add(cursor)
        self.problems.append(f"{kind.name}s: over {self._bounds.n_pages} pages; what follows is left out")
        return taken.components


class _Taken:
    """The components of one kind that have been taken so far."""

    def __init__(self, kind: Kind, bounds: ListingBounds, problems: list[str]) -> None:
        self._kind, self._bounds, self._problems = kind, bounds, problems
        self._components: dict[str, Component] = {}
        self._n_bytes = 0

    @property
    def components(self) -> tuple[Component, ...]:
        """In the order that they were listed in."""
        return tuple(self._components.values())

    def add(self, items: list[Item]) -> bool:
        """Take a page, and say whether there is room for more."""
        for item in items:
            self._n_bytes += item.n_bytes
            n_taken = len(self._components)
            if n_taken >= self._bounds.n_items or self._n_bytes > self._bounds.n_bytes:
                text = f"more {self._kind.name}s than the {n_taken} that are taken: so many of one upstream, no more"
                self._problems.append(text)
                return False
            if self._components.setdefault(item.key, item.component) is not item.component:
                self._problems.append(f"{self._kind.name} {item.key!r} is listed more than once; the first is taken")
        return True


def _plain(value: mcp_types.Implementation | mcp_types.ServerCapabilities | None) -> dict[str, Any]:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True) if value is not None else {}
