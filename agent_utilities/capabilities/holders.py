"""Who has which capabilities on: what anybody has is kept running, and what nobody has any more is not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

LEASE_S = 600.0
"""Seconds that a set which requests bring is kept after the last of them."""
MOST = 16
"""The most capabilities that requests keep in all: whoever goes through every set starts no more servers at once.

The sets asked for longest ago go first; the newest is kept whatever it has.
"""


class Holders:
    """What everybody, each session, and requests without a session have on.

    Args:
        fixed: what is on for everybody, always.
        clock: seconds, never going back.
    """

    def __init__(self, fixed: Iterable[str] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._fixed, self._clock = frozenset(fixed), clock
        self._sessions: dict[str, frozenset[str]] = {}
        self._leases: dict[frozenset[str], float] = {}
        """Sets that requests brought, each with the moment of its last request, which they are in the order of."""

    def hold(self, session: str, names: Iterable[str]) -> None:
        """Have a session hold these, and nothing else."""
        self._sessions.pop(session, None)
        if held := frozenset(names):
            self._sessions[session] = held

    def lease(self, names: Iterable[str], instead_of: Iterable[str] = ()) -> None:
        """Take note of a request without a session, for which these are active.

        Args:
            names: what is active for it.
            instead_of: what it brought, where that was another set: its caller brings the new one from now on. Where
                others still bring the old one, their next request has it kept again.
        """
        self._leases.pop(frozenset(instead_of), None)
        if leased := frozenset(names):
            self._leases.pop(leased, None)
            self._leases[leased] = self._clock()
        while len(self._leases) > 1 and len(frozenset().union(*self._leases)) > MOST:
            del self._leases[next(iter(self._leases))]

    @property
    def n_sessions(self) -> int:
        """How many sessions hold anything."""
        return len(self._sessions)

    def names(self) -> frozenset[str]:
        """Return every capability that somebody has on."""
        since_s = self._clock() - LEASE_S
        self._leases = {names: last_s for names, last_s in self._leases.items() if last_s > since_s}
        return self._fixed.union(*self._leases, *self._sessions.values())
