"""The active set of one caller: kept for his session, or brought along by each of his requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass, field
from typing import Any

from agent_utilities.activation.active import NOTHING_ACTIVE, Active, Change, bounded, load, within
from agent_utilities.activation.deferral import Deferral
from agent_utilities.mcp.session_capabilities import SessionCapabilities
from agent_utilities.mcp.session_trail import SessionTrail


class SearchSession:
    """What is active in one session of the handshake era; it dies with its connection.

    Each change is one step without a turn of the event loop, on what is active at that moment: requests of one session
    run side by side.
    """

    def __init__(self) -> None:
        self.active = NOTHING_ACTIVE
        self.n_evicted = 0
        """How many loaded tools have gone out for others so far."""
        self._brought = NOTHING_ACTIVE

    def adopt(self, brought: Active, permitted: Container[str], deferral: Deferral, room: int | None) -> None:
        """Take the set that a request brings: a session begins with it, one under way loads what is new in it.

        Args:
            brought: the value of `active`; the same with every request, mostly.
            permitted: names that the caller may use and that are not pinned.
            deferral: how many may be active.
            room: the most names that the set may have; None for any number.
        """
        if brought == self._brought:
            return
        self._brought = brought
        given = bounded(within(brought, permitted), deferral, room)
        if self.active == NOTHING_ACTIVE:
            self.active = given
        else:
            self.take(
                load(self.active, [name for name in given.names if name not in self.active.names], deferral, room)
            )

    def take(self, change: Change) -> bool:
        """Take what came of a step; return whether the client's list changes by it."""
        self.active = change.active
        self.n_evicted += len(change.evicted)
        return bool(change.added or change.evicted)


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session as one of its requests knows it.

    Args:
        session: what is kept.
        tell_changed: tells the client that its list of tools changed, before the request is answered.
        trail: what it asked for and called.
        capabilities: those that it has on.
        note: takes note of what holds for it from now on, so that it is told of changes to what it is listed.
    """

    session: SearchSession
    tell_changed: Callable[[], Awaitable[None]]
    trail: SessionTrail = field(default_factory=SessionTrail)
    capabilities: SessionCapabilities = field(default_factory=SessionCapabilities)
    note: Callable[[Any], None] = lambda verdict: None
