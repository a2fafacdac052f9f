"""What a caller may use, as tool search needs to know it."""

from __future__ import annotations

import logging
from dataclasses import replace

from agent_utilities.mcp.agent_server import AgentServer
from agent_utilities.mcp.answers import cuts_lists, past_middleware
from agent_utilities.mcp.surface.surface import Verdict
from agent_utilities.visibility.decision import Decision
from agent_utilities.visibility.permitted import Permitted

logger = logging.getLogger("agent_utilities.wire")


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
