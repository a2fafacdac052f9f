"""What tool search keeps of a session: its active set, changed by pure steps on what is active at that moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_utilities.activation.deferral import NOTHING_ACTIVE, Active, Change
from agent_utilities.mcp.sessions import Session
from agent_utilities.visibility.permitted import Permitted

KEY = "tool_search"
"""The name under which a session has it."""


@dataclass(frozen=True, slots=True)
class SessionSearch:
    """What is active in one session.

    Args:
        active: the active set.
        n_evicted: how many loaded tools have gone out for others so far.
        brought: the set that its requests bring, mostly the same with each.
    """

    active: Active = NOTHING_ACTIVE
    n_evicted: int = 0
    brought: Active = NOTHING_ACTIVE

    def after(self, change: Change) -> SessionSearch:
        """Return what there is after a step."""
        return replace(self, active=change.active, n_evicted=self.n_evicted + len(change.evicted))

    def adopting(self, brought: Active, permitted: Permitted) -> SessionSearch:
        """Take the set that a request brings: a session begins with it, one under way loads what is new in it."""
        if brought == self.brought:
            return self
        given = permitted.bounded(brought)
        if self.active == NOTHING_ACTIVE:
            return replace(self, brought=brought, active=given)
        new = [name for name in given.names if name not in self.active.names]
        return replace(self, brought=brought).after(permitted.load(self.active, new))


NO_SEARCH = SessionSearch()
"""Where every session begins."""


def kept(session: Session) -> SessionSearch:
    """Return what is kept of a session."""
    return session.get(KEY, NO_SEARCH)


def changed(session: Session, make: Callable[[Active], Change]) -> Change:
    """Change what is active in a session, and return what came of that.

    Args:
        make: returns what comes of what is active; it may be called again where another request was faster.
    """
    made: list[Change] = []

    def step(kept: SessionSearch) -> SessionSearch:
        made[:] = [make(kept.active)]
        return kept.after(made[0])

    session.update(KEY, NO_SEARCH, step)
    return made[0]
