"""FastMCP components as catalog entries, and catalogs read cheaply from listings that rarely change."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fastmcp.prompts.base import Prompt
from fastmcp.resources.base import Resource
from fastmcp.resources.template import ResourceTemplate
from fastmcp.tools.base import Tool
from pydantic import BaseModel

from agent_utilities.catalog.model import Catalog, Entry, Kind, entry

Component = Tool | Prompt | Resource | ResourceTemplate

_SNAPSHOTS = 4


def entry_of(kind: Kind, component: Any, content: str = "") -> Entry:
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

    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind
        self._snapshots: OrderedDict[tuple[int, ...], Snapshot] = OrderedDict()

    def read(self, components: Sequence[Any]) -> Snapshot:
        """Return the snapshot of a listing, its catalog in the listing's order."""
        snapshot = self._snapshots.get(tuple(map(id, components)))
        return self.renew(components) if snapshot is None else snapshot

    def renew(self, components: Sequence[Any]) -> Snapshot:
        """Return the snapshot of a listing, every component looked at."""
        traits = [_traits(self._kind, each) for each in components]
        for snapshot in reversed(self._snapshots.values()):
            if snapshot.traits == traits:
                return snapshot
        catalog = Catalog(
            tuple(entry_of(self._kind, each, _content(kept)) for each, kept in zip(components, traits, strict=True))
        )
        is_guarded = any(each.auth is not None for each in components)
        snapshot = Snapshot(tuple(components), traits, catalog, is_guarded)
        key = tuple(map(id, components))
        self._snapshots.pop(key, None)
        self._snapshots[key] = snapshot
        if len(self._snapshots) > _SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return snapshot

    def holds(self, snapshot: Snapshot, components: Sequence[Any], indexes: Iterable[int]) -> bool:
        """Whether components still bear the tags and the hint they were read with."""
        return all(_bearing(self._kind, components[i]) == snapshot.traits[i][:3] for i in indexes)


def _bearing(kind: Kind, component: Any) -> tuple[Any, ...]:
    """What a bound judges: tags, read-only hint, and whether an `auth` check is there."""
    return frozenset(component.tags), kind != "tool" or _read_only(component), component.auth is not None


def _traits(kind: Kind, component: Any) -> tuple[Any, ...]:
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
    return json.dumps(traits[3:], sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    return value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else str(value)
