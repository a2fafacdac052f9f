"""`Searches` answers `tool_search`: words or names in, definitions out, which are loaded where there is a session."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from fastmcp.exceptions import ToolError
from fastmcp.tools.base import Tool, ToolResult

from agent_utilities.catalog.model import Entry
from agent_utilities.catalog.words import asks_for_everything
from agent_utilities.errors import InputError
from agent_utilities.policy.decision import Permitted
from agent_utilities.policy.entry_names import EntryNames
from agent_utilities.query.feature import Query
from agent_utilities.query.ranking.base import plain_matches
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.seam.components import as_models_read, origin_of
from agent_utilities.seam.host import Host, SearchForm
from agent_utilities.seam.request import Request
from agent_utilities.search.active_set import NOT_RANKED, SearchEvent, Turns, kept
from agent_utilities.search.entry_tools import SearchArguments, n_results, search_arguments
from agent_utilities.search.search_result import SearchResult, names_of_server, search_result, selected_names
from agent_utilities.selection.active import written
from agent_utilities.selection.channels import META_KEY
from agent_utilities.selection.model import RankedTool
from agent_utilities.usage.feature import ToolsSought


class Searches:
    """Answers `tool_search` for callers."""

    def __init__(self, host: Host, query: Query, turns: Turns) -> None:
        self._host, self._query, self._turns = host, query, turns

    async def answer(
        self, arguments: Mapping[str, Any], request: Request, permitted: Permitted, names: EntryNames
    ) -> ToolResult:
        """Return the result of a search.

        Raises:
            ToolError: its arguments can't be read, or there is no such server for this caller.
        """
        started = time.perf_counter()
        arguments = dict(arguments)
        forms = {form.name: form for form in self._host.offered(SearchForm)}
        form = forms.get(arguments.pop("as", "")) if arguments.get("as") in ("schema", *forms) else None
        try:
            result = await self._result(search_arguments(arguments), request, permitted, names)
        except InputError as error:
            raise ToolError(str(error)) from None
        counts = {"found": len(result.names), "loaded": len(result.activated)}
        counts |= {"evicted": len(result.evicted), "deferred": result.n_deferred}
        self._host.notify(SearchEvent("tool_search", counts, result.cause, time.perf_counter() - started))
        if not selected_names(result.query):
            self._host.notify(ToolsSought(result.query, result.names, request))
        if form is not None and result.names:
            text = await form.write(request, result.names)
            return ToolResult(f"{text}\n{result.cause}".rstrip(), meta={META_KEY: {"active": result.active}})
        return ToolResult(result.text, result.as_dict(), {META_KEY: {"active": result.active}})

    async def _result(
        self, search: SearchArguments, request: Request, permitted: Permitted, names: EntryNames
    ) -> SearchResult:
        searched = await self._searched(search, permitted)
        wanted = selected_names(search.query)
        most, cause = search.max_results, ""
        if wanted:
            most = len(wanted)
            ranked = [RankedTool(name) for name in wanted if name in searched]
        elif asks_for_everything(search.query):
            seen = (request.verdict.preferences if request.session is None else kept(request.session)).active.names
            ranked = [RankedTool(name) for name in sorted(searched, key=seen.__contains__)][: n_results(most)]
        else:
            ranked, cause = await self._ranked(search.query.strip(), request, permitted, searched, n_results(most))
        definitions: dict[str, dict[str, Any]] = {}
        for each in ranked:
            tool = searched[each.name] or await self._host.component("tool", each.name)
            if isinstance(tool, Tool):
                definitions[tool.name] = as_models_read(tool)
        # What can't be got after all is none of theirs: withdrawn, refused by its own check, or disabled.
        withdrawn = {each.name for each in ranked} - definitions.keys()
        known = [name for name in searched if name not in withdrawn] if withdrawn else list(searched)
        unknown = [name for name in wanted if name not in definitions]
        make = partial(search_result, max_results=most, unknown=unknown, cause=cause)
        result = await in_daemon_thread(partial(make, search.query, ranked, definitions, known))
        change = await self._turns.loaded(request, [tool.name for tool in result.tools], permitted)
        session = request.session
        active = request.verdict.preferences.active if session is None else kept(session).active
        return replace(
            result,
            activated=change.added if request.session is not None else (),
            evicted=change.evicted,
            n_deferred=len(permitted.not_pinned) - len(permitted.not_pinned.intersection(active.names)),
            active=written(change.active),
            call=names.call,
        )

    async def _searched(self, search: SearchArguments, permitted: Permitted) -> dict[str, Tool | None]:
        """Return the names to search among, with their tools where these are known already.

        Raises:
            InputError: there is no such server for this caller.
        """
        listed = await self._host.listed_tools(where="seen")
        searched: dict[str, Tool | None]
        if listed is None:
            searched = dict.fromkeys(permitted.in_order)
        else:
            searched = {tool.name: tool for tool in listed if tool.name in permitted.names}
        if search.server is None:
            return searched
        tools = [
            (entry, "" if tool is None else origin_of(tool, self._host).server.name)
            for entry, tool in await self._permitted_tools(permitted)
            if entry.name in searched
        ]
        of_server = names_of_server(search.server, tools)
        return {name: tool for name, tool in searched.items() if name in of_server}

    async def _permitted_tools(self, permitted: Permitted) -> list[tuple[Entry, Tool | None]]:
        decision = permitted.decision
        components = cast(Sequence[Tool], await self._host.components("tool", decision.catalog))
        return [(decision.catalog.entries[i], components[i] if components else None) for i in decision.permitted]

    async def _ranked(
        self, text: str, request: Request, permitted: Permitted, searched: Mapping[str, Tool | None], limit: int
    ) -> tuple[list[RankedTool], str]:
        """Return the best tools for some words, and why that is less than it could be."""
        resolution = await self._query.search(request, text, frozenset(searched), limit)
        if resolution.status not in NOT_RANKED:
            return [tool for tool in resolution.tools if tool.name in searched][:limit], resolution.cause
        cause = resolution.cause or "not ranked"
        self._host.notify(SearchEvent("ranker_fallback", {}, cause))
        rows = [
            (entry.name, tool.title or "", tool.description or "") if tool is not None else (entry.name, "", "")
            for entry, tool in await self._permitted_tools(permitted)
            if entry.name in searched
        ]
        matches = await in_daemon_thread(partial(plain_matches, text, rows, limit))
        return [RankedTool(name, score) for name, score in matches], cause
