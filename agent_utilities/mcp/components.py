"""FastMCP components as catalog entries, and catalogs read cheaply from listings that rarely change."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

from fastmcp.prompts.base import Prompt
from fastmcp.resources.base import Resource
from fastmcp.resources.template import ResourceTemplate
from fastmcp.tools.base import Tool

from agent_utilities.catalog.model import Catalog, Entry, Kind, entry

Component = Tool | Prompt | Resource | ResourceTemplate

_SNAPSHOTS = 8


def entry_of(kind: Kind, component: Any, content: str = "") -> Entry:
    """Return the catalog entry of a FastMCP component, read afresh: what it bears now is what is judged."""
    if kind == "resource":
        return entry(kind, str(component.uri), tags=component.tags, aliases=[component.name], content=content)
    if kind == "template":
        return entry(kind, component.uri_template, tags=component.tags, aliases=[component.name], content=content)
    read_only = _read_only(component) if kind == "tool" else None
    return entry(kind, component.name, tags=component.tags, read_only=read_only, content=content)


def _read_only(tool: Any) -> bool:
    return tool.annotations is not None and tool.annotations.read_only_hint is True


class _Snapshot(NamedTuple):
    components: tuple[Any, ...]
    bearings: list[tuple[set[str], bool]]
    catalog: Catalog


class CatalogReader:
    """Turns listings of one kind into catalogs, again and again, for the price of a comparison.

    A server lists the same objects nearly every time; the catalog is made anew only where an object, a tag or a
    read-only hint differs from a listing seen before.

    Args:
        kind: the kind of component listed.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind
        self._snapshots: OrderedDict[tuple[int, ...], _Snapshot] = OrderedDict()
        self._last: Catalog | None = None

    def read(self, components: Sequence[Any]) -> Catalog:
        """Return the catalog of a listing, in its order."""
        key = tuple(map(id, components))
        snapshot = self._snapshots.get(key)
        if snapshot is None or snapshot.bearings != self._bearings(components):
            snapshot = self._snapshot(components)
            self._snapshots[key] = snapshot
            if len(self._snapshots) > _SNAPSHOTS:
                self._snapshots.popitem(last=False)
        self._last = snapshot.catalog
        return snapshot.catalog

    def _snapshot(self, components: Sequence[Any]) -> _Snapshot:
        catalog = Catalog(tuple(entry_of(self._kind, each, _content(self._kind, each)) for each in components))
        if self._last is not None and self._last.digest == catalog.digest:
            catalog = self._last
        bearings = [(set(tags), read_only) for tags, read_only in self._bearings(components)]
        return _Snapshot(tuple(components), bearings, catalog)

    def _bearings(self, components: Sequence[Any]) -> list[tuple[set[str], bool]]:
        if self._kind == "tool":
            return [(each.tags, _read_only(each)) for each in components]
        return [(each.tags, True) for each in components]


def _content(kind: Kind, component: Any) -> str:
    """Everything else that a caller sees of a component, as text that is the same in every process."""
    parts: list[Any] = [component.version, component.title, component.description]
    match kind:
        case "tool":
            annotations = component.annotations
            parts += [component.parameters, component.output_schema]
            parts += [annotations.model_dump(exclude_none=True) if annotations else None]
        case "prompt":
            parts += [[each.model_dump() for each in component.arguments or ()]]
        case "resource" | "template":
            parts += [component.name, component.mime_type]
    return json.dumps(parts, sort_keys=True, default=str)
