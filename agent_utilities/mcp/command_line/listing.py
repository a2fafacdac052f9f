"""`--list`: every component of a server, whether a caller would see it, why, and what it costs."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from rich.console import Console

from agent_utilities.catalog.context import ACTIVE, ATTACHED, attached_line
from agent_utilities.catalog.model import KINDS, ComponentKind
from agent_utilities.catalog.tokens import ListedTool, n_tokens, surface_warning
from agent_utilities.mcp.command_line.tables import NamesTable, plain
from agent_utilities.mcp.feature import OwnTool
from agent_utilities.mcp.feature_list import FeatureList
from agent_utilities.mcp.host import Host
from agent_utilities.mcp.operator_bounds import OperatorBounds
from agent_utilities.mcp.request import Request, serving
from agent_utilities.mcp.surface.components import entry_of
from agent_utilities.mcp.surface.verdict import Verdict
from agent_utilities.mcp.surface_size import can_defer
from agent_utilities.resolution.answer import reason_text, reasons_by_name, status_text
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NOTHING
from agent_utilities.visibility.bounds import finish
from agent_utilities.visibility.decision import Decision, sections_of
from agent_utilities.visibility.unfit import unknown_in

_STYLE = {"visible": "green", "deferred": "yellow", "denied": "red"}


async def print_listing(host: Host, features: FeatureList, bounds: OperatorBounds, as_json: bool) -> None:
    """Print the operator's view of a server: nothing is held back from the one who launches it."""
    await features.know_everything()
    await bounds.check()
    request = await features.report(NOTHING, partial(host.request, NOTHING, is_dry=True))
    verdict = request.verdict
    entry_tools = await _own_rows(host, request)
    rows = [row for kind in KINDS for row in await _rows(host, kind, verdict)]
    tools = [row for row in rows if row["kind"] == "tool"]
    totals = _totals(tools, entry_tools)
    shown = [row for row in tools if row["verdict"] == "visible"]
    warning, line = _size(shown, await _decided(host, verdict), verdict)
    resolution = verdict.preferences.resolution
    query = status_text(resolution.status, resolution.cause, resolution.n_left_out)
    unknown, notices = await _unknown(host), host.surface.operator.notices
    absent = features.absent(host.surface.unbounded().bounds)
    rows = [*entry_tools, *rows]
    if as_json:
        body = {"server": host.name, "components": rows, "totals": totals, "query": query, "unknown": unknown}
        json.dump({**body, "absent": absent, "line": line, "notices": notices, "warning": warning}, sys.stdout)
        print()
        return
    _print_table(host.name, rows, totals, query, unknown)
    for told in (line, *notices):
        if told:
            print(told)
    if warning:
        Console(emoji=False).print(f"[yellow]{plain(warning)}[/]", highlight=False, soft_wrap=True)
    if absent:
        console = Console(emoji=False)
        console.print(f"not listed, since never reached: {plain(', '.join(absent))}", highlight=False, soft_wrap=True)


def _totals(tools: Sequence[dict[str, Any]], entry_tools: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return how many the server's own tools are, and what they cost; entry tools are counted apart, and cost too."""
    shown = [row for row in tools if row["verdict"] == "visible"]
    return {
        "tools": len(tools),
        "permitted": sum(row["verdict"] != "denied" for row in tools),
        "visible": len(shown),
        "entry_tools": len(entry_tools),
        "tokens": sum(row["tokens"] for row in tools),
        "visible_tokens": sum(row["tokens"] for row in (*entry_tools, *shown)),
    }


async def _own_rows(host: Host, request: Request) -> list[dict[str, Any]]:
    """Return a row for each tool of features' own in a caller's list."""
    with serving(request):
        tools = [tool for tool in await host.components("tool") if isinstance(tool, OwnTool)]
    return [
        {
            "kind": "tool",
            "name": tool.name,
            "tags": [],
            "read_only": bool(tool.annotations and tool.annotations.read_only_hint),
            "verdict": "visible",
            "reason": tool.purpose,
            **_told_to_models(tool),
            "entry_tool": True,
        }
        for tool in tools
    ]


async def _rows(host: Host, kind: ComponentKind, verdict: Verdict) -> list[dict[str, Any]]:
    components = await _everything(host, kind)
    decision = host.surface.decide(kind, components, verdict)
    visible, rows = frozenset(decision.visible), []
    reasons = reasons_by_name(verdict.preferences.resolution) if kind == "tool" else {}
    for i, (component, entry) in enumerate(zip(components, decision.catalog.entries, strict=True)):
        rule = decision.refusals[i]
        judged = "denied" if rule is not None else "visible" if i in visible else "deferred"
        shown = reason_text(reasons.get(entry.name, {}))
        reason = rule.text if rule is not None else shown if i in visible else "permitted, and not among the shown"
        rows.append(
            {
                "kind": kind,
                "name": entry.name,
                "tags": sorted(component.tags),
                "read_only": entry.read_only,
                "verdict": judged,
                "reason": reason,
                **(_told_to_models(component) if kind == "tool" else {"tokens": 0}),
            }
        )
    return rows


async def _decided(host: Host, verdict: Verdict) -> Decision:
    return host.surface.decide("tool", await _everything(host, "tool"), verdict)


def _size(shown: Sequence[dict[str, Any]], decision: Decision, verdict: Verdict) -> tuple[str | None, str | None]:
    """Return the warning of a large surface, and how much of what is deferred is visible; None where neither holds."""
    listed = [ListedTool(frozenset(row["tags"]), row["read_only"], row["tokens"]) for row in shown]
    warning = surface_warning(listed, can_defer=can_defer(verdict), defers=decision.defers)
    if not decision.defers:
        return warning, None
    n_in = Counter(sections_of(decision).values())
    max_active = decision.preferences.deferral.max_active
    return warning, attached_line(n_in[ATTACHED], len(decision.permitted_names), n_in[ACTIVE], max_active)


async def _everything(host: Host, kind: ComponentKind) -> Sequence[Any]:
    with host.surface.under_verdict(host.surface.unbounded()):
        return await host.components(kind)


async def _unknown(host: Host) -> dict[str, str | None]:
    """Return the operator's names that fit nothing, each with the nearest that would do; pins fit tools alone."""
    unknown: dict[str, str | None] | None = None
    for kind in KINDS:
        verdict = host.surface.verdict(NOTHING, shapes_lists=False)
        decision = host.surface.decide(kind, await _everything(host, kind), verdict)
        missing = decision.operator_unknown
        unknown = missing if unknown is None else {n: unknown[n] or missing[n] for n in unknown if n in missing}
    pins = Effective(allow_tools=host.surface.verdict(NOTHING, shapes_lists=False).effective.pins)
    entries = [entry_of("tool", tool) for tool in await _everything(host, "tool")]
    return {**(unknown or {}), **finish(unknown_in(pins, "operator", entries))}


def _told_to_models(tool: Any) -> dict[str, Any]:
    """Return what of a tool's definition is ranked, and what all of it costs."""
    definition = tool.to_mcp_tool(name=tool.name).model_dump(mode="json", by_alias=True, exclude_none=True)
    ranked = {"description": definition.get("description", ""), "inputSchema": definition["inputSchema"]}
    return {"tokens": n_tokens(definition), **ranked}


def _print_table(
    name: str, rows: list[dict[str, Any]], totals: dict[str, int], query: str, unknown: dict[str, str | None]
) -> None:
    console = Console(emoji=False)
    table = NamesTable(f"{plain(name)}: what a caller sees", "name", "kind", "verdict", "reason", "tags", "≈ tokens")
    for row in rows:
        style = _STYLE[row["verdict"]]
        tokens = str(row["tokens"]) if row["kind"] == "tool" else ""
        verdict = f"[{style}]{row['verdict']}[/]"
        said = map(plain, (row["reason"], ", ".join(row["tags"])))
        table.add_row(plain(row["name"]), row["kind"], verdict, *said, tokens)
    console.print(table)
    n_entry_tools = totals["entry_tools"]
    entry_tools = f", and {n_entry_tools} entry tool{'s' * (n_entry_tools > 1)}" if n_entry_tools else ""
    # Entry tools are beside all tools, and may take more than those do.
    of_all = f"of {totals['tokens']} tokens on every turn"
    if n_entry_tools:
        of_all = f"tokens on every turn, all tools {totals['tokens']}"
    console.print(
        f"{totals['visible']} of {totals['tools']} tools visible, {totals['permitted']} permitted{entry_tools}; "
        f"about {totals['visible_tokens']} {of_all}" + (f"; query: {query}" if query != "off" else ""),
        highlight=False,
    )
    for given, near in unknown.items():
        hint = f"; did you mean {near!r}?" if near else ""
        console.print(f"[yellow]{plain(f'no component bears the name {given!r}{hint}')}[/]", highlight=False)
