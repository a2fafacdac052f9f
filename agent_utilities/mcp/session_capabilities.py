"""What one session has active, and where its last words led; it dies with its connection."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence
from copy import copy

from agent_utilities.capabilities.active import (
    NONE_ACTIVE,
    ActiveCapabilities,
    CapabilityChange,
    enable,
    touch,
)
from agent_utilities.capabilities.active import (
    brought as brought_by,
)
from agent_utilities.capabilities.routing import Route


class SessionCapabilities:
    """The capabilities of one session of the handshake era.

    Each change is one step without a turn of the event loop, on what is active at that moment: requests of one session
    run side by side.
    """

    def __init__(self) -> None:
        self.active = NONE_ACTIVE
        self.words = ""
        """The words that were routed last."""
        self.route: Route | None = None
        """Where they led; None before any were routed."""
        self.is_over = False
        """Whether its connection has ended, so that nothing is started for it any more."""
        self.routing = asyncio.Lock()
        """Held while words are routed, so that the same words of two requests are routed once."""
        self._brought: tuple[str, ...] = ()

    def detached(self) -> SessionCapabilities:
        """Return what a report goes by: the same as it is now, for which nothing is kept running."""
        other = copy(self)
        other.is_over = True
        return other

    def adopt(self, names: Sequence[str], usable: Container[str], most: int) -> None:
        """Take the names that a request brings: a session begins with them, one under way enables what is new in them.

        Args:
            names: the value of `capabilities`; the same with every request, mostly.
            usable: what there is for the caller.
            most: the most that may be active.
        """
        given = tuple(names)
        if given == self._brought:
            return
        before, self._brought = self._brought, given
        for name in brought_by([name for name in given if name not in before], usable, most).names:
            self.active = enable(self.active, name, most).active

    def take(self, change: CapabilityChange) -> bool:
        """Take what came of a step; return whether anything came or went."""
        self.active = change.active
        return bool(change.added or change.removed)

    def used(self, names: Container[str]) -> None:
        """Count those of some capabilities that are active as used."""
        for name in self.active.names:
            if name in names:
                self.active = touch(self.active, name)

    def keep(self, usable: Container[str]) -> None:
        """Give up what there is no more, or no more for the caller."""
        if any(name not in usable for name in self.active.names):
            self.active = ActiveCapabilities(tuple(name for name in self.active.names if name in usable))
