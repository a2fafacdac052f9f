"""What one session has active, and where its last words led: changed by pure steps."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from agent_utilities.capabilities.model import NONE_ACTIVE, ActiveCapabilities, Route, enable, touch
from agent_utilities.capabilities.model import brought as brought_by

KEY = "capabilities"
"""The name under which a session has it."""


@dataclass(frozen=True, slots=True)
class SessionCapabilities:
    """The capabilities of one session; each method returns what there is after one more step.

    Args:
        active: what is active.
        words: the words that were routed last.
        route: where they led; None before any were routed.
        brought: the names that its requests bring, mostly the same with each.
    """

    active: ActiveCapabilities = NONE_ACTIVE
    words: str = ""
    route: Route | None = None
    brought: tuple[str, ...] = ()

    def adopting(self, names: Sequence[str], usable: Container[str], most: int) -> SessionCapabilities:
        """Take the names that a request brings: a session begins with them, one under way enables what is new in them.

        Args:
            names: the value of `capabilities`.
            usable: what there is for the caller; what is active and is not there any more is given up.
            most: the most that may be active.
        """
        active = self.active
        if any(name not in usable for name in active.names):
            active = ActiveCapabilities(tuple(name for name in active.names if name in usable))
        if (given := tuple(names)) == self.brought:
            return self if active is self.active else replace(self, active=active)
        for name in brought_by([name for name in given if name not in self.brought], usable, most).names:
            active = enable(active, name, most).active
        return replace(self, active=active, brought=given)

    def used(self, names: Container[str]) -> SessionCapabilities:
        """Count those of some capabilities that are active as used."""
        active = self.active
        for name in active.names:
            if name in names:
                active = touch(active, name)
        return self if active == self.active else replace(self, active=active)


NO_CAPABILITIES = SessionCapabilities()
"""Where every session begins."""
