"""Which section of the context report each permitted tool is in."""

from __future__ import annotations

from agent_utilities.catalog.context import ACTIVE, ATTACHED, DEFERRED, LISTED, PINS
from agent_utilities.visibility.decision import Decision
from agent_utilities.visibility.names import name_matcher


def sections_of(decision: Decision) -> dict[str, str]:
    """Return the section of each permitted name; what is denied has none.

    Args:
        decision: what a caller is listed.
    """
    entries, visible = decision.catalog.entries, decision.visible_names
    sections = {name: LISTED if name in visible else DEFERRED for name in decision.permitted_names}
    if decision.defers:
        is_pinned = name_matcher(decision.preferences.pins)
        pinned = {entries[i].name for i in decision.visible if is_pinned(entries[i])}
        loaded = frozenset(decision.preferences.active.loaded)
        for name in visible:
            sections[name] = PINS if name in pinned else ACTIVE if name in loaded else ATTACHED
    return sections
