"""Who has which capabilities on: what anybody has is kept running, and what nobody has any more is not."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from agent_utilities.mcp.capabilities.leases import Leases


class Holders:
    """Counts the holders of each capability.

    Args:
        fixed: what is on for everybody, always.
        leases: what requests without a session hold.
    """

    def __init__(self, fixed: Iterable[str] = (), leases: Leases | None = None) -> None:
        self.fixed = frozenset(fixed)
        self.leases = leases or Leases()
        self._held: dict[Hashable, frozenset[str]] = {}

    def hold(self, holder: Hashable, names: Iterable[str]) -> None:
        """Have a holder hold these, and nothing else."""
        if held := frozenset(names):
            self._held[holder] = held
        else:
            self._held.pop(holder, None)

    def release(self, holder: Hashable) -> None:
        """Have a holder hold nothing."""
        self._held.pop(holder, None)

    @property
    def n_holders(self) -> int:
        """How many sessions hold anything."""
        return len(self._held)

    def names(self) -> frozenset[str]:
        """Return every capability that somebody holds."""
        return self.fixed.union(self.leases.names(), *self._held.values())
