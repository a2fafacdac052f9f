"""Reads catalogs from listings that rarely change, at the price of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastmcp import FastMCP
from fastmcp.server.providers.local_provider import LocalProvider
from fastmcp.tools.base import Tool

from agent_utilities.catalog.model import Catalog
from agent_utilities.compat.fastmcp_server import as_over_stdio
from agent_utilities.seam.verdict import UnderVerdict, Verdict

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer
from typing import TYPE_CHECKING

from cachetools import LRUCache

from agent_utilities.seam.components import as_models_read, origin_of
from agent_utilities.seam.host import ToolFacts

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer
import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from agent_utilities.catalog.model import ComponentKind, Entry
from agent_utilities.runtime.caches import BoundedCache
from agent_utilities.runtime.waiting import in_turns
from agent_utilities.seam.caller import caller_key
from agent_utilities.seam.components import Traits, bearing_of, entry_of, traits_of

_N_SNAPSHOTS = 4


class Row(NamedTuple):
    """A component as it was read."""

    traits: Traits
    entry: Entry


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A listing as it was read.

    Args:
        components: the objects listed, held so that their identities stay theirs.
        traits: what the catalog was made of, by component.
        catalog: the catalog.
        is_guarded: whether any component has an `auth` check of its own.
        has_disabled: whether any is disabled by its author.
    """

    components: tuple[Any, ...]
    traits: Sequence[Traits]
    catalog: Catalog
    is_guarded: bool
    has_disabled: bool = False


class CatalogReader:
    """Turns listings of one kind into catalogs, again and again, for the price of a comparison.

    A server lists the same objects nearly every time, and a mounted one equal copies of them; a catalog is made anew
    only where something differs from a listing seen before.
    """

    def __init__(self, kind: ComponentKind) -> None:
        self._kind: ComponentKind = kind
        self._snapshots: LRUCache[tuple[int, ...], Snapshot] = LRUCache(_N_SNAPSHOTS)
        self._last: tuple[tuple[int, ...], Snapshot] | None = None
        self._rows: dict[tuple[str, str | None], Row] = {}
        self._preparing: asyncio.Lock | None = None

    def read(self, components: Sequence[Any]) -> Snapshot:
        """Return the snapshot of a listing, its catalog in the listing's order."""
        return self._known(components) or self.renew(components)

    def _known(self, components: Sequence[Any]) -> Snapshot | None:
        if self._last is not None and components is self._last[1].components:
            return self._last[1]  # A tuple that was read before: nothing in it can have been exchanged.
        key = tuple(map(id, components))
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        return self._snapshots.get(key)

    async def prepare(self, components: Sequence[Any]) -> Snapshot:
        """Return the snapshot of a long listing, read in turns with the event loop where it is new (law L7)."""
        if (known := self._known(components)) is not None:
            return known
        if self._preparing is None or not self._preparing.locked():
            # Made anew whenever nobody holds it: a lock belongs to one event loop, and a server may see several.
            self._preparing = asyncio.Lock()
        async with self._preparing:
            if (known := self._known(components)) is not None:
                return known
            snapshot = self._keep(components, [self._row(component) async for component in in_turns(components)])
        await asyncio.sleep(0)
        return snapshot

    def renew(self, components: Sequence[Any]) -> Snapshot:
        """Return the snapshot of a listing, every component looked at."""
        return self._keep(components, list(map(self._row, components)))

    def _row(self, component: Any) -> Row:
        """Return a component's traits and entry, reused where they have not changed."""
        traits = traits_of(self._kind, component)
        row = self._rows.get(traits.key)
        if row is None or row.traits != traits:
            row = self._rows[traits.key] = Row(traits, entry_of(self._kind, component, traits))
        return row

    def _keep(self, components: Sequence[Any], rows: Sequence[Row]) -> Snapshot:
        key, traits = tuple(map(id, components)), [row.traits for row in rows]
        equal = next((snapshot for snapshot in self._snapshots.values() if snapshot.traits == traits), None)
        if equal is not None:
            snapshot = replace(equal, components=tuple(components))
        else:
            catalog = Catalog(tuple(row.entry for row in rows))
            is_guarded = any(row.entry.is_guarded for row in rows)
            has_disabled = not all(each.is_enabled for each in traits)
            snapshot = Snapshot(tuple(components), traits, catalog, is_guarded, has_disabled)
            self._snapshots[key] = snapshot
        self._last = key, snapshot
        if len(self._rows) > 2 * len(rows) + _N_SNAPSHOTS:
            self._rows = {row.traits.key: row for row in rows}
        return snapshot

    def components_of(self, catalog: Catalog) -> Sequence[Any]:
        """Return the components that a catalog was read from, in its order; empty where that was long ago."""
        if self._last is None or (read := self._last[1]).catalog.digest != catalog.digest:
            known = self._snapshots.values()
            return next((each.components for each in known if each.catalog.digest == catalog.digest), ())
        return read.components

    def is_current(self, snapshot: Snapshot, components: Sequence[Any], indexes: Iterable[int]) -> bool:
        """Whether components still bear what bounds judge as they did when they were read."""
        return all(bearing_of(self._kind, components[i]) == snapshot.traits[i].bearing for i in indexes)


CATALOGS_BYTES = 4 << 20
"""What the catalogs of callers may take together, beside the entries that they share."""


class CallerCatalogs:
    """The catalog of the last whole listing of each kind, by caller; those of callers long gone are forgotten."""

    def __init__(self) -> None:
        self._catalogs: BoundedCache[tuple[str, ComponentKind], Catalog] = BoundedCache(CATALOGS_BYTES, weigh_catalog)
        self._by_digest: WeakValueDictionary[str, Catalog] = WeakValueDictionary()

    def of_caller(self, kind: ComponentKind) -> Catalog | None:
        """Return the catalog that the present caller was last listed; None where it is not known."""
        return self._catalogs.get((caller_key(), kind))

    def keep(self, kind: ComponentKind, catalog: Catalog) -> None:
        """Keep the catalog that the present caller was just listed; equal ones are kept once."""
        self._catalogs.keep((caller_key(), kind), self._by_digest.setdefault(catalog.digest, catalog))

    def all(self) -> list[Catalog]:
        """Return what all callers were listed, of all kinds; each catalog once."""
        return list(self._by_digest.values())

    def forget(self) -> None:
        """Evict all catalogs: components changed, so that each caller is listed anew at their next request."""
        self._catalogs.clear()


def weigh_catalog(key: tuple[str, ComponentKind], catalog: Catalog) -> int:
    """Return about how many bytes a caller's catalog takes, beside the entries that it shares."""
    return 500 + 8 * len(catalog)


_N_KEPT = 120_000
"""The most definitions: a server that has more of them has each worked out again in every list that is weighed."""


class KnownTools:
    """The facts of a server's tools, computed once for each definition."""

    def __init__(self, host: AgentServer) -> None:
        self._host = host
        self._kept: LRUCache[bytes, ToolFacts] = LRUCache(_N_KEPT)

    def of(self, catalog: Catalog, place: int | str) -> ToolFacts:
        """Return server, version and size of a tool; empty where it is unknown, or its catalog outdated."""
        if isinstance(place, str):
            if not (places := catalog.places_by_own_name.get(place)):
                return ToolFacts()
            place = places[-1]
        stamp = catalog.entries[place].stamp
        facts, components = self._kept.get(stamp), self._host.surface.components_of("tool", catalog)
        if not components:
            return facts or ToolFacts()
        tool = components[place]
        server = origin_of(tool, self._host).server.name  # another by now, where a configuration has it elsewhere
        if facts is None or facts.server != server:
            from agent_utilities.catalog.context import n_tokens  # where calls are counted, or somebody looks

            facts = self._kept[stamp] = ToolFacts(server, str(tool.version or ""), n_tokens(as_models_read(tool)))
        return facts


class ServerCatalog:
    """All tools of one server; see `WholeCatalog`."""

    def __init__(self, server: AgentServer) -> None:
        self._server, self._surface = server, server.surface
        self.unbounded = server.surface.unbounded

    async def everything(self) -> tuple[Sequence[Tool], Catalog]:
        with UnderVerdict(verdict := self.unbounded()), as_over_stdio():
            tools = await FastMCP.list_tools(self._server, run_middleware=False)
        return tools, verdict.decisions[self._surface, "tool"].catalog

    async def everybodys(self) -> Sequence[Tool]:
        with UnderVerdict(self.unbounded()):
            return await FastMCP.list_tools(self._server, run_middleware=False)

    async def admitted(self) -> Sequence[Tool]:
        with UnderVerdict(self.unbounded()):
            return [tool for tool in await self._server.components("tool") if isinstance(tool, Tool)]

    def is_local(self) -> bool:
        return all(isinstance(provider, LocalProvider) for provider in self._server.providers)

    def permitted(self, tools: Sequence[Tool], verdict: Verdict) -> list[Tool]:
        with UnderVerdict(verdict):
            return [tool for tool in tools if self._surface.permits("tool", tool)]

    async def judge(self, catalog: Catalog, verdict: Verdict) -> None:
        await self._surface.judge("tool", catalog, verdict)

    def permitted_names(self, catalog: Catalog, verdict: Verdict) -> frozenset[str]:
        return self._surface.decision("tool", catalog, verdict).permitted_names
