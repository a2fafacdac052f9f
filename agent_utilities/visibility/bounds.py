"""Bounds: which components a caller may list, search and call, and the rule that refuses each other one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from agent_utilities.catalog.model import Entry
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NameSet, Setting
from agent_utilities.visibility.names import name_matcher, tag_matcher

RuleName = Literal["denied_tool", "denied_tag", "not_read_only", "not_allowed_tool", "not_allowed_tag"]

_TEXT: dict[RuleName, str] = {
    "denied_tool": "denied by name",
    "denied_tag": "denied by tag",
    "not_read_only": "not annotated readOnlyHint: true",
    "not_allowed_tool": "not among the allowed tools",
    "not_allowed_tag": "bears none of the allowed tags",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One bound: `refuses` answers whether it keeps a component from the caller.

    Args:
        name: which kind of bound.
        setting: the setting it enforces, with its side and origins.
        refuses: pure and total over entries.
    """

    name: RuleName
    setting: Setting
    refuses: Callable[[Entry], bool]

    @property
    def text(self) -> str:
        """What a person reads: the rule and where it was set."""
        return f"{_TEXT[self.name]} ({', '.join(self.setting.origins)})"


class Bounds:
    """The rules of one effective selection; a component is permitted when none refuses it (laws L2, L3).

    Args:
        effective: the settings that hold.
    """

    def __init__(self, effective: Effective) -> None:
        rules: list[Rule] = []
        for setting in effective.deny_tools:
            rules.append(Rule("denied_tool", setting, name_matcher(_names(setting))))
        for setting in effective.deny_tags:
            rules.append(Rule("denied_tag", setting, tag_matcher(_names(setting))))
        if effective.read_only is not None:
            rules.append(Rule("not_read_only", effective.read_only, lambda entry: not entry.read_only))
        for setting in effective.allow_tools:
            if not (names := _names(setting)).everything:
                rules.append(Rule("not_allowed_tool", setting, _not(name_matcher(names))))
        for setting in effective.allow_tags:
            if not (names := _names(setting)).everything:
                rules.append(Rule("not_allowed_tag", setting, _not(tag_matcher(names))))
        # The operator's rules come first, so that a refusal on the caller's side tells nothing of the operator's.
        self.rules = tuple(sorted(rules, key=lambda rule: rule.setting.side != "operator"))

    def refusal(self, entry: Entry) -> Rule | None:
        """Return the first rule that refuses an entry, the operator's first, or None where it is permitted."""
        for rule in self.rules:
            if rule.refuses(entry):
                return rule
        return None


def _names(setting: Setting) -> NameSet:
    assert isinstance(setting.value, NameSet)
    return setting.value


def _not(matches: Callable[[Entry], bool]) -> Callable[[Entry], bool]:
    return lambda entry: not matches(entry)
