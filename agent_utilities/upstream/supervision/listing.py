"""Lists all that an upstream has, page by page and within bounds, and takes it as a snapshot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import mcp_types
from mcp import MCPError
from pydantic import ValidationError

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
from agent_utilities.upstream.connections.negotiation import has_ended
from agent_utilities.upstream.http.http_errors import http_trouble
from agent_utilities.upstream.snapshot import Snapshot
from agent_utilities.upstream.supervision.policy import ListingBounds

_N_PROBLEMS = 100


async def take_snapshot(
    live: Live, config: UpstreamConfig, bounds: ListingBounds, before: Snapshot | None = None
) -> Snapshot:
    """Return all that an upstream lists now. Of what it has no capability for, it is not asked.

    A list other than of its tools that it fails to give costs none of the others: as such servers are, that need a
    database to say what resources they have, and none for their tools.

    Args:
        live: the connection to it.
        config: the upstream's.
        bounds: how much is taken; what is left out is told in `problems`.
        before: what it listed the last time, which holds on where a list fails now.

    Raises:
        TimeoutError: listing its tools takes longer than it may.
        MCPError: it answers with an error, or the connection has ended.
        ValidationError: it answers with what is no listing.
    """
    has = live.server_capabilities
    listing = _Listing(live, bounds, config.list_timeout_s)
    tools = await listing.all(TOOL) if has.tools else ()
    if live.is_modern:
        await learn_tools(live.session, tools)
    prompts = await listing.of(PROMPT, before.prompts if before is not None else ()) if has.prompts else ()
    resources = await listing.of(RESOURCE, before.resources if before is not None else ()) if has.resources else ()
    templates = await listing.of(TEMPLATE, before.templates if before is not None else ()) if has.resources else ()
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
        n_absent=listing.n_absent,
    )


class _Listing:
    """Takes the components of one upstream, within bounds that hold for each kind.

    Args:
        live: the connection to it.
        bounds: how much is taken.
        timeout_s: seconds that listing one kind may take.
    """

    def __init__(self, live: Live, bounds: ListingBounds, timeout_s: float) -> None:
        self._live, self._bounds, self._timeout_s = live, bounds, timeout_s
        self.problems: list[str] = []
        self.n_absent = 0
        """Of a gateway, how many of its own servers are not in its lists yet."""

    async def of(self, kind: Kind, before: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return all components of a kind; what it listed before, and a line in `problems`, where it fails to list."""
        try:
            return await self.all(kind)
        except TimeoutError:
            why = f"that took over {self._timeout_s:g} s"
        except ValidationError as error:
            why = f"it answers with what is none, {error.error_count()} errors"
        except MCPError as error:
            if has_ended(error) or http_trouble(error) is not None:
                raise
            if error.code == mcp_types.METHOD_NOT_FOUND:  # many that have resources know nothing of templates
                return ()
            why = f"it answers with an error: {error.message}"
        self.problems.append(f"{kind.name}s could not be listed, {why}"[:300])
        return before

    async def all(self, kind: Kind) -> tuple[Any, ...]:
        """Return all components of a kind, in the upstream's order; of two with one name the first."""
        async with asyncio.timeout(self._timeout_s):
            return await self._all(kind)

    async def _all(self, kind: Kind) -> tuple[Any, ...]:
        taken = _Taken(kind, self._bounds, self.problems)
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(self._bounds.n_pages):
            raw = await self._live.session.list_page(kind, cursor)
            self.n_absent = max(self.n_absent, _n_absent(raw))
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


def _n_absent(raw: Mapping[str, Any]) -> int:
    """Return how many servers a gateway says that its list lacks for now; 0 of any other server."""
    told: Any = raw
    for key in ("_meta", "agent-utilities/selection", "absent"):
        told = told.get(key) if isinstance(told, Mapping) else None
    return len(told) if isinstance(told, list) else 0


def _plain(value: mcp_types.Implementation | mcp_types.ServerCapabilities | None) -> dict[str, Any]:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True) if value is not None else {}
