"""`--list`: every component of a server, whether a caller would see it, why, and what it costs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console

from agent_utilities.catalog.context import ACTIVE, ATTACHED, ListedTool, attached_line, n_tokens, surface_warning
from agent_utilities.catalog.model import KINDS, ComponentKind, Entry
from agent_utilities.policy.bounds import finish, unknown_in
from agent_utilities.policy.decision import Decision, sections_of
from agent_utilities.policy.entry_names import SEARCH_ENTRY
from agent_utilities.policy.reasons import reasons_of, status_text
from agent_utilities.seam.components import entry_of
from agent_utilities.seam.feature import OwnTool
from agent_utilities.seam.host import Reporting, find
from agent_utilities.seam.request import Request, serving
from agent_utilities.seam.verdict import Verdict
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NOTHING
from agent_utilities.server.command_line.terminal import NamesTable, plain

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer

_STYLE = {"visible": "green", "deferred": "yellow", "denied": "red"}


async def print_listing(host: AgentServer, as_json: bool) -> None:
    """Print the operator's view of a server, with everything that callers may not see."""
    await host.pending.know_everything()
    await host.operator_bounds.check()
    make = partial(host.request, NOTHING, is_dry=True)
    request = await (make() if (reports := find(host, Reporting)) is None else reports.report(NOTHING, make))
    verdict = request.verdict
    entry_tools = await _own_rows(host, request)
    with host.surface.under_verdict(host.surface.unbounded()):
        there = {kind: await host.components(kind) for kind in KINDS}
    decisions = {kind: host.surface.decide(kind, there[kind], verdict) for kind in KINDS}
    rows = [row for kind in KINDS for row in _rows(kind, there[kind], decisions[kind])]
    tools = [row for row in rows if row["kind"] == "tool"]
    shown = [row for row in tools if row["verdict"] == "visible"]
    totals = {  # entry tools are counted apart, and cost too
        "tools": len(tools),
        "permitted": sum(row["verdict"] != "denied" for row in tools),
        "visible": len(shown),
        "entry_tools": len(entry_tools),
        "tokens": sum(row["tokens"] for row in tools),
        "visible_tokens": sum(row["tokens"] for row in (*entry_tools, *shown)),
    }
    warning, line = _size(shown, decisions["tool"], verdict)
    resolution = verdict.preferences.resolution
    query = status_text(resolution.status, resolution.cause, resolution.n_left_out)
    unknown, notices = _unknown(host, there), host.surface.operator.notices
    absent = host.pending.absent(host.surface.unbounded().bounds)
    rows = [*entry_tools, *rows]
    if as_json:
        body = {"server": host.name, "components": rows, "totals": totals, "query": query, "unknown": unknown}
        print(json.dumps({**body, "absent": absent, "line": line, "notices": notices, "warning": warning}))
        return
    _print_table(host.name, rows, totals, query, unknown)
    notes = [plain(text) for text in (line, *notices) if text]
    notes += [f"[yellow]{plain(warning)}[/]"] if warning else []
    notes += [f"not listed, since never reached: {plain(', '.join(absent))}"] if absent else []
    for note in notes:
        Console(emoji=False).print(note, highlight=False, soft_wrap=True)


async def _own_rows(host: AgentServer, request: Request) -> list[dict[str, Any]]:
    with serving(request):
        tools = [tool for tool in await host.components("tool") if isinstance(tool, OwnTool)]
    rows = [_row("tool", tool, entry_of("tool", tool), "visible", tool.purpose) for tool in tools]
    return [{**row, "entry_tool": True} for row in rows]


def _rows(kind: ComponentKind, components: Sequence[Any], decision: Decision) -> list[dict[str, Any]]:
    every = zip(components, decision.catalog.entries, reasons_of(decision), strict=True)
    return [_row(kind, component, entry, *judged) for component, entry, judged in every]


def _row(kind: ComponentKind, component: Any, entry: Entry, verdict: str, reason: str) -> dict[str, Any]:
    """Return the row of a component; a tool's has its tokens, and the parts of its definition that are ranked."""
    facts: dict[str, Any] = {"tokens": 0}
    if kind == "tool":
        definition = component.to_mcp_tool(name=component.name).model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        ranked = {"description": definition.get("description", ""), "inputSchema": definition["inputSchema"]}
        facts = {"tokens": n_tokens(definition), **ranked}
    row = {"kind": kind, "name": entry.name, "tags": sorted(component.tags), "read_only": entry.read_only}
    return {**row, "verdict": verdict, "reason": reason, **facts}


def _size(shown: Sequence[dict[str, Any]], decision: Decision, verdict: Verdict) -> tuple[str | None, str | None]:
    """Return the warning of a large surface, and how much of what is deferred is visible; None where neither holds."""
    listed = [ListedTool(frozenset(row["tags"]), row["read_only"], row["tokens"]) for row in shown]
    can_defer = verdict.bounds.permits_entry_tool(SEARCH_ENTRY, by_caller=False)
    warning = surface_warning(listed, can_defer=can_defer, defers=decision.defers)
    if not decision.defers:
        return warning, None
    n_in = Counter(sections_of(decision).values())
    max_active = decision.preferences.deferral.max_active
    return warning, attached_line(n_in[ATTACHED], len(decision.permitted_names), n_in[ACTIVE], max_active)


def _unknown(host: AgentServer, there: Mapping[ComponentKind, Sequence[Any]]) -> dict[str, str | None]:
    """Return the operator's names that fit nothing, each with the nearest that would do; pins fit tools alone."""
    verdict = host.surface.verdict(NOTHING, shapes_lists=False)
    entries = {kind: [entry_of(kind, each) for each in components] for kind, components in there.items()}
    missing = [finish(unknown_in(verdict.effective, "operator", each)) for each in entries.values()]
    of_no_kind = [name for name in missing[0] if all(name in each for each in missing)]
    unknown = {name: next(filter(None, (each[name] for each in missing)), None) for name in of_no_kind}
    pins = Effective(allow_tools=verdict.effective.pins)
    return {**unknown, **finish(unknown_in(pins, "operator", entries["tool"]))}


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
    for name, near in unknown.items():
        hint = f"; did you mean {near!r}?" if near else ""
        console.print(f"[yellow]{plain(f'no component bears the name {name!r}{hint}')}[/]", highlight=False)
