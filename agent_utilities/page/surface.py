"""The surface panel: every tool with its cost and verdict under a selection, and what asks for the same elsewhere."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

import fastmcp
from fastmcp.tools.base import Tool
from starlette.requests import Request as HttpRequest

from agent_utilities.catalog.context import n_tokens
from agent_utilities.catalog.model import KINDS
from agent_utilities.policy.bounds import UnfitName, unfit_names
from agent_utilities.policy.decision import Decision
from agent_utilities.policy.reasons import reasons_of, status_text
from agent_utilities.runtime.waiting import finish_in_turns, in_turns
from agent_utilities.seam.caller import Caller
from agent_utilities.seam.feature import OwnTool
from agent_utilities.seam.host import Host
from agent_utilities.seam.panel import PageError, Panel, Reader, Table
from agent_utilities.seam.request import Request, serving
from agent_utilities.seam.verdict import UnderVerdict
from agent_utilities.seam.whole_catalog import WholeCatalog
from agent_utilities.selection.channels import FIELDS, Field, field_of
from agent_utilities.selection.merge import merge
from agent_utilities.selection.model import Channel, fold
from agent_utilities.selection.parse import encoded_header

CLAIMS = "claims"
_N_OPEN = 40
"""Up to so many tools all are shown; of more those of servers that a typed selection lists any of."""
_N_FIRST = 8
"""Fields that most people try: what is permitted, and words."""


@dataclass(frozen=True, slots=True)
class Row:
    """One tool.

    Args:
        server: the upstream that has it, or the name of this server.
        verdict: `visible`, `deferred` or `denied`.
        reason: why.
        is_own: whether the server itself adds it to the catalog's tools, as the entry tools are.
    """

    name: str
    server: str
    tokens: int
    tags: tuple[str, ...]
    read_only: bool
    verdict: str
    reason: str
    is_own: bool = False


async def request_of(host: Host, reader: Reader, request: HttpRequest) -> Request:
    """Return a dry list request: with the URL's selection, and for the claims that an operator tries.

    Raises:
        PageError: the claims can't be read.
        SelectionError, BoundError: as for a request.
    """
    selection, caller = host.selection_of(request), reader.caller
    if reader.operates and (claims := request.query_params.get(CLAIMS, "").strip()):
        caller = _caller(claims)
        # By the rules alone: the token that such a caller would send, and its bounds, are not known.
        grant = host.grant_of(replace(caller, issuer=""))
        selection = selection if grant is None else merge(selection, grant.bounds)
    return await host.request(selection, caller=caller, is_dry=True)


def _caller(claims: str) -> Caller:
    try:
        parsed = json.loads(claims)
        if not isinstance(parsed, dict):
            raise ValueError("it is no object")
    except (ValueError, RecursionError) as error:
        hint = '{"iss": "https://login.example", "sub": "ann", "groups": ["staff"]}'
        raise PageError(f"claims can't be read: {error}; write them in JSON: {hint}") from None
    issuer, subject = (parsed[key] if isinstance(parsed.get(key), str) else "" for key in ("iss", "sub"))
    return Caller(issuer, subject, str(parsed.get("client") or ""), parsed)


async def known_tools(host: Host, reader: Reader, request: Request) -> Sequence[Tool]:
    """Return the tools that a reader may know of: all for an operator, the permitted ones for others."""
    with _known(host, reader, request):
        return [tool for tool in await host.components("tool") if isinstance(tool, Tool)]


def _known(host: Host, reader: Reader, request: Request) -> UnderVerdict:
    """Return the block in which components are those that a reader may know of."""
    if reader.operates:
        return UnderVerdict(host.offered(WholeCatalog)[0].unbounded())
    return UnderVerdict(host.verdict(request.selection.granted))


async def rows_of(host: Host, reader: Reader, request: Request) -> list[Row]:
    """Return a row for every tool that a reader may know of, judged by a request's verdict; entry tools first."""
    with serving(request):
        own = [tool for tool in await host.components("tool") if isinstance(tool, OwnTool)]
    costs = [n_tokens(definition_of(tool)) for tool in own]
    entry_tools = zip(own, costs, strict=True)
    rows = [Row(tool.name, host.name, cost, (), True, "visible", tool.purpose, True) for tool, cost in entry_tools]
    tools = await known_tools(host, reader, request)
    decision = await host.decide("tool", request.verdict, tools)
    catalog = decision.catalog
    judged = reasons_of(decision)
    async for i in in_turns(range(len(tools))):
        entry, facts, tags = catalog.entries[i], host.tool_facts(catalog, i), tuple(sorted(tools[i].tags))
        rows.append(Row(entry.name, facts.server or host.name, facts.tokens, tags, entry.read_only, *judged[i]))
    return rows


def definition_of(tool: Tool) -> dict[str, Any]:
    """Return a tool as `tools/list` sends it."""
    return tool.to_mcp_tool(name=tool.name).model_dump(mode="json", by_alias=True, exclude_none=True)


def spellings(items: Iterable[tuple[str, str]], url: str) -> dict[str, str]:
    """Return the texts that spell a selection, ready to be copied, by the channel that they are for.

    Args:
        items: the names and values of a URL's query.
        url: the server's endpoint.
    """
    fields = [(field, value.strip()) for key, value in items if (field := field_of(key, "query")) and value.strip()]
    if not fields:
        return {"URL": url}
    query = urlencode([(field.spellings("query")[0], value) for field, value in fields], safe=",*")

    def written(channel: Channel, separator: str, spell: Callable[[str, Field, str], str]) -> str:
        every = [(field.spellings(channel)[:1], field, value) for field, value in fields]
        return separator.join(spell(names[0], field, value) for names, field, value in every if names)

    def of_file(name: str, field: Field, value: str) -> str:
        return f"{name} = {'true' if field.kind == 'flag' else json.dumps(value, ensure_ascii=False)}"

    def of_cli(name: str, field: Field, value: str) -> str:
        return name if field.kind == "flag" else f"{name} {shlex.quote(value)}"

    lines = {
        "URL": f"{url}?{query}",
        "headers": written("header", "\n", lambda name, _, value: f"{name}: {encoded_header(value)}"),
        "command line": written("cli", " ", of_cli),
        "settings": written("file", "\n", of_file),
    }
    return {name: text for name, text in lines.items() if text}


_MOST_WRONG = 16
"""The most names that fit nothing and are told; each costs a search for the nearest."""
_OF_QUERY = "query "
_TAGS_OF = {"toolsets": "tags", "disabled_toolsets": "disabled_tags"}
"""The field of the form that takes a toolset, by the one that requests have for it beside."""


async def wrong_names(host: Host, reader: Reader, made: Request, query: Mapping[str, str]) -> dict[str, str]:
    """Return, by field, what is wrong with the names in a URL's bounds: those that fit nothing, with the nearest.

    As on the command line a name may fit a prompt or a resource too. Nothing that a reader may not know of is near.
    """
    tools = await known_tools(host, reader, made)
    unfit = await _unfit(await host.decide("tool", made.verdict, tools))
    for kind in KINDS:
        if unfit and kind != "tool":
            with _known(host, reader, made):
                there = await host.components(kind)
            other = await _unfit(await host.decide(kind, made.verdict, there))
            unfit = {key: name for key, name in unfit.items() if key in other or name.toolsets}
    told: dict[str, list[str]] = {}
    for name in list(unfit.values())[:_MOST_WRONG]:
        near = f"{_TAGS_OF[name.toolsets]}={name.name}" if name.toolsets else name.nearest
        text = f"{name.name!r} fits nothing" + (f": did you mean {near}?" if near else " that there is")
        for spelled in (each.removeprefix(_OF_QUERY) for each in name.setting.origins if each.startswith(_OF_QUERY)):
            field, given = field_of(spelled, "query"), query.get(spelled, "").split(",")
            if field is not None and fold(name.name) in {fold(each.strip()) for each in given}:
                told.setdefault(field.spellings("query")[0], []).append(text)
    return {field: "; ".join(texts) for field, texts in told.items()}


async def _unfit(decision: Decision) -> dict[tuple[str, tuple[str, ...]], UnfitName]:
    unfit = await finish_in_turns(unfit_names(decision.effective, "caller", decision.open_entries))
    return {(each.name, each.setting.origins): each for each in unfit}


async def look_at_surface(host: Host, reader: Reader, request: HttpRequest) -> dict[str, Any]:
    """Return the tools by server, with the verdict of a selection on each."""
    query = request.query_params
    made = await request_of(host, reader, request)
    rows, wrong = await rows_of(host, reader, made), await wrong_names(host, reader, made, query)
    bands: dict[str, list[Row]] = {}
    for row in rows:
        bands.setdefault(row.server, []).append(row)
    resolution = made.verdict.preferences.resolution
    fields = [(names[0], row) for row in FIELDS if (names := row.spellings("query"))]
    columns = ("name", "server", "tokens", "tags", "read_only", "verdict", "reason")
    root = request.scope.get("root_path", "")
    endpoint = f"{request.url.scheme}://{request.url.netloc}{root}{fastmcp.settings.streamable_http_path}"
    selects = any(value.strip() and field_of(key, "query") for key, value in query.multi_items())
    return {
        "bands": bands,
        "opened": {
            server
            for server, of in bands.items()
            if len(rows) <= _N_OPEN or (selects and any(row.verdict == "visible" for row in of))
        },
        "most": max((row.tokens for row in rows), default=1),
        "n": Counter(row.verdict for row in rows if not row.is_own),
        "shown": sum(row.tokens for row in rows if row.verdict == "visible"),
        "total": sum(row.tokens for row in rows if not row.is_own),
        "status": status_text(resolution.status, resolution.cause, resolution.n_left_out),
        "fields": [(name, row.kind, row.help, query.get(name, "")) for name, row in fields],
        "n_first": _N_FIRST,
        "is_more": bool(query.get(CLAIMS)) or any(query.get(name) for name, _ in fields[_N_FIRST:]),
        "claims": query.get(CLAIMS, "") if reader.operates else "",
        "wrong": wrong,
        "spelled": {} if wrong else spellings(query.multi_items(), endpoint),
        "tables": {"tools": Table(columns, [[getattr(row, column) for column in columns] for row in rows])},
    }


SURFACE = Panel("surface", "Surface", look_at_surface)
