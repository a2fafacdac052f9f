"""Who has which capabilities on: what anybody has is kept running, and what nobody has any more is not."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable

LEASE_S = 600.0
"""Seconds after its last request that a set is kept."""
MOST = 16
"""The most capabilities that are kept in all: whoever goes through every set starts no more servers at once."""


class Leases:
    """Sets of capabilities that requests brought, each with the moment of its last request.

    Args:
        lease_s: seconds that a set is kept after its last request.
        most: the most capabilities that are kept in all; the sets that were asked for longest ago go first. The newest
            is kept whatever it has.
        clock: seconds, never going back.
    """

    def __init__(self, lease_s: float = LEASE_S, most: int = MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease_s, self._most, self._clock = lease_s, most, clock
        self._sets: OrderedDict[frozenset[str], float] = OrderedDict()

    def renew(self, before: frozenset[str], after: frozenset[str]) -> None:
        """Take note of a request.

        A caller that was told another set brings that from now on: what he brought before is kept for nobody. Where
        others still bring it, their next request has it kept again.

        Args:
            before: what it brought.
            after: what is active for it.
        """
        if before != after:
            self._sets.pop(before, None)
        if after:
            self._sets[after] = self._clock()
            self._sets.move_to_end(after)
        while len(self._sets) > 1 and len(frozenset().union(*self._sets)) > self._most:
            self._sets.popitem(last=False)

    def names(self) -> frozenset[str]:
        """Return what is kept now."""
        ends = self._clock() - self._lease_s
        while self._sets and next(iter(self._sets.values())) <= ends:
            self._sets.popitem(last=False)
        return frozenset().union(*self._sets)


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
