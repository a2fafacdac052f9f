"""FastMCP components as catalog entries, and catalogs read cheaply from listings that rarely change."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fastmcp.prompts.base import Prompt
from fastmcp.resources.base import Resource
from fastmcp.resources.template import ResourceTemplate
from fastmcp.tools.base import Tool
from pydantic import BaseModel

from agent_utilities.catalog.model import Catalog, ComponentKind, Entry, entry
from agent_utilities.runtime.turns import in_turns

Component = Tool | Prompt | Resource | ResourceTemplate

Row = tuple[tuple[Any, ...], Entry]
"""A component's traits and its entry."""

_SNAPSHOTS = 4


def entry_of(kind: ComponentKind, component: Any, content: str = "") -> Entry:
    """Return the catalog entry of a FastMCP component, read afresh: what it bears now is what is judged."""
    name, read_only = component.name, None
    aliases: tuple[str, ...] = ()
    if kind == "tool":
        read_only = _read_only(component)
    elif kind == "resource":
        name, aliases = str(component.uri), (component.name,)
    elif kind == "template":
        name, aliases = component.uri_template, (component.name,)
    return entry(
        kind,
        name,
        tags=component.tags,
        read_only=read_only,
        aliases=aliases,
        content=content,
        version=component.version,
        is_guarded=component.auth is not None,
    )


def _read_only(tool: Any) -> bool:
    return tool.annotations is not None and tool.annotations.read_only_hint is True


class Snapshot(NamedTuple):
    """A listing as it was read.

    Args:
        components: the objects listed, held so that their identities stay theirs.
        traits: what the catalog was made of, by component.
        catalog: the catalog.
        is_guarded: whether any component has an `auth` check of its own.
    """

    components: tuple[Any, ...]
    traits: list[tuple[Any, ...]]
    catalog: Catalog
    is_guarded: bool


class CatalogReader:
    """Turns listings of one kind into catalogs, again and again, for the price of a comparison.

    A server lists the same objects nearly every time, and a mounted one equal copies of them; a catalog is made anew
    only where something differs from a listing seen before.

    Args:
        kind: the kind of component listed.
    """

    def __init__(self, kind: ComponentKind) -> None:
        self._kind: ComponentKind = kind
        self._snapshots: OrderedDict[tuple[int, ...], Snapshot] = OrderedDict()
        self._last: tuple[tuple[int, ...], Snapshot] | None = None
        self._rows: dict[tuple[Any, ...], Row] = {}
        self._preparing: asyncio.Event | None = None

    def read(self, components: Sequence[Any]) -> Snapshot:
        """Return the snapshot of a listing, its catalog in the listing's order."""
        return self._known(components) or self.renew(components)

    def _known(self, components: Sequence[Any]) -> Snapshot | None:
        key = tuple(map(id, components))
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        return self._snapshots.get(key)

    async def prepare(self, components: Sequence[Any]) -> None:
        """Read a long listing in turns with the event loop, so that `read` knows it (law L7)."""
        while self._known(components) is None:
            if self._preparing is not None:
                await self._preparing.wait()
                continue
            done = self._preparing = asyncio.Event()
            try:
                self._keep(components, [self._row(each) async for each in in_turns(components)])
            finally:
                self._preparing = None
                done.set()

    def renew(self, components: Sequence[Any]) -> Snapshot:
        """Return the snapshot of a listing, every component looked at."""
        return self._keep(components, list(map(self._row, components)))

    def _row(self, component: Any) -> Row:
        """Return a component's traits and entry; those it was read with before, where they are the same."""
        traits = _traits(self._kind, component)
        name = traits[3:5]
        row = self._rows.get(name)
        if row is None or row[0] != traits:
            row = self._rows[name] = traits, entry_of(self._kind, component, _content(traits))
        return row

    def _keep(self, components: Sequence[Any], rows: Sequence[Row]) -> Snapshot:
        key, traits = tuple(map(id, components)), [row[0] for row in rows]
        snapshot = next((each for each in reversed(self._snapshots.values()) if each.traits == traits), None)
        if snapshot is not None:
            snapshot = snapshot._replace(components=tuple(components))
        else:
            catalog = Catalog(tuple(row[1] for row in rows))
            is_guarded = any(each.auth is not None for each in components)
            snapshot = Snapshot(tuple(components), traits, catalog, is_guarded)
            self._snapshots.pop(key, None)
            self._snapshots[key] = snapshot
            if len(self._snapshots) > _SNAPSHOTS:
                self._snapshots.popitem(last=False)
        self._last = key, snapshot
        if len(self._rows) > 2 * len(rows) + _SNAPSHOTS:
            self._rows = {row[0][3:5]: row for row in rows}
        return snapshot

    def holds(self, snapshot: Snapshot, components: Sequence[Any], indexes: Iterable[int]) -> bool:
        """Whether components still bear the tags and the hint they were read with."""
        return all(_bearing(self._kind, components[i]) == snapshot.traits[i][:3] for i in indexes)


def _bearing(kind: ComponentKind, component: Any) -> tuple[Any, ...]:
    """What a bound judges: tags, read-only hint, and whether an `auth` check is there."""
    return frozenset(component.tags), kind != "tool" or _read_only(component), component.auth is not None


def _traits(kind: ComponentKind, component: Any) -> tuple[Any, ...]:
    """All that a caller sees of a component and all that is judged, to be compared and digested."""
    kept = (*_bearing(kind, component), component.name, component.version, component.title, component.description)
    match kind:
        case "tool":
            return (*kept, component.annotations, component.parameters, component.output_schema)
        case "prompt":
            return (*kept, component.arguments)
        case "resource":
            return (*kept, str(component.uri), component.mime_type)
        case "template":
            return (*kept, component.uri_template, component.mime_type)


def _content(traits: tuple[Any, ...]) -> str:
    """Return traits as text that is the same in every process; tags and hint are the entry's own."""
    return _ENCODER.encode(traits[3:])


def _plain(value: Any) -> Any:
    return value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else str(value)


_ENCODER = json.JSONEncoder(sort_keys=True, check_circular=False, default=_plain)
"""Made once: to make one takes as long as to write a small component."""
