"""`agent-utilities explain`: what a caller sees of a running server, and why.

The server says nothing about what it denies, so the reasons are computed here: the tools that it shows a caller without
bounds are judged by the same pure decision, under the caller's own selection.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urlencode

import typer

from agent_utilities.catalog.model import Catalog, entry
from agent_utilities.cli.asking import Pairs, ask, pairs, server_url
from agent_utilities.policy.decision import decide
from agent_utilities.policy.reasons import reason_text, status_text
from agent_utilities.selection.caller import PathSelection, parse_path, read_path
from agent_utilities.selection.channels import field_of
from agent_utilities.selection.merge import effective, merge
from agent_utilities.selection.model import Selection, fold, nearest
from agent_utilities.selection.parse import read_request
from agent_utilities.server.command_line.terminal import AsJson, NamesTable, plain, terminal

app = typer.Typer(add_completion=False)

_ENTRY_TOOL = "by which deferred tools are reached"
_OWN_TOOLS = {"capability": "by which capabilities are switched on and off"}
_LEFT_OUT = "permitted and can be called; the query or top_k left it out"
_BY_PROFILE = "denied by the profile that was named: what it says is the operator's to know"
_LEFT_OUT_BY_PROFILE = "the profile that was named denies it, or leaves it out; or the query or top_k does"
_FOUND_BY_SEARCH = "permitted and can be called; tool_search finds it"


@app.command()
def explain(
    url: str,
    header: list[str] | None = None,
    query: list[str] | None = None,
    tool: str | None = None,
    as_json: AsJson = False,
) -> None:
    """Ask a running server what a caller sees, and say why.

    Args:
        url: A running server, such as http://127.0.0.1:8001/mcp?tools=git_log.
        header: A header to send, as name=value; may be repeated.
        query: A URL query item to send, as key=value; may be repeated.
        tool: Say why this tool is or isn't there.
    """
    server, headers = server_url(url), pairs(header, "--header")
    tools, tail, items = f"{server.base}/tools", server.tail, [*server.query, *pairs(query, "--query")]
    seen = _ask(tools + tail, items, headers)
    neutral = [pair for pair in headers if field_of(pair[0], "header") is None]
    all_items = [pair for pair in items if field_of(pair[0], "query") is None]
    if on := seen["selection"].get("capabilities", {}).get("value"):
        all_items.append(("capabilities", on))  # what they bring is open to them while they are on
    open_to_caller = _ask(tools, all_items, neutral)
    if "deferred" in open_to_caller["selection"]:
        open_to_caller = _ask(tools, [*all_items, ("tool_search", "off")], neutral)
    path = parse_path([unquote(segment) for segment in tail.split("/")[1:]])
    rows = _rows(open_to_caller["tools"], seen, path or (), items, headers)
    if tool is not None:
        rows = [row for row in rows if fold(row["name"]) == fold(tool)] or [_unknown(tool, rows)]
    answer = {"server": seen["server"], "selection": seen["selection"], "tools": rows}
    if as_json:
        print(json.dumps(answer))
    elif tool is not None:
        reason = f": {rows[0]['reason']}" if rows[0]["reason"] else ""
        terminal().print(f"{rows[0]['name']} is {rows[0]['verdict']}{reason}", markup=False)
    else:
        _print_table(answer)


def _ask(url: str, query: Pairs, headers: Pairs) -> dict[str, Any]:
    return ask(url, query, headers, "tools", "a tool list")


def _rows(
    known: list[dict[str, Any]], answer: dict[str, Any], path: PathSelection, query: Pairs, headers: Pairs
) -> list[dict[str, Any]]:
    raw = tuple((key.lower().encode(), value.encode()) for key, value in headers)
    selection, seen = merge(read_path(path), read_request(urlencode(query).encode(), raw)), answer["tools"]
    settled = effective(selection)
    hidden = _not_shown(selection, answer)
    hints = [{"read_only": tool["readOnly"], "destructive": tool.get("destructive", True)} for tool in known]
    catalog = Catalog(
        tuple(entry("tool", t["name"], tags=t["tags"], **said) for t, said in zip(known, hints, strict=True))
    )
    refusals = decide(catalog, settled.bounds_only).refusals
    visible = {tool["name"]: tool for tool in seen}
    open_names = {tool["name"] for tool in known}
    own = [tool for tool in seen if tool["name"] not in open_names]
    rows = [_row(tool, "visible", _OWN_TOOLS.get(tool["name"], _ENTRY_TOOL)) for tool in own]
    if hidden is None:
        hidden = "deferred", _FOUND_BY_SEARCH if rows else _LEFT_OUT
    for tool, rule in zip(known, refusals, strict=True):
        if tool["name"] in visible:
            rows.append(_row(tool, "visible", reason_text(visible[tool["name"]])))
        else:
            rows.append(_row(tool, "denied", rule.text) if rule is not None else _row(tool, *hidden))
    return rows


def _row(tool: dict[str, Any], verdict: str, reason: str) -> dict[str, Any]:
    return {"name": tool["name"], "verdict": verdict, "reason": reason, "tokens": tool["tokens"]}


def _not_shown(selection: Selection, answer: dict[str, Any]) -> tuple[str, str] | None:
    """Return the verdict on tools that a named profile may deny, and why; None where no profile was named."""
    if all(field != "profile" for (field, _), _ in selection.slots):
        return None
    shows_all = answer["selection"]["visible"] == answer["selection"]["permitted"]
    return ("denied", _BY_PROFILE) if shows_all else ("not shown", _LEFT_OUT_BY_PROFILE)


def _unknown(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    near = nearest(name, [row["name"] for row in rows])
    reason = "the server offers no tool of this name: there is none, or the operator does not permit it"
    reason += f"; nearest: {near}" if near else ""
    return _row({"name": name, "tokens": 0}, "unknown", reason)


def _capability_lines(summary: dict[str, Any]) -> list[str]:
    """Return lines about a caller's capabilities; none where the server has no capabilities."""
    lines = []
    if on := [*summary.get("fixed", ()), *summary.get("active", ())]:
        evicted = f"; {', '.join(summary['evicted'])} gave way" if "evicted" in summary else ""
        lines.append(f"capabilities on: {', '.join(on)}{evicted}")
    route = summary.get("route", {})
    if scores := route.get("scores"):
        nearest = ", ".join(f"{name} {score:.3f}" for name, score in scores)
        gate = f"gate: {route['threshold']:g}, and {route['margin']:g} ahead of the second"
        if route.get("by") == "words":
            gate += ", by words alone"
        switched = ", ".join(summary.get("activated", ()))
        outcome = f"{switched} switched on" if switched else summary.get("cause") or route.get("cause") or "on already"
        lines.append(f"words lead to: {nearest} ({gate}): {outcome}")
    return lines


def _print_table(answer: dict[str, Any]) -> None:
    console = terminal()
    rows, selection = answer["tools"], answer["selection"]
    table = NamesTable(f"{plain(answer['server'])}: what this caller sees", "tool", "verdict", "why", "≈ tokens")
    styles = {"visible": "green", "deferred": "yellow", "not shown": "yellow", "denied": "red"}
    for row in rows:
        verdict = f"[{styles[row['verdict']]}]{row['verdict']}[/]"
        table.add_row(plain(row["name"]), verdict, plain(row["reason"]), str(row["tokens"]))
    console.print(table)
    shown = sum(row["tokens"] for row in rows if row["verdict"] == "visible")
    query = status_text(selection["status"], selection.get("cause", ""), selection.get("left_out", 0))
    console.print(
        f"{selection['visible']} visible, {selection['permitted']} permitted, of {len(rows)} that the server offers; "
        f"about {shown} of {sum(row['tokens'] for row in rows)} tokens on every turn; "
        f"query: {query}; revision {selection['revision']}"
    )
    if (access := selection.get("access")) is not None:
        number = access.get("rule")
        console.print(
            f"access: {'no rule fits this caller' if number is None else f'rule {number} holds'}", markup=False
        )
    for line in _capability_lines(selection.get("capabilities", {})):
        console.print(plain(line), markup=False)
    for name, near in selection.get("unknown", {}).items():
        hint = f"; did you mean {near!r}?" if near else ""
        console.print(f"[yellow]{plain(f'the server offers no tool named {name!r}{hint}')}[/]")
