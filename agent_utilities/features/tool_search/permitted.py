"""What a caller may use, as tool search needs to know it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property

from agent_utilities.activation.deferral import Deferral
from agent_utilities.mcp.agent_server import AgentServer
from agent_utilities.mcp.answers import cuts_lists, past_middleware
from agent_utilities.mcp.surface.surface import Verdict
from agent_utilities.selection.model import Resolution
from agent_utilities.visibility.curation import Preferences, pinned
from agent_utilities.visibility.decision import Decision

logger = logging.getLogger("agent_utilities.wire")


@dataclass(frozen=True, eq=False)
class Permitted:
    """The tools that are permitted to one caller, whatever is shown of them.

    Args:
        decision: on what they were last listed, no preference read.
        preferences: theirs.
        unlisted: permitted names that the author's middleware keeps off lists: search tells nothing of them either.
    """

    decision: Decision
    preferences: Preferences
    unlisted: frozenset[str] = frozenset()

    @property
    def deferral(self) -> Deferral:
        """When tools are deferred for them."""
        return self.preferences.deferral

    @property
    def defers(self) -> bool:
        """Whether they are, in every list."""
        return self.deferral.defers(self._n_told)

    @property
    def may_defer(self) -> bool:
        """Whether they are in any list: then entry tools answer on every request."""
        return self.deferral.may_defer(self._n_told)

    @property
    def _n_told(self) -> int:
        return len(self.decision.permitted) - len(self.unlisted)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that they may use and be told of."""
        names = self.decision.permitted_names
        return names - self.unlisted if self.unlisted else names

    @cached_property
    def _pins(self) -> tuple[int, ...]:
        return pinned(self.decision.permitted, self.decision.catalog, self.preferences)

    @cached_property
    def pinned(self) -> frozenset[str]:
        """The names that are never deferred."""
        entries = self.decision.catalog.entries
        return frozenset(entries[i].name for i in self._pins)

    @cached_property
    def not_pinned(self) -> frozenset[str]:
        """The names that may be deferred and active."""
        return self.names - self.pinned if self.pinned else self.names

    @cached_property
    def room(self) -> int | None:
        """The most names that may be active; None for any number."""
        return None if self.deferral.max_tools is None else self.deferral.room(len(self._pins))

    def answering(self, resolution: Resolution, limit: int) -> list[str]:
        """Return the names of the best tools that answer a query and may be attached, in catalog order."""
        if not resolution.answered:
            return []
        best = frozenset([name for name in resolution.names if name in self.not_pinned][:limit])
        entries = self.decision.catalog.entries
        return list(dict.fromkeys(entries[i].name for i in self.decision.permitted if entries[i].name in best))


async def permitted_of(host: AgentServer, verdict: Verdict) -> Permitted:
    """Return what a verdict permits of what its caller was last listed."""
    catalog = await host.catalog("tool")
    decision = await host.surface.decide_in_turns("tool", catalog, replace(verdict, shapes_lists=False))
    return await permitted_by(host, verdict, decision)


async def permitted_by(host: AgentServer, verdict: Verdict, decision: Decision) -> Permitted:
    """Return what a verdict permits, by a decision made under it."""
    digest = decision.catalog.digest
    if digest not in verdict.unlisted:
        verdict.unlisted[digest] = await _unlisted(host, replace(verdict, shapes_lists=False), decision)
    return Permitted(decision, verdict.preferences, verdict.unlisted[digest])


async def _unlisted(host: AgentServer, bounds_alone: Verdict, decision: Decision) -> frozenset[str]:
    """Return the permitted names that the author's middleware keeps off lists; asked only where tools are deferred."""
    if not bounds_alone.preferences.deferral.may_defer(len(decision.permitted)):
        return frozenset()
    try:
        with host.surface.under_verdict(bounds_alone):
            listed = await past_middleware(host) if cuts_lists(host) else None
    except Exception:
        # A call must not fail because a list would: nothing is told, and so nothing deferred.
        logger.warning("the author's middleware lists no tools; none is deferred for this request", exc_info=True)
        return decision.permitted_names
    return frozenset() if listed is None else decision.permitted_names.difference(tool.name for tool in listed)
