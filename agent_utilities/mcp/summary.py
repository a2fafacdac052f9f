"""What a caller is told of a list beside the list: counts, how the query was answered, and names that fit nothing."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent_utilities.catalog.model import Catalog, ComponentKind
from agent_utilities.mcp.surface import KINDS, Verdict
from agent_utilities.selection.model import NOTHING
from agent_utilities.visibility.decision import Decision, borne, decide

if TYPE_CHECKING:
    from agent_utilities.mcp.server import AgentServer

logger = logging.getLogger("agent_utilities.wire")


async def summarise(server: AgentServer, verdict: Verdict, kind: ComponentKind) -> dict[str, Any]:
    """Return what a caller is told of a list: nothing that tells a denied name from an unknown one.

    Args:
        server: the server that listed.
        verdict: the verdict it was made under.
        kind: what was listed.

    Returns:
        `revision`, `permitted`, `visible`, `status`; `cause` where the query was answered less than it could be;
        `ranked` names of visible tools, best first, where it was answered, and `left_out` how many more answer it;
        `unknown` names that the caller gave, each with the nearest.
    """
    decision = verdict.decisions.get(kind) or decide(Catalog(), verdict.effective)
    summary: dict[str, Any] = {
        "revision": await server.revision(verdict, kind),
        "permitted": len(decision.permitted),
        "visible": len(decision.visible),
        "status": decision.status,
    }
    if verdict.resolution.cause and verdict.curated:
        summary["cause"] = verdict.resolution.cause
    if kind == "tool" and decision.status in ("fresh", "stale"):
        shown = {decision.catalog.entries[i].name for i in decision.visible}
        summary["ranked"] = [name for name in verdict.resolution.names if name in shown]
        if verdict.resolution.n_left_out:
            summary["left_out"] = verdict.resolution.n_left_out
    if verdict.by_caller and (unknown := await _unknown(server, decision, kind)):
        summary["unknown"] = unknown
    return summary


def tell(server: AgentServer, verdict: Verdict, summary: Mapping[str, Any], asked: str) -> None:
    """Tell the operator of a tool list: one log line, and its counts.

    Args:
        server: the server that listed.
        verdict: the verdict it was made under.
        summary: what the caller is told of it.
        asked: the method or route.
    """
    decision = verdict.decisions.get("tool")
    if decision is None:
        return
    if logger.isEnabledFor(logging.INFO):
        logger.info("%s %s", asked, " ".join(f"{key}={value}" for key, value in summary.items()))
    if server.surface.metrics is not None:
        server.surface.metrics.listed(decision, verdict.resolution)


async def _unknown(server: AgentServer, decision: Decision, kind: ComponentKind) -> dict[str, str | None]:
    """NameSet the caller gave that fit no component of any kind."""
    unknown = decision.unknown
    for other in KINDS:
        if unknown and other != kind:
            known = await _known(server, other)
            unknown = {name: near for name, near in unknown.items() if not borne(name, known)}
    return unknown


async def _known(server: AgentServer, kind: ComponentKind) -> frozenset[str]:
    if (known := server.surface.known(kind)) is None:
        with server.surface.under_verdict(server.surface.verdict(NOTHING, curated=False)):
            await server.components(kind)
        known = server.surface.known(kind)
    return known or frozenset()
