"""`--list`: every component of a server, whether a caller would see it, why, and what it costs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.catalog.tokens import n_tokens
from agent_utilities.mcp.surface import KINDS, Verdict
from agent_utilities.resolution.reasons import answered, reason_text, reasons_by_name
from agent_utilities.selection.model import NOTHING

if TYPE_CHECKING:
    from agent_utilities.mcp.server import AgentServer

_STYLE = {"visible": "green", "deferred": "yellow", "denied": "red"}


async def print_listing(server: AgentServer, as_json: bool) -> None:
    """Print the operator's view of a server: nothing is held back from the one who launches it.

    Args:
        server: the server, its selection set.
        as_json: print one JSON object instead of a table.
    """
    verdict = server.surface.verdict(NOTHING, curated=True)
    verdict.resolution = await server.resolver.resolve_once(verdict)
    rows = [row for kind in KINDS for row in await _rows(server, kind, verdict)]
    tools = [row for row in rows if row["kind"] == "tool"]
    shown = [row for row in tools if row["verdict"] == "visible"]
    totals = {
        "tools": len(tools),
        "permitted": sum(row["verdict"] != "denied" for row in tools),
        "visible": len(shown),
        "tokens": sum(row["tokens"] for row in tools),
        "visible_tokens": sum(row["tokens"] for row in shown),
    }
    query = answered(verdict.resolution.status, verdict.resolution.cause, verdict.resolution.n_left_out)
    unknown = await _unknown(server)
    if as_json:
        body = {"server": server.name, "components": rows, "totals": totals, "query": query, "unknown": unknown}
        json.dump(body, sys.stdout)
        print()
    else:
        _print_table(server.name, rows, totals, query, unknown)


async def _rows(server: AgentServer, kind: ComponentKind, verdict: Verdict) -> list[dict[str, Any]]:
    components = await _everything(server, kind)
    decision = server.surface.decide(kind, components, verdict)
    visible, rows = frozenset(decision.visible), []
    stands = reasons_by_name(verdict.resolution) if kind == "tool" else {}
    for i, (component, entry) in enumerate(zip(components, decision.catalog.entries, strict=True)):
        rule = decision.refusals[i]
        judged = "denied" if rule is not None else "visible" if i in visible else "deferred"
        shown = reason_text(stands.get(entry.name, {}))
        reason = rule.text if rule is not None else shown if i in visible else "permitted, and not among the shown"
        rows.append(
            {
                "kind": kind,
                "name": entry.name,
                "tags": sorted(component.tags),
                "read_only": entry.read_only,
                "verdict": judged,
                "reason": reason,
                "tokens": _cost(component) if kind == "tool" else 0,
            }
        )
    return rows


async def _everything(server: AgentServer, kind: ComponentKind) -> Sequence[Any]:
    with server.surface.under_verdict(server.surface.unbounded()):
        return await server.components(kind)


async def _unknown(server: AgentServer) -> dict[str, str | None]:
    """NameSet the operator gave that no component of any kind bears, each with the nearest that would do."""
    unknown: dict[str, str | None] | None = None
    for kind in KINDS:
        verdict = server.surface.verdict(NOTHING, curated=False)
        decision = server.surface.decide(kind, await _everything(server, kind), verdict)
        missing = decision.operator_unknown
        unknown = missing if unknown is None else {n: unknown[n] or missing[n] for n in unknown if n in missing}
    return unknown or {}


def _cost(tool: Any) -> int:
    definition = tool.to_mcp_tool(name=tool.name).model_dump(mode="json", by_alias=True, exclude_none=True)
    return n_tokens(definition)


def _print_table(
    name: str, rows: list[dict[str, Any]], totals: dict[str, int], query: str, unknown: dict[str, str | None]
) -> None:
    console = Console()
    table = Table(title=f"{name}: what a caller sees", title_justify="left", header_style="bold")
    for heading in ("name", "kind", "verdict", "reason", "tags"):
        table.add_column(heading, overflow="fold")
    table.add_column("≈ tokens", justify="right")
    for row in rows:
        style = _STYLE[row["verdict"]]
        tokens = str(row["tokens"]) if row["kind"] == "tool" else ""
        verdict = f"[{style}]{row['verdict']}[/]"
        table.add_row(row["name"], row["kind"], verdict, row["reason"], ", ".join(row["tags"]), tokens)
    console.print(table)
    console.print(
        f"{totals['visible']} of {totals['tools']} tools visible, {totals['permitted']} permitted; "
        f"about {totals['visible_tokens']} of {totals['tokens']} tokens on every turn"
        + (f"; query: {query}" if query != "off" else ""),
        highlight=False,
    )
    for given, near in unknown.items():
        hint = f"; did you mean {near!r}?" if near else ""
        console.print(f"[yellow]no component bears the name {given!r}{hint}[/]", highlight=False)
