"""Answering a search: words or names in, tools with their definitions out, loaded where there is a session."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from fastmcp.exceptions import ToolError
from fastmcp.tools.base import Tool, ToolResult

from agent_utilities.activation.active_text import written
from agent_utilities.catalog.entry_tools import EntryNames, SearchArguments, n_results, search_arguments
from agent_utilities.catalog.search_result import (
    SearchResult,
    Select,
    chosen,
    found_tools,
    nearest_names,
    no_such_server,
    parse_query,
)
from agent_utilities.errors import InputError
from agent_utilities.features.query.feature import Query
from agent_utilities.features.tool_search.events import SearchEvent
from agent_utilities.features.tool_search.permitted import Permitted, permitted_of
from agent_utilities.features.tool_search.session import kept
from agent_utilities.features.tool_search.turns import Turns
from agent_utilities.features.usage.feature import ToolsSought
from agent_utilities.mcp.answers import past_middleware
from agent_utilities.mcp.host import Host
from agent_utilities.mcp.request import Request
from agent_utilities.ranking.plain_words import plain_matches
from agent_utilities.selection.channels import META_KEY
from agent_utilities.selection.model import RankedTool, fold

_NOT_RANKED = ("off", "unavailable")


class Searches:
    """Answers `tool_search` for callers.

    Args:
        host: the server.
        query: ranks tools for words.
        turns: keeps what is active.
    """

    def __init__(self, host: Host, query: Query, turns: Turns) -> None:
        self._host, self._query, self._turns = host, query, turns

    async def answer(self, arguments: Mapping[str, Any], request: Request, names: EntryNames) -> ToolResult:
        """Return the result of a search.

        Raises:
            ToolError: its arguments can't be read, or there is no such server for this caller.
        """
        started = time.perf_counter()
        permitted = await permitted_of(self._host, request.verdict)
        try:
            found = await self._found(search_arguments(arguments), request, permitted, names)
        except InputError as error:
            raise ToolError(str(error)) from None
        counts = {"found": len(found.names), "loaded": len(found.activated)}
        counts |= {"evicted": len(found.evicted), "deferred": found.n_deferred}
        self._host.notify(SearchEvent("tool_search", counts, found.cause, time.perf_counter() - started))
        if not isinstance(parse_query(found.query), Select):
            self._host.notify(ToolsSought(found.query, found.names, request))
        return ToolResult(found.text, found.as_dict(), {META_KEY: {"active": found.active}})

    async def _found(
        self, asked: SearchArguments, request: Request, permitted: Permitted, names: EntryNames
    ) -> SearchResult:
        searched = await self._searched(asked, permitted)
        parsed = parse_query(asked.query)
        cause = ""
        if isinstance(parsed, Select):
            ranked: Sequence[RankedTool] = [RankedTool(name) for name in parsed.names if name in searched]
            most: int | None = len(parsed.names)
        else:
            most = asked.max_results
            limit = n_results(most)
            ranked, cause = await self._ranked(parsed.text, request, permitted, searched, limit)
        tools = {tool.name: tool for each in ranked if (tool := await self._tool(each.name, searched)) is not None}
        definitions = {name: _definition(tool) for name, tool in tools.items()}
        # What can't be got after all is none of theirs: withdrawn, refused by its own check, or disabled.
        known = [name for name in searched if name in definitions or all(each.name != name for each in ranked)]
        full, more = chosen(ranked, definitions, most)
        change = await self._turns.loaded(request, full, permitted)
        wanted = parsed.names if isinstance(parsed, Select) else ()
        unknown = {name: nearest_names(name, known) for name in wanted if name not in definitions}
        return SearchResult(
            query=asked.query,
            tools=found_tools(full, definitions, is_full=True, ranked=ranked),
            more=found_tools(more, definitions, is_full=False, ranked=ranked),
            activated=change.added if request.session is not None else (),
            evicted=change.evicted,
            n_deferred=len(permitted.not_pinned) - self._n_visible(request, permitted),
            active=written(change.active),
            unknown=unknown,
            nearest=() if full or unknown else nearest_names(asked.query, known),
            cause=cause,
            call=names.call,
        )

    def _n_visible(self, request: Request, permitted: Permitted) -> int:
        session = request.session
        active = request.verdict.preferences.active if session is None else kept(session).active
        return sum(name in permitted.not_pinned for name in active.names)

    async def _searched(self, asked: SearchArguments, permitted: Permitted) -> dict[str, Tool | None]:
        """Return the names to search among, with their tools where these are known already.

        Raises:
            InputError: there is no such server for this caller.
        """
        listed = await past_middleware(self._host)
        searched: dict[str, Tool | None]
        if listed is None:
            searched = dict.fromkeys(sorted(permitted.names))
        else:
            searched = {tool.name: tool for tool in listed if tool.name in permitted.names}
        if asked.server is None:
            return searched
        of_server = self._names_of(asked.server, permitted)
        if not (kept := {name: tool for name, tool in searched.items() if name in of_server}):
            raise no_such_server(asked.server, self._servers(permitted))
        return kept

    def _names_of(self, server: str, permitted: Permitted) -> frozenset[str]:
        wanted, entries = fold(server), permitted.decision.catalog.entries
        components = self._host.surface.components_of("tool", permitted.decision.catalog)
        named = {
            entries[i].name
            for i in permitted.decision.permitted
            if wanted in entries[i].tags
            or (components and fold(self._host.origin_of(components[i]).server.name) == wanted)
        }
        return frozenset(named)

    def _servers(self, permitted: Permitted) -> frozenset[str]:
        """Return the servers and tags of what the caller may use."""
        decision = permitted.decision
        components = self._host.surface.components_of("tool", decision.catalog)
        told = [i for i in decision.permitted if decision.catalog.entries[i].name in permitted.names]
        servers = {self._host.origin_of(components[i]).server.name for i in told} if components else set()
        tags = {tag for i in told for tag in decision.catalog.entries[i].tags}
        return frozenset((servers | tags) - {""})

    async def _ranked(
        self, text: str, request: Request, permitted: Permitted, searched: Mapping[str, Tool | None], limit: int
    ) -> tuple[Sequence[RankedTool], str]:
        """Return the best tools for some words, and why that is less than it could be."""
        resolution = await self._query.search(request, text, frozenset(searched), limit)
        if resolution.status not in _NOT_RANKED:
            return [tool for tool in resolution.tools if tool.name in searched][:limit], resolution.cause
        cause = resolution.cause or "not ranked"
        self._host.notify(SearchEvent("ranker_fallback", {}, cause))
        decision = permitted.decision
        components = self._host.surface.components_of("tool", decision.catalog)
        rows = [
            (components[i].name, components[i].title or "", components[i].description or "")
            if components
            else (decision.catalog.entries[i].name, "", "")
            for i in decision.permitted
            if decision.catalog.entries[i].name in searched
        ]
        return [RankedTool(name, score) for name, score in plain_matches(text, rows, limit)], cause

    async def _tool(self, name: str, searched: Mapping[str, Tool | None]) -> Tool | None:
        return searched[name] or await self._host.get_tool(name)


def _definition(tool: Tool) -> dict[str, Any]:
    """Return a tool as a model is given it."""
    listed = tool.to_mcp_tool(name=tool.name)
    definition: dict[str, Any] = {"name": listed.name}
    if listed.description:
        definition["description"] = listed.description
    return {**definition, "inputSchema": listed.input_schema}
