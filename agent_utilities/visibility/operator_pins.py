"""Pins that the operator wrote, where components come from elsewhere and bear tags that others gave them."""

from __future__ import annotations

from dataclasses import replace

from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NameSet, Setting
from agent_utilities.visibility.names import matching
from agent_utilities.visibility.steps import finish


def bound_to_tags(effective: Effective, tags: frozenset[str]) -> Effective:
    """Return settings whose pins by the operator fit names, and of tags only some.

    A pin is a name or a tag. Whoever writes an upstream chooses its tags, so that a tag of his which is like a pin
    would have any of its tools shown in every list. What callers pin for themselves fits every tag.

    Args:
        effective: the settings that hold.
        tags: the tags that the operator gave, folded.
    """
    pins = tuple(_bound(setting, tags) if setting.side != "caller" else setting for setting in effective.pins)
    return replace(effective, pins=pins) if pins != effective.pins else effective


def _bound(setting: Setting, tags: frozenset[str]) -> Setting:
    names = setting.value
    if not isinstance(names, NameSet):
        return setting
    own = frozenset(finish(matching(names.toolsets, tags)))
    return replace(setting, value=NameSet(names.names | names.toolsets, own, names.everything))
