"""The summary beside a list: what its caller may use and is shown, and which of their names fit nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_utilities.catalog.model import KINDS, ComponentKind
from agent_utilities.policy.bounds import matching, unknown_in
from agent_utilities.policy.decision import Decision, revision
from agent_utilities.runtime.waiting import finish_in_turns
from agent_utilities.seam.request import LEFT_OUT, Request
from agent_utilities.seam.verdict import Verdict
from agent_utilities.selection.active import Active
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NameSet, Setting, fold

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer


async def summarise(
    host: AgentServer, request: Request, kind: ComponentKind, decided: Decision | None
) -> dict[str, Any]:
    """Return the summary of a list for its caller; it does not distinguish denied names from unknown ones.

    Args:
        decided: the decision on the list; None where a middleware answered first, such as a cache.

    Returns:
        `revision`, `permitted`, `visible`, `status`; the caller's `unknown` names, each with the nearest; `absent`
        upstreams that were never reached yet; `left_out_features` that failed; and the parts of features.
    """
    verdict = request.verdict
    decision = decided or await host.surface.decide_in_turns(kind, await host.catalog(kind), verdict)
    unlisted = verdict.unlisted.get(decision.catalog.digest, frozenset()) if kind == "tool" else frozenset[str]()
    n_unlisted = len(unlisted - decision.visible_names) if unlisted else 0
    summary: dict[str, Any] = {
        "revision": revision(decision, verdict.asked),
        "permitted": len(decision.permitted) - n_unlisted,
        "visible": len(decision.visible),
        "status": decision.status,
    }
    if verdict.by_caller and (unknown := await unknown_names(host, decision, kind, verdict)):
        summary["unknown"] = unknown
    if absent := host.pending.absent(verdict.bounds):
        summary["absent"] = absent
    if failed := request.values.get(LEFT_OUT):
        summary["left_out_features"] = failed
    parts = await host.features.summary(request, kind, decision)
    return {**summary, **{key: value for key, value in parts.items() if key not in summary}}


async def unknown_names(
    host: AgentServer, decision: Decision, kind: ComponentKind, verdict: Verdict | None = None
) -> dict[str, str | None]:
    """Return the caller's names that fit no component of any kind, each with the nearest one that would.

    Args:
        verdict: of a list in which tools may be deferred: pinned and active names are included too.
    """
    unknown = await finish_in_turns(decision.finding_unknown())
    if verdict is not None and kind == "tool" and decision.defers and (lists := searched_lists(verdict.effective)):
        unlisted = verdict.unlisted.get(decision.catalog.digest, frozenset())
        listed = [entry for entry in decision.open_entries if entry.name not in unlisted]
        in_lists = unknown_in(Effective(allow_tools=lists), "caller", listed)
        unknown = unknown | await finish_in_turns(in_lists)
    lists = (*decision.effective.allow_tools, *decision.effective.deny_tools)
    no_toolsets = {name for setting in lists if isinstance(setting.value, NameSet) for name in setting.value.names}
    for other in KINDS:
        if unknown and other != kind:
            names, tags = await _known(host, other)
            either = names | tags
            known = {name: names if name in no_toolsets else either for name in unknown}
            fitting = [name for name in unknown if await finish_in_turns(matching([name], known[name]))]
            unknown = {name: near for name, near in unknown.items() if name not in fitting}
    return unknown


def searched_lists(effective: Effective) -> tuple[Setting, ...]:
    """Return the lists of names that tool search reads: pins, and the active set that the request brought."""
    brought = [setting for name, setting in effective.searching if name == "active"]
    as_names = [
        replace(setting, value=NameSet(frozenset(map(fold, setting.value.names))))
        for setting in brought
        if isinstance(setting.value, Active)
    ]
    return (*effective.pins, *as_names)


async def _known(host: AgentServer, kind: ComponentKind) -> tuple[frozenset[str], frozenset[str]]:
    if (known := host.surface.known(kind)) is None:
        with host.surface.under_verdict(host.surface.for_present_caller()):
            await host.components(kind)
        known = host.surface.known(kind)
    return known or (frozenset(), frozenset())
