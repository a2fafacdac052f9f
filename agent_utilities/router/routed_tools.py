"""Which of a router's tools are listed, and which deferred: pure, from the settings and the active set."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agent_utilities.activation.active import Active, bounded, fitting, within
from agent_utilities.activation.deferral import Deferral
from agent_utilities.catalog.entry_names import EntryNames, entry_names
from agent_utilities.catalog.entry_texts import call_definition, search_definition
from agent_utilities.catalog.topics import DeferredTool, deferred_text
from agent_utilities.router.formats import LegalNames
from agent_utilities.router.known_tools import KnownTools
from agent_utilities.router.settings import RouterSettings
from agent_utilities.selection.model import NO_NAMES
from agent_utilities.visibility.names import name_matcher


@dataclass(frozen=True, eq=False)
class RoutedTools:
    """A router's tools under its settings.

    Args:
        known: all of them.
        settings: the router's.
    """

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
    def told(self) -> str:
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
        return [search_definition(self.entry, self.told), call_definition(self.entry)]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.known.names)}

    def place_of(self, name: str) -> int:
        """Return the place of a tool among all."""
        return self._places[name]

    @property
    def defers(self) -> bool:
        """Whether only pins and active tools are listed."""
        return self.deferral.defers(len(self.known.names))

    @cached_property
    def pinned(self) -> tuple[str, ...]:
        """The names that are never deferred, as far as a list has room for them."""
        if self.settings.pins == NO_NAMES:
            return ()
        matches = name_matcher(self.settings.pins)
        return tuple(entry.name for entry in self.known.entries if matches(entry))[: self.deferral.room(0)]

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
