"""Which section of the context report each permitted tool is in."""

from __future__ import annotations

from agent_utilities.catalog.context import ACTIVE, ATTACHED, DEFERRED, LISTED, PINS
from agent_utilities.visibility.curation import active_after, pinned
from agent_utilities.visibility.decision import Decision


def sections_of(decision: Decision) -> dict[str, str]:
    """Return the section of each permitted name; what is denied has none.

    Args:
        decision: what a caller is listed.
    """
    entries, visible = decision.catalog.entries, decision.visible_names
    sections = {name: LISTED if name in visible else DEFERRED for name in decision.permitted_names}
    if decision.defers:
        considered = decision.permitted, decision.catalog, decision.preferences
        pins = {entries[i].name for i in pinned(*considered)}
        loaded = frozenset(active_after(*considered).loaded)
        for name in visible:
            sections[name] = PINS if name in pins else ACTIVE if name in loaded else ATTACHED
    return sections
