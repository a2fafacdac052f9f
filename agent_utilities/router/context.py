"""What a router's tools cost in a prompt."""

from __future__ import annotations

from collections.abc import Iterator

from agent_utilities.activation.active import Active
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
from agent_utilities.router.routed_tools import RoutedTools


def context_of(routed: RoutedTools, active: Active) -> ContextReport:
    """Return a report of what is listed, and of what is deferred.

    Args:
        routed: the tools.
        active: what is active of them.
    """
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
