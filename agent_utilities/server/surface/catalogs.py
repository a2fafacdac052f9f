"""Catalogs read cheaply from listings that rarely change."""

from __future__ import annotations

import asyncio
from asyncio import Event
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from cachetools import LRUCache
from fastmcp.server.dependencies import get_access_token

from agent_utilities.catalog.model import Catalog, ComponentKind, Entry
from agent_utilities.compat.fastmcp_server import is_over_stdio
from agent_utilities.runtime.caches import BoundedCache
from agent_utilities.runtime.waiting import in_turns
from agent_utilities.server.surface.components import Traits, bearing_of, entry_of, traits_of

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
        """Return a component's traits and entry; those it was read with before, where they are the same."""
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

NOBODY = ""
"""The caller without a token: what they are listed is everybody's to know."""


def caller_key() -> str:
    """Return what tells the present caller from others, as far as FastMCP's `auth` checks do: the token, hashed.

    Over stdio there is one caller, whom no check holds.
    """
    if is_over_stdio():
        return "stdio"
    token = get_access_token()
    return NOBODY if token is None else blake2b(token.token.encode(), digest_size=16).hexdigest()


class CallerCatalogs:
    """The catalog of the last whole listing of each kind, by caller; those of callers long gone are forgotten."""

    def __init__(self) -> None:
        self._catalogs: BoundedCache[tuple[str, ComponentKind], Catalog] = BoundedCache(CATALOGS_BYTES, weigh_catalog)
        self._by_digest: WeakValueDictionary[str, Catalog] = WeakValueDictionary()

    def of_caller(self, kind: ComponentKind) -> Catalog | None:
        """Return the catalog that the present caller was last listed; None where it is not known."""
        return self._catalogs.get((caller_key(), kind))

    def keep(self, kind: ComponentKind, catalog: Catalog) -> None:
        """Take a catalog that the present caller was just listed; equal ones are kept once."""
        self._catalogs.keep((caller_key(), kind), self._by_digest.setdefault(catalog.digest, catalog))

    def all(self) -> list[Catalog]:
        """Return what all callers were listed, of all kinds; each catalog once."""
        return list(self._by_digest.values())

    def forget(self) -> None:
        """Forget them all: components changed, so that each caller is listed anew when it is next asked."""
        self._catalogs.clear()


def weigh_catalog(key: tuple[str, ComponentKind], catalog: Catalog) -> int:
    """Return about how many bytes a caller's catalog takes, beside the entries that it shares."""
    return 500 + 8 * len(catalog)


_over: ContextVar[Event | None] = ContextVar("listing for graph and ranker", default=None)
"""Set when the listing is over: what it has started may outlive it, and see it in its context."""


@contextmanager
def introspecting() -> Iterator[None]:
    """List for graph and ranker in this block: what providers then tell of is in the listing."""
    over = Event()
    token = _over.set(over)
    try:
        yield
    finally:
        over.set()
        _over.reset(token)


def is_introspecting() -> bool:
    """Whether this is done by a listing for graph and ranker, which would only be started again by its own doing."""
    over = _over.get()
    return over is not None and not over.is_set()
