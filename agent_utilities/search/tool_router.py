"""`ToolRouter`: tool search for a Python agent loop, by the same rules as a server's."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

from agent_utilities.catalog.context import ContextReport
from agent_utilities.errors import InputError, SettingsError
from agent_utilities.policy.deferral import Change, is_frozen
from agent_utilities.policy.entry_names import CALL_TOOL
from agent_utilities.query.ranking.base import Ranker
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.search.entry_tools import call_arguments, explained, n_results, search_arguments
from agent_utilities.search.router_tools import (
    Format,
    RoutedTools,
    ToolArgumentsError,
    Turned,
    formatted,
    preferences_of_arguments,
    result_budget,
    result_text,
    why_no_turn,
)
from agent_utilities.search.search_result import SearchResult, nearest_names, search_result, selected_names
from agent_utilities.search.shared_tools import SharedTools, open_better, rank
from agent_utilities.selection.active import NOTHING_ACTIVE, Active, written
from agent_utilities.selection.model import NO_LIMIT, RankedTool

if TYPE_CHECKING:
    from agent_utilities.programs.routed import RoutedPrograms
    from agent_utilities.results.routed import RoutedResults

_LIST_CHANGED = "notifications/tools/list_changed"
Call = Callable[[str, dict[str, Any]], Awaitable[Any]]


class ToolRouter:
    """Shows a model the tools that it needs, and lets it find the others.

    Tools that are not pinned are deferred: a message attaches those that answer it, a search loads what it finds, a
    call of a deferred tool activates it. The list only grows at its end, until loaded tools go out for others. What is
    active is one value that each step replaces at once, after whatever it waited for: tasks may share a router, and
    one that is cancelled has changed nothing.

    Args:
        tools_or_client: tools as FastMCP, the MCP SDK, Anthropic or OpenAI write them, objects or mappings; or a
            `fastmcp.Client`, which is connected by `async with router` where it is not.
        pins: names of tools that are always listed, in which `*` stands for any characters.
        initial_k: the most tools that the first message attaches.
        search_k: the most that each later one adds.
        search_turns: messages after which the set is frozen: only search, load and calls add to it. 0 defers nothing.
        max_active: the most tools that search, load and calls keep active; 0 for any number.
        max_tools: the most tools that are listed, entry tools and pins counted; None for any number.
        tool_search: `on`, `off`, `auto` (defer where there are more than 50), or `auto:N`.
        ranker: `lexical`, `hybrid` or `embedding`, what embeds as `MCP_EMBEDDINGS` takes it, or a `Ranker`. Words
            alone rank until its index is made.
        active: the set to start with, or its value as a server's result has it.
        host_tools: names of the host's own tools, which are never touched: entry tools take other names than these.
        call: calls a tool by name and arguments, where there is no client.
        result_tokens: the most tokens of a result, `auto` for 8,000, or `off`: what is longer is shortened, and
            `read_result`, which is listed then, reads the rest.
        programs: `read` or `all`: `run_program`, which is listed then, runs programs over the tools that say they only
            read, or over all; it needs `pydantic-monty`. `off` for none.

    Raises:
        InputError: an argument can't be meant.
    """

    def __init__(
        self,
        tools_or_client: Any,
        *,
        pins: Collection[str] | str = (),
        initial_k: int = 30,
        search_k: int = 10,
        search_turns: int = 7,
        max_active: int = 24,
        max_tools: int | None = None,
        tool_search: str = "on",
        ranker: str | Ranker = "lexical",
        active: Active | str = NOTHING_ACTIVE,
        host_tools: Collection[str] = (),
        call: Call | None = None,
        result_tokens: int | str = "off",
        programs: Literal["off", "read", "all"] = "off",
    ) -> None:
        preferences = preferences_of_arguments(
            pins=pins,
            tool_search=tool_search,
            initial_k=initial_k,
            search_k=search_k,
            search_turns=search_turns,
            max_active=max_active,
            max_tools=max_tools,
            active=active,
        )
        self._shared = SharedTools(tools_or_client, preferences, frozenset(host_tools), open_better(ranker))
        self._active = preferences.active
        self._call = call
        self._tokens = result_budget(result_tokens)
        self._kept: RoutedResults | None = None
        if programs not in ("off", "read", "all"):
            raise SettingsError("it can't be read", programs, "ToolRouter: programs", "write off, read or all")
        self._runs = programs
        self._ran: list[RoutedPrograms] = []  # one, which children share

    # -- the tools ---------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Connect the client, where there is one, and list its tools."""
        client = self._shared.client
        if client is not None:
            if hasattr(client, "__aenter__"):
                await client.__aenter__()
            try:
                await self._shared.refresh()
            except BaseException:
                await self.__aexit__(None, None, None)
                raise
        return self

    async def __aexit__(self, *failure: Any) -> None:
        """Disconnect the client, and end the processes of programs."""
        for each in self._ran:
            await each.close()
        if hasattr(self._shared.client, "__aexit__"):
            await self._shared.client.__aexit__(*failure)

    async def refresh(self) -> None:
        """List the client's tools anew; where that fails, the last list stays, and the error is raised."""
        await self._shared.refresh()

    async def heard(self, message: object) -> None:
        """Handle a message of the server: after `tools/list_changed` the next turn or search lists the tools anew.

        For a client's `message_handler`: `Client(url, message_handler=lambda message: router.heard(message))`.
        """
        if getattr(message, "method", None) == _LIST_CHANGED:
            self._shared.is_stale = True

    async def indexed(self) -> None:
        """Wait until the index is as good as it gets, where more than words rank."""
        if (better := (await self._shared.searchable()).better) is not None:
            await asyncio.wait([asyncio.wrap_future(better)])

    def knows(self, name: str) -> bool:
        """Whether a name is an entry tool's or one of the router's tools, and not one of the host's own."""
        is_own = self._routed.entry.role(name) is not None or self._answers(name) is not None
        return is_own or self._own_name(name) is not None

    def name_of(self, name: str) -> str:
        """Return the tool's own name for one that a model knows it under; any other name as it is."""
        return self._own_name(name) or name

    def _own_name(self, name: str) -> str | None:
        """Return the name of the tool that a model means; None where it is not one of the router's."""
        routed = self._routed
        own = routed.own(name)
        return own if own in routed.definitions and name not in routed.host_tools else None

    @property
    def _results(self) -> RoutedResults | None:
        """The bound of results; None where there is none."""
        if self._kept is None and self._tokens < NO_LIMIT:
            from agent_utilities.results.routed import RoutedResults

            self._kept = RoutedResults(self._tokens, {*self._routed.names, *self._routed.host_tools})
        return self._kept

    def _answers(self, name: str) -> Callable[[Mapping[str, Any]], Awaitable[Any]] | None:
        """Return what answers calls of `read_result` or `run_program`; None for any other name."""
        if self._results is not None and name == self._results.reader:
            return self._results.read
        return self._run if self._programs is not None and name == self._programs.runner else None

    @property
    def _programs(self) -> RoutedPrograms | None:
        """What runs programs; None where none are run."""
        if not self._ran and self._runs != "off":
            from agent_utilities.programs.routed import RoutedPrograms

            taken = {*self._routed.names, *self._routed.host_tools}
            self._ran.append(RoutedPrograms(only_read=self._runs == "read", taken=taken))
        return self._ran[0] if self._ran else None

    async def _run(self, arguments: Mapping[str, Any]) -> Any:
        """Run a program; its calls go to the tools, and their results into it alone."""
        assert self._programs is not None
        result = await self._programs.run(arguments, self._routed.definitions, self._made)
        if self._results is None or result.is_error:
            return result
        return await self._results.fitted("\n".join(block.text for block in result.content), self._programs.runner)

    @property
    def _routed(self) -> RoutedTools:
        """The tools as they were last listed."""
        return self._shared.listed

    # -- what is listed ----------------------------------------------------------------------------------------------

    def tools(self, format: Format = "mcp") -> list[dict[str, Any]]:
        """Return what to give the model: entry tools while any tool is deferred, pins, active tools as they came.

        Args:
            format: `mcp` definitions, `openai` chat completions functions, or `anthropic` tools. The names of the last
                two are at most 64 letters, digits, `_` and `-`; `name_of` leads back.
        """
        routed = self._routed
        own = [] if (results := self._results) is None else [results.definition]
        own += [] if (programs := self._programs) is None else [programs.definition(routed.definitions)]
        return formatted([*own, *routed.shown(self._active)], routed.legal, routed.host_tools, format)

    @property
    def active(self) -> Active:
        """What is active, without tools that are no longer there: those that come back are active again."""
        return self._routed.permitted.bounded(self._active)

    @property
    def active_value(self) -> str:
        """The same as the value of `x-mcp-active`, `?active=` or `_meta`, by which a server lists the same set."""
        return written(self.active)

    def context(self) -> ContextReport:
        """Return what the tools cost in a prompt: by section and server, and what is deferred would."""
        return self._routed.context(self._active)

    def child(self, inherit: bool = True) -> ToolRouter:
        """Return a sub-agent's router: on the same tools and index, its set independent of this one from now on.

        Args:
            inherit: whether it starts with what is active here and the turns that were taken; else with nothing.
        """
        child = copy.copy(self)
        child._active = self._active if inherit else NOTHING_ACTIVE  # noqa: SLF001 - of its own class
        return child

    # -- steps -------------------------------------------------------------------------------------------------------

    async def turn(self, message: str) -> Turned:
        """Attach the tools that answer a message of the user; nothing where it is blank, the last one, or too late.

        Where nothing is attached `cause` says why, as a list's `_meta` does.

        Raises:
            Exception: whatever the client raises, where its tools were never listed.
        """
        query = message.strip()
        tools = await self._shared.searchable()
        change = Change(self.active)
        cause = why_no_turn(tools.permitted, self.active, query)
        if not cause:
            deferral = tools.permitted.deferral
            most = max(deferral.initial_k, deferral.search_k) + len(tools.permitted.pinned)
            ranking, cause = await rank(tools, query, None, most)
            # Whatever was waited for, tools and set may have changed meanwhile.
            why_none = ranking.why_none or why_no_turn(self._routed.permitted, self.active, query)
            answering = [tools.names[place] for place in ranking.indexes[: ranking.n_claimed]]
            change = self._routed.permitted.turn(self.active, query, answering)
            self._active = change.active
            if not change.added:
                is_listed = set(answering) <= set(self._routed.listed(self.active))
                why_none = why_none or ("what answers is listed already" if is_listed else "no room for what answers")
                cause = ", ".join(filter(None, (cause, why_none)))
        active = change.active
        return Turned(
            change.added, change.evicted, active.n_turns, is_frozen(active, self._routed.permitted.deferral), cause
        )

    async def search(self, query: str, max_results: int | None = None, server: str | None = None) -> SearchResult:
        """Return the tools that fit some words, or that `select:a,b` names, and activate what comes in full.

        Args:
            query: what the tools should do, or `select:` and names.
            max_results: how many come, all in full; None for 10, the best in full within 560 to 2,000 tokens.
            server: only tools of this server, or with this tag.

        Raises:
            InputError: the query is blank or too long, or there is no such server.
        """
        wanted, limit = selected_names(query), n_results(max_results)
        known = await self._shared.searchable()
        places = None if server is None else known.of_server(server)
        names = frozenset(known.names if places is None else (known.names[place] for place in places))
        unknown: list[str] = []
        cause = ""
        if wanted:
            own = {name: known.own(name) for name in wanted}
            ranked = [RankedTool(name) for name in own.values() if name in names]
            unknown = [name for name in wanted if own[name] not in names]
            max_results = len(wanted)
        else:
            ranking, cause = await rank(known, query.strip(), places, limit)
            best = zip(ranking.indexes, ranking.scores, ranking.matched, strict=True)
            ranked = [RankedTool(known.names[place], score, words) for place, score, words in best]
        make = partial(search_result, max_results=max_results, unknown=unknown, cause=cause)
        result = await in_daemon_thread(partial(make, query, ranked, known.definitions, names))
        change = self._load(*(tool.name for tool in result.tools))
        return replace(
            result,
            activated=change.added,
            evicted=change.evicted,
            n_deferred=len(self._routed.names) - len(self._routed.listed(change.active)),
            active=written(change.active),
            call=self._routed.entry.call,
        )

    def _load(self, *names: str) -> Change:
        """Activate tools that are not pinned; active ones become the most recently used."""
        permitted = self._routed.permitted
        if not permitted.defers or permitted.not_pinned.isdisjoint(names):
            return Change(self.active)
        change = permitted.load(self.active, names)
        self._active = change.active
        return change

    def touch(self, name: str) -> Change:
        """Take note of a call: it activates a deferred tool, and makes an active one the most recently used."""
        own = self._own_name(name)
        return Change(self.active) if own is None else self._load(own)

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Call a tool and return its result, after `touch`; results and errors are the tool's own.

        Args:
            name: of the tool; one that the router does not know is called as it is.
            options: for the client's `call_tool`, such as `timeout` or `progress_handler`.

        Raises:
            InputError: there is nothing to call tools with.
        """
        self.touch(name)
        return await self._called(self.name_of(name), dict(arguments or {}), **options)

    async def _called(self, own_name: str, arguments: dict[str, Any], **options: Any) -> Any:
        result = await self._made(own_name, arguments, **options)
        return result if self._results is None else await self._results.fitted(result, own_name)

    async def _made(self, own_name: str, arguments: dict[str, Any], **options: Any) -> Any:
        if self._call is not None:
            return await self._call(own_name, arguments, **options)
        if self._shared.client is None:
            raise InputError("nothing to call tools with", own_name, "ToolRouter", "give it a client, or call=")
        return await self._shared.client.call_tool(own_name, arguments, **options)

    async def handle(self, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Run what a model called: `tool_search`, `call_tool`, their aliases, or a tool.

        Returns:
            A `SearchResult`, whose `text` is for the model, or the tool's own result.

        Raises:
            InputError: the name is not known, or the arguments of an entry tool can't be meant; the message is for the
                model.
            ToolArgumentsError: arguments do not fit a tool that was not listed; the message has its schema.
        """
        if not self.knows(name):
            raise InputError("not a tool of this router", name, "ToolRouter.handle", "ask router.knows(name) first")
        own_arguments = dict(arguments or {})
        if (answer := self._answers(name)) is not None:
            return await answer(own_arguments)
        match self._routed.entry.role(name):
            case "search":
                search = search_arguments(own_arguments)
                return await self.search(search.query, search.max_results, search.server)
            case "call":
                return await self._call_named(*call_arguments(own_arguments))
        if self.name_of(name) in self._routed.listed(self.active):
            return await self.call(name, own_arguments)
        return await self._call_named(name, own_arguments)

    text_of = staticmethod(result_text)

    async def _call_named(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool whose schema the model may not have seen."""
        routed = self._routed
        if (answer := self._answers(name)) is not None:
            return await answer(arguments)
        if routed.entry.role(name) == "search":
            return await self.handle(routed.entry.search, arguments)
        # Here a name means one of these tools, even where the host has one of the same name.
        own = routed.own(name)
        definition = routed.definitions.get(own)
        if definition is None:
            near = await in_daemon_thread(partial(nearest_names, name, routed.names))
            hint = f"did you mean {' or '.join(near)}?" if near else f"find one with {routed.entry.search}"
            raise InputError("unknown tool", name, f"{CALL_TOOL}: name", hint)
        self._load(own)
        try:
            return await self._called(own, arguments)
        except Exception as error:
            schema = definition["inputSchema"]
            if (explanation := explained(own, str(error), arguments, schema)) is not None:
                raise ToolArgumentsError(error, explanation, schema) from error
            raise
