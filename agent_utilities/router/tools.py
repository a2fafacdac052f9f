"""The tools that a router chooses from: definitions, which of them are listed, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agent_utilities.activation.active import Active, Deferral, bounded, fitting, within
from agent_utilities.catalog.context import (
    ACTIVE,
    ATTACHED,
    DEFERRED,
    ENTRY_TOOLS,
    LISTED,
    PINS,
    ContextReport,
    SectionTool,
    context_report,
)
from agent_utilities.catalog.document import ToolDocument, document
from agent_utilities.catalog.entry_tools import (
    EntryNames,
    call_definition,
    entry_names,
    search_definition,
)
from agent_utilities.catalog.model import Catalog, Entry, entry
from agent_utilities.catalog.search_result import no_such_server
from agent_utilities.catalog.topics import DeferredTool, deferred_text
from agent_utilities.errors import InputError
from agent_utilities.router.formats import LegalNames
from agent_utilities.router.settings import RouterSettings
from agent_utilities.selection.model import fold
from agent_utilities.visibility.curation import Preferences, pinned

Definition = Mapping[str, Any]
"""A tool as `tools/list` sends it."""


@dataclass(frozen=True, eq=False)
class KnownTools:
    """The tools of a router, in the order they were given.

    Args:
        definitions: by name.
        server: the server that they come from; empty where it is not known.
    """

    definitions: Mapping[str, Definition]
    server: str = ""

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The tools as pins and servers are matched with them."""
        return tuple(entry("tool", name, tags=_tags(definition)) for name, definition in self.definitions.items())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.definitions)

    @cached_property
    def servers(self) -> tuple[str, ...]:
        """The server of each tool, in the tools' order.

        A gateway's upstreams are tags, and its tools' names begin with them: where every tool's does, that is its
        server. Else all are from the one that lists them.
        """
        prefixes = tuple(map(_prefix, self.entries))
        return prefixes if all(prefixes) else (self.server,) * len(prefixes)

    @cached_property
    def documents(self) -> tuple[ToolDocument, ...]:
        """The tools as a ranker reads them."""
        return tuple(
            document(definition, server)
            for definition, server in zip(self.definitions.values(), self.servers, strict=True)
        )

    def of_server(self, server: str) -> tuple[int, ...]:
        """Return the places of the tools of a server, or of those that bear a tag of that name.

        Raises:
            InputError: no tool is of such a server, or has such a tag.
        """
        wanted = fold(server)
        if wanted == fold(self.server):
            return tuple(range(len(self.names)))
        if not (places := tuple(place for place, each in enumerate(self.entries) if wanted in each.tags)):
            tags = {tag for each in self.entries for tag in each.tags}
            raise no_such_server(server, {*self.servers, *tags} - {""})
        return places

    def copies(self, names: Iterable[str]) -> list[dict[str, Any]]:
        """Return definitions that a host may change without changing these."""
        return [_copied(self.definitions[name]) for name in names]


def known_tools(tools: Iterable[Any], server: str = "") -> KnownTools:
    """Return the tools given, each name once.

    Raises:
        InputError: one of them is no tool.
    """
    definitions: dict[str, Definition] = {}
    for tool in tools:
        definition = _definition(tool)
        definitions.setdefault(definition["name"], definition)
    return KnownTools(definitions, server)


def _definition(tool: Any) -> Definition:
    if hasattr(tool, "to_mcp_tool"):
        tool = tool.to_mcp_tool()
    if hasattr(tool, "model_dump"):
        tool = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    elif isinstance(tool, Mapping):
        # Whoever gave it may go on changing it.
        tool = _copied(tool)
    name = tool.get("name") if isinstance(tool, dict) else None
    if not isinstance(name, str) or not name:
        hint = "give Tool objects, or mappings with name, description and inputSchema"
        raise InputError("not a tool with a name", tool, "ToolRouter: tools", hint)
    if not isinstance(tool.get("inputSchema"), Mapping):
        tool["inputSchema"] = {"type": "object", "properties": {}}
    definition: Definition = tool
    return definition


def _copied(value: Any) -> Any:
    """Return JSON with objects and arrays of its own, in a quarter of the time that `deepcopy` takes."""
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, (list, tuple)) else value


def _tags(definition: Definition) -> tuple[str, ...]:
    meta = definition.get("_meta")
    host = meta.get("fastmcp") if isinstance(meta, Mapping) else None
    tags = host.get("tags") if isinstance(host, Mapping) else None
    return tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, (list, tuple)) else ()


def _prefix(tool: Entry) -> str:
    """Return the longest of a tool's tags that its name begins with; empty where it begins with none."""
    name = fold(tool.name)
    return max((tag for tag in tool.tags if name.startswith(f"{tag}_")), key=len, default="")


@dataclass(frozen=True, eq=False)
class RoutedTools:
    """A router's tools under its settings."""

    known: KnownTools
    settings: RouterSettings

    @property
    def deferral(self) -> Deferral:
        """When tools are deferred, and how many of them may be active."""
        return self.settings.deferral

    @cached_property
    def legal(self) -> LegalNames:
        """The names under which models know the tools; the host's own tools keep theirs."""
        return LegalNames(self.known.names, self.settings.host_tools)

    @cached_property
    def entry(self) -> EntryNames:
        """The names of the entry tools, which no tool has, neither the host's nor these."""
        return entry_names(frozenset(self.known.names) | self.settings.host_tools)

    @cached_property
    def about_deferred(self) -> str:
        """What the model is told of the tools that may be deferred: the same whatever is active, for prompt caches.

        10,000 tools take 100 ms: make it in a thread where it may be that many.
        """
        tools = [
            DeferredTool(entry.name, server, tuple(sorted(entry.tags)))
            for entry, server in zip(self.known.entries, self.known.servers, strict=True)
            if entry.name in self.not_pinned
        ]
        return deferred_text(tools, len(tools), search=self.entry.search)

    def entry_definitions(self, active: Active) -> list[dict[str, Any]]:
        """Return the entry tools, as long as any tool is deferred."""
        if not self.n_deferred(active):
            return []
        return [search_definition(self.entry, self.about_deferred), call_definition(self.entry)]

    @property
    def defers(self) -> bool:
        """Whether only pins and active tools are listed."""
        return self.deferral.defers(len(self.known.names))

    @cached_property
    def pinned(self) -> tuple[str, ...]:
        """The names that are never deferred, as far as a list has room for them."""
        entries, preferences = self.known.entries, Preferences(pins=self.settings.pins, deferral=self.deferral)
        return tuple(entries[i].name for i in pinned(range(len(entries)), Catalog(entries), preferences))

    @cached_property
    def not_pinned(self) -> frozenset[str]:
        """The names that may be deferred and active."""
        return frozenset(self.known.names).difference(self.pinned)

    @cached_property
    def room(self) -> int | None:
        """The most names that may be active; None for any number."""
        return self.deferral.room(len(self.pinned))

    def active(self, active: Active) -> Active:
        """Return a set without names that these tools have not (any more), or that are pinned, and no more than may be.

        One that somebody brought may hold more than steps would make.
        """
        return bounded(within(active, self.not_pinned), self.deferral, self.room)

    def listed(self, active: Active) -> tuple[str, ...]:
        """Return the names of what is listed beside the entry tools: pins, then active tools as they came."""
        if not self.defers:
            return self.known.names
        return (*self.pinned, *fitting(self.active(active), self.room, self.deferral.max_active))

    def deferred(self, active: Active) -> tuple[str, ...]:
        """Return the names of what is not listed, in the tools' order."""
        listed = frozenset(self.listed(active))
        return tuple(name for name in self.known.names if name not in listed)

    def n_deferred(self, active: Active) -> int:
        """Return how many tools are not listed."""
        return len(self.known.names) - len(self.listed(active))


def context_of(routed: RoutedTools, active: Active) -> ContextReport:
    """Return a report of what is listed, and of what is deferred."""
    return context_report(list(_in_sections(routed, active)), "", max_active=routed.deferral.max_active)


def _in_sections(routed: RoutedTools, active: Active) -> Iterator[SectionTool]:
    """Yield each tool with its section and server, in the order of the list, and after it the deferred ones."""
    known, present = routed.known, routed.active(active)
    servers = dict(zip(known.names, known.servers, strict=True))
    pinned, loaded = frozenset(routed.pinned), frozenset(present.loaded)
    for definition in routed.entry_definitions(active):
        yield ENTRY_TOOLS, known.server, definition
    for name in routed.listed(active):
        section = LISTED if not routed.defers else PINS if name in pinned else ACTIVE if name in loaded else ATTACHED
        yield section, servers[name], known.definitions[name]
    for name in routed.deferred(active):
        yield DEFERRED, servers[name], known.definitions[name]
