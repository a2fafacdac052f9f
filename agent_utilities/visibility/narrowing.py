"""What is taken away from what operator and caller permit, beside anything that either says: it can add nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NameSet, Setting, fold


@dataclass(frozen=True)
class Narrowing:
    """What a feature takes away from what operator and caller permit; all of it holds beside theirs (law L3).

    Args:
        origin: where it comes from, as `explain` tells it.
        allow_tools, allow_tags: names of which a component needs one; None for no list. `*` stands for any characters.
        deny_tools, deny_tags: names of which a component may have none.
        read_only: whether only components annotated `readOnlyHint: true` are left.
        capabilities: of components that come with a capability, those whose capability is here are left; None for all.
    """

    origin: str
    allow_tools: frozenset[str] | None = None
    allow_tags: frozenset[str] | None = None
    deny_tools: frozenset[str] = frozenset()
    deny_tags: frozenset[str] = frozenset()
    read_only: bool = False
    capabilities: frozenset[str] | None = None

    def narrowed(self, effective: Effective) -> Effective:
        """Return the settings that hold once this holds beside them."""
        changes: dict[str, Any] = {}
        if self.allow_tools is not None:
            changes["allow_tools"] = (*effective.allow_tools, self._setting(self.allow_tools))
        if self.allow_tags is not None:
            changes["allow_tags"] = (*effective.allow_tags, self._setting(self.allow_tags))
        if self.deny_tools:
            changes["deny_tools"] = (*effective.deny_tools, self._setting(self.deny_tools, of_toolsets=True))
        if self.deny_tags:
            changes["deny_tags"] = (*effective.deny_tags, self._setting(self.deny_tags))
        if self.read_only and effective.read_only is None:
            changes["read_only"] = Setting(True, (self.origin,))
        if (active := self.capabilities) is not None:
            changes["capabilities"] = active if effective.capabilities is None else active & effective.capabilities
        return replace(effective, **changes) if changes else effective

    def _setting(self, names: frozenset[str], *, of_toolsets: bool = False) -> Setting:
        """Return a list of names as a setting; one of globs alone names no toolset."""
        folded = frozenset(map(fold, names))
        toolsets = frozenset(name for name in folded if "*" not in name) if of_toolsets else frozenset[str]()
        return Setting(NameSet(folded - toolsets, toolsets), (self.origin,))


Narrowings = tuple[Narrowing, ...]
"""What several features take away; all of it holds."""
