"""The tools that a router chooses from: definitions, which of them are listed, and what that costs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any

from agent_utilities.activation.deferral import Active, Deferral, bounded, fitting, within
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
from agent_utilities.catalog.entry_tools import EntryNames, call_definition, entry_names, search_definition
from agent_utilities.catalog.model import Catalog, Entry, entry
from agent_utilities.catalog.search_result import no_such_server
from agent_utilities.catalog.topics import DeferredTool, deferred_text
from agent_utilities.errors import InputError, SelectionError, SettingsError
from agent_utilities.router.formats import LegalNames
from agent_utilities.selection.channels import field_of
from agent_utilities.selection.merge import effective
from agent_utilities.selection.model import Selection, Setting, Slot, fold
from agent_utilities.selection.parse import read_value
from agent_utilities.visibility.curation import NO_PREFERENCES, Preferences, pinned, preferences_of

Definition = Mapping[str, Any]
"""A tool as `tools/list` sends it."""


@dataclass(frozen=True, eq=False)
class RoutedTools:
    """The tools of a router, in the order they were given, and which of them are listed.

    Args:
        definitions: by name.
        server: the server that they come from; empty where it is not known.
        preferences: pins, and when tools are deferred.
        host_tools: the names of the host's own tools.
    """

    definitions: Mapping[str, Definition]
    server: str = ""
    preferences: Preferences = NO_PREFERENCES
    host_tools: frozenset[str] = frozenset()

    @property
    def deferral(self) -> Deferral:
        """When tools are deferred, and how many of them may be active."""
        return self.preferences.deferral

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
    def _server_of(self) -> dict[str, str]:
        return dict(zip(self.names, self.servers, strict=True))

    @cached_property
    def documents(self) -> tuple[ToolDocument, ...]:
        """The tools as a ranker reads them."""
        return tuple(map(document, self.definitions.values(), self.servers))

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

    @cached_property
    def legal(self) -> LegalNames:
        """The names under which models know the tools; the host's own tools keep theirs."""
        return LegalNames(self.names, self.host_tools)

    @cached_property
    def entry(self) -> EntryNames:
        """The names of the entry tools, which no tool has, neither the host's nor these."""
        return entry_names({*self.names, *self.host_tools})

    # -- what is listed ----------------------------------------------------------------------------------------------

    @property
    def defers(self) -> bool:
        """Whether only pins and active tools are listed."""
        return self.deferral.defers(len(self.names))

    @cached_property
    def pinned(self) -> tuple[str, ...]:
        """The names that are never deferred, as far as a list has room for them."""
        return tuple(self.names[i] for i in pinned(range(len(self.names)), Catalog(self.entries), self.preferences))

    @cached_property
    def not_pinned(self) -> frozenset[str]:
        """The names that may be deferred and active."""
        return frozenset(self.names).difference(self.pinned)

    @property
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
            return self.names
        return (*self.pinned, *fitting(self.active(active), self.room, self.deferral.max_active))

    @cached_property
    def about_deferred(self) -> str:
        """What the model is told of the tools that may be deferred: the same whatever is active, for prompt caches.

        10,000 tools take 100 ms: make it in a thread where it may be that many.
        """
        deferred = [entry for entry in self.entries if entry.name in self.not_pinned]
        tools = [DeferredTool(each.name, self._server_of[each.name], tuple(sorted(each.tags))) for each in deferred]
        return deferred_text(tools, len(tools), search=self.entry.search)

    def given(self, active: Active) -> list[dict[str, Any]]:
        """Return what is listed, which a host may change: the entry tools as long as any tool is deferred, then tools.

        What a list has is never shared with another.
        """
        listed = takewhile(lambda tool: tool[0] != DEFERRED, self._in_sections(active))
        return [_copied(definition) for _, _, definition in listed]

    def context(self, active: Active) -> ContextReport:
        """Return a report of what is listed, and of what is deferred."""
        return context_report(list(self._in_sections(active)), "", max_active=self.deferral.max_active)

    def _in_sections(self, active: Active) -> Iterator[SectionTool]:
        """Yield each tool with its section and server, in the order of the list, and after it the deferred ones."""
        listed, loaded = dict.fromkeys(self.listed(active)), frozenset(self.active(active).loaded)
        if len(listed) < len(self.names):
            yield ENTRY_TOOLS, self.server, search_definition(self.entry, self.about_deferred)
            yield ENTRY_TOOLS, self.server, call_definition(self.entry)
        for name in listed:
            section = ACTIVE if name in loaded else ATTACHED if name in self.not_pinned else PINS
            yield section if self.defers else LISTED, self._server_of[name], self.definitions[name]
        for name in self.names:
            if name not in listed:
                yield DEFERRED, self._server_of[name], self.definitions[name]


def routed_tools(
    tools: Iterable[Any],
    server: str = "",
    *,
    preferences: Preferences = NO_PREFERENCES,
    host_tools: frozenset[str] = frozenset(),
) -> RoutedTools:
    """Return the tools given, each name once.

    Raises:
        InputError: one of them is no tool.
    """
    definitions: dict[str, Definition] = {}
    for tool in tools:
        definition = _definition(tool)
        definitions.setdefault(definition["name"], definition)
    return RoutedTools(definitions, server, preferences, host_tools)


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
    tags: Any = definition
    for key in ("_meta", "fastmcp", "tags"):
        tags = tags.get(key) if isinstance(tags, Mapping) else None
    return tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, (list, tuple)) else ()


def _prefix(tool: Entry) -> str:
    """Return the longest of a tool's tags that its name begins with; empty where it begins with none."""
    name = fold(tool.name)
    return max((tag for tag in tool.tags if name.startswith(f"{tag}_")), key=len, default="")


def preferences_given(*, pins: Collection[str] | str, **given: Active | str | int | None) -> Preferences:
    """Return the preferences in a router's arguments: its pins, when tools are deferred, and the set to start with.

    Raises:
        SettingsError: one of them can't be meant.
    """
    texts = {"pin": pins if isinstance(pins, str) else ",".join(pins), **given}
    settings: list[tuple[Slot, Setting]] = []
    for key, text in texts.items():
        field = field_of(key, "meta")
        assert field is not None, key
        source = f"ToolRouter: {'pins' if key == 'pin' else key}"
        try:
            value = text if isinstance(text, Active | None) else read_value(str(text), field, key, source)
        except SelectionError as error:
            raise SettingsError(error.what, error.value, source, error.hint) from None
        if value is not None:
            settings.append(((field.name, "meta"), Setting(value, (source,), "caller")))
    return preferences_of(effective(Selection(tuple(settings))))
