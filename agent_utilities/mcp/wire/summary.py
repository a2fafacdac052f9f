"""What a caller is told of a list beside the list: counts, how the query was answered, and names that fit nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_utilities.activation.deferral import Active
from agent_utilities.catalog.model import KINDS, ComponentKind
from agent_utilities.mcp.request import Request
from agent_utilities.mcp.surface.surface import Verdict
from agent_utilities.runtime.waiting import finish_in_turns
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NOTHING, NameSet, Setting, fold
from agent_utilities.visibility.bounds import fitting_any
from agent_utilities.visibility.decision import Decision, revision
from agent_utilities.visibility.unfit import unknown_in

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer
from collections.abc import Iterable


async def summarise(
    host: AgentServer, request: Request, kind: ComponentKind, decided: Decision | None
) -> dict[str, Any]:
    """Return what a caller is told of a list: nothing that tells a denied name from an unknown one.

    Args:
        host: the server that listed.
        request: that it was made for.
        kind: what was listed.
        decided: what the list was made by; None where somebody answered before it was decided, such as a cache.

    Returns:
        `revision`, `permitted`, `visible`, `status`; `unknown` names that the caller gave, each with the nearest;
        `absent` upstreams that were never reached yet; `left_out_features` that failed; and what features tell.
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
    if absent := host.features.gathered("absent", verdict.bounds):
        summary["absent"] = absent
    if failed := request.values.get("left_out"):
        summary["left_out_features"] = failed
    told = await host.features.summary(request, kind, decision)
    return {**summary, **{key: value for key, value in told.items() if key not in summary}}


async def unknown_names(
    host: AgentServer, decision: Decision, kind: ComponentKind, verdict: Verdict | None = None
) -> dict[str, str | None]:
    """Return the names that the caller gave that fit no component of any kind, each with the nearest that would.

    Args:
        host: the server that listed.
        decision: what the list was made by.
        kind: what was listed.
        verdict: of a list in which tools may be deferred: names that they pinned, or brought as active, are told too.
    """
    unknown = await finish_in_turns(decision.finding_unknown())
    if verdict is not None and kind == "tool" and decision.defers and (lists := searched_lists(verdict.effective)):
        unlisted = verdict.unlisted.get(decision.catalog.digest, frozenset())
        told = [entry for entry in decision.open_entries if entry.name not in unlisted]
        in_lists = unknown_in(Effective(allow_tools=lists), "caller", told)
        unknown = unknown | await finish_in_turns(in_lists)
    lists = (*decision.effective.allow_tools, *decision.effective.deny_tools)
    no_toolsets = {name for given in lists if isinstance(given.value, NameSet) for name in given.value.names}
    for other in KINDS:
        if unknown and other != kind:
            names, tags = await _known(host, other)
            either = names | tags
            known = {name: names if name in no_toolsets else either for name in unknown}
            fitting = [name for name in unknown if await finish_in_turns(fitting_any(name, known[name]))]
            unknown = {name: near for name, near in unknown.items() if name not in fitting}
    return unknown


def searched_lists(effective: Effective) -> tuple[Setting, ...]:
    """Return the lists of names that tool search reads: pins, and what was brought as active."""
    brought = [setting for name, setting in effective.searching if name == "active"]
    as_names = [
        replace(setting, value=NameSet(frozenset(map(fold, setting.value.names))))
        for setting in brought
        if isinstance(setting.value, Active)
    ]
    return (*effective.pins, *as_names)


async def _known(host: AgentServer, kind: ComponentKind) -> tuple[frozenset[str], frozenset[str]]:
    if (known := host.surface.known(kind)) is None:
        with host.surface.under_verdict(host.surface.verdict(NOTHING, shapes_lists=False)):
            await host.components(kind)
        known = host.surface.known(kind)
    return known or (frozenset(), frozenset())


GROUPS_KEY = "io.modelcontextprotocol/groups"
"""The key of a tool's `_meta` that holds the names of its groups, a list.

Source: SEP-2084 (closed, not part of the protocol); its TypeScript and Python implementations read this key.
"""


def add_groups(tools: Iterable[dict[str, Any]]) -> None:
    """Give each tool of a list's result its tags as groups, beside those that it brings: each is a toolset."""
    for tool in tools:
        meta = tool.get("_meta")
        if not isinstance(meta, dict) or not isinstance(told := meta.get("fastmcp"), dict) or not told.get("tags"):
            continue
        own = meta.get(GROUPS_KEY)
        meta[GROUPS_KEY] = list(dict.fromkeys([*own, *told["tags"]])) if isinstance(own, list) else told["tags"]
