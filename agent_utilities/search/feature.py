"""The tool search feature: defers tools for a caller, and provides the entry tools that reach them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast

import mcp_types
from cachetools import LRUCache
from fastmcp.exceptions import ToolError
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.tools.function_tool import FunctionTool
from mcp_types import ToolAnnotations

from agent_utilities.catalog.model import ComponentKind, entry
from agent_utilities.errors import InputError, shortened
from agent_utilities.policy.curation import Preferences
from agent_utilities.policy.decision import Decision, Permitted
from agent_utilities.policy.deferral import is_new_turn
from agent_utilities.policy.entry_names import ALIASES, CALL_ENTRY, EntryNames, entry_names
from agent_utilities.query.feature import Query
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.seam.components import origin_of
from agent_utilities.seam.events import Event
from agent_utilities.seam.feature import ALWAYS_LOADED, Answer, Feature, OwnTool
from agent_utilities.seam.host import CallOption, Host, SearchForm
from agent_utilities.seam.request import Call, Request, RequestOver
from agent_utilities.seam.session import Session
from agent_utilities.seam.verdict import Verdict
from agent_utilities.search.active_set import (
    KEY,
    SearchEvent,
    SearchMetrics,
    SessionSearch,
    Turns,
    kept,
    permitted_by,
    permitted_of,
)
from agent_utilities.search.entry_tools import (
    AS_MEANT,
    DeferredTool,
    call_arguments,
    call_definition,
    deferred_text,
    explained,
    search_definition,
    unwrapped,
)
from agent_utilities.selection.active import written
from agent_utilities.selection.model import NameSet

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def search_tool(names: EntryNames, text: str, answer: Answer, forms: Sequence[SearchForm] = ()) -> Tool:
    """Return `tool_search` for one caller, with a text on what is deferred for them."""
    definition = search_definition(names, text, [form.name for form in forms])
    return _entry_tool(definition, answer, ToolAnnotations(read_only_hint=True))


def call_tool(names: EntryNames, options: Sequence[CallOption] = ()) -> Tool:
    """Return `call_tool`; it answers only malformed calls, since others are turned into calls of the named tool."""
    definition = call_definition(names, options)
    name, known = definition["name"], [option.name for option in options]

    async def refuse(arguments: Mapping[str, Any]) -> NoReturn:
        try:
            what = f"'name' is {shortened(repr(call_arguments(arguments, known)[0]))}"  # its own, once too often
        except InputError as error:
            key = error.source.partition(": ")[2]
            what = f"{key!r} is {error.value!r}" if key else f"there is no {error.value!r}"
        raise ToolError(f"wrong arguments for {name}: {what}; {AS_MEANT}")

    return _entry_tool(definition, refuse)


def _entry_tool(definition: Mapping[str, Any], answer: Answer, annotations: ToolAnnotations | None = None) -> OwnTool:
    return OwnTool(
        name=definition["name"],
        description=definition["description"],
        parameters=definition["inputSchema"],
        annotations=annotations,
        meta=dict(ALWAYS_LOADED),
        answer=answer,
        purpose=f"by which deferred tools are {'called' if annotations is None else 'found'}",
    )


def with_schema(result: dict[str, Any], tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a failed call's result with the tool's schema, where the arguments are what is wrong.

    A function reports errors in its arguments itself, and accepts more than its schema, such as `"5"` for a number; for
    other tools there is only the schema.
    """
    content = result.get("content") or []
    said = " ".join(str(each.get("text", "")) for each in content if isinstance(each, dict))
    is_checked = not isinstance(tool, FunctionTool)
    if (text := explained(tool.name, said, arguments, tool.parameters, is_checked=is_checked)) is None:
        return result
    added = mcp_types.TextContent(type="text", text=text).model_dump(by_alias=True, exclude_none=True)
    return {**result, "content": [*content, added]}


_N_TEXTS = 64
_TextKey = tuple[str, NameSet, int | None, frozenset[str], str]
"""Digest of what is permitted, pins and the most tools of a list, unlisted names, and the search tool's name."""
_ALIASES = tuple(entry("tool", alias, read_only=True) for alias in ALIASES)
"""The entry tools' names as catalog entries, since a deny by name holds for them too."""


class ToolSearch(Feature):
    """Defers tools where a selection or the operator enables it, and activates them again."""

    name, keeps = KEY, SessionSearch
    hears = (SearchEvent, RequestOver)
    needs = (Query,)
    before = ("query",)
    limit_s = None  # the request's own deadline holds

    def __init__(self) -> None:
        self._texts: LRUCache[_TextKey, str] = LRUCache(_N_TEXTS)
        self._count: Callable[[SearchEvent], None] | None = None

    def attach(self, host: Host) -> None:
        super().attach(host)
        self._query = self.needed(Query)
        self._turns = Turns(host, self._query)

    async def prefer(self, request: Request) -> Preferences:
        if not _may_defer(request):
            return request.verdict.preferences
        return await self._turns.prefer(request)

    def register_metrics(self, registry: CollectorRegistry) -> None:
        self._count = SearchMetrics(registry).count

    def notify(self, event: Event) -> None:
        """Count searches for metrics; open a turn after a request whose words opened none.

        Such words came with a call, or with a list that was made before tools could be ranked for them.
        """
        match event:
            case SearchEvent() if self._count is not None:
                self._count(event)
            case RequestOver(request) if request.method in ("tools/list", "tools/call"):
                if request.client is not None and _opens_turn(request):
                    self.host.start(self._turns.turn_later(request))

    # -- instructions and summary --------------------------------------------------------------------------------------

    async def instructions(self, request: Request) -> str | None:
        """Return the text on what is deferred for a caller; None where nothing is."""
        if not _may_defer(request):
            return None
        permitted = await permitted_of(self.host, request.verdict)
        return await self._text(permitted, self._names(permitted, request.verdict)) if permitted.defers else None

    async def summary(self, request: Request, kind: ComponentKind, decision: Decision) -> Mapping[str, Any]:
        """Return the number of tools deferred in a list, and the active set, which a later request may bring."""
        if kind != "tool" or not decision.defers:
            return {}
        unlisted = request.verdict.unlisted.get(decision.catalog.digest, frozenset()) - decision.visible_names
        n_deferred = len(decision.permitted) - len(decision.visible) - len(unlisted)
        return {"deferred": n_deferred, "active": written(decision.active)}

    async def _text(self, permitted: Permitted, names: EntryNames) -> str:
        """Return the text on all tools that may be deferred for a caller, so that activations don't change it."""
        preferences = permitted.preferences
        pins = preferences.pins, preferences.deferral.max_tools
        key = permitted.decision.permitted_digest, *pins, permitted.unlisted, names.search
        if (text := self._texts.get(key)) is None:
            decision = permitted.decision
            components = await self.host.components("tool", decision.catalog)
            deferred: dict[str, DeferredTool] = {}
            for i in decision.permitted:
                if (entry := decision.catalog.entries[i]).name in permitted.not_pinned:
                    server = origin_of(cast(Tool, components[i]), self.host).server.name if components else ""
                    deferred[entry.name] = DeferredTool(server, tuple(sorted(entry.tags)))
            make = partial(deferred_text, list(deferred.values()), len(permitted.not_pinned), search=names.search)
            text = await in_daemon_thread(make)
            if components:  # without them their servers are not known
                self._texts[key] = text
        return text

    # -- entry tools -------------------------------------------------------------------------------------------------

    async def tools_at_head(self, request: Request, decision: Decision) -> Sequence[Tool]:
        if not decision.defers:
            return []
        verdict = request.verdict
        permitted = await permitted_by(self.host, verdict, decision)  # tools may have come since it was prepared
        if permitted.names <= decision.visible_names:
            return []
        names = self._names(permitted, verdict)
        search = search_tool(names, await self._text(permitted, names), partial(self._answer, request), self._forms())
        entry_tools = [search, *([call_tool(names, self._options())] if names.call is not None else [])]
        return entry_tools[: verdict.preferences.deferral.max_tools]

    async def tool(self, name: str, request: Request) -> Tool | None:
        if (permitted := await self._deferring(request)) is None:
            return None
        names = self._names(permitted, request.verdict)
        match names.role(name):
            case "search":
                return search_tool(replace(names, search=name), "", partial(self._answer, request), self._forms())
            case "call":
                return call_tool(names, self._options())
        return None

    async def _deferring(self, request: Request) -> Permitted | None:
        """Return what a request permits, or None where nothing of it may be deferred."""
        permitted = await permitted_of(self.host, request.verdict) if _may_defer(request) else None
        return permitted if permitted is not None and permitted.may_defer else None

    def _forms(self) -> Sequence[SearchForm]:
        return self.host.offered(SearchForm)

    def _options(self) -> Sequence[CallOption]:
        return self.host.offered(CallOption)

    def _names(self, permitted: Permitted, verdict: Verdict) -> EntryNames:
        by_caller = verdict.searched_by_caller
        can_call = verdict.bounds.permits_entry_tool(CALL_ENTRY, by_caller=by_caller)
        denied = [alias.name for alias in _ALIASES if not verdict.bounds.permits_entry_tool(alias, by_caller=by_caller)]
        return entry_names(permitted.decision.permitted_names, can_call=can_call, denied=denied)

    async def _answer(self, request: Request, arguments: Mapping[str, Any]) -> ToolResult:
        from agent_utilities.search.search import Searches  # with ranking, which few servers need

        permitted = await permitted_of(self.host, request.verdict)
        names = self._names(permitted, request.verdict)
        return await Searches(self.host, self._query, self._turns).answer(arguments, request, permitted, names)

    # -- calls -------------------------------------------------------------------------------------------------------

    async def before_call(self, request: Request, call: Call) -> Call:
        """Unwrap a call of `call_tool`, and activate a deferred tool that is called."""
        if request.within or (permitted := await self._deferring(request)) is None:
            return call  # what a program calls is not listed for it
        call = unwrapped(call, self._names(permitted, request.verdict), self._options())
        await self._turns.used(request, call.name, permitted)
        return call

    async def after_request(self, request: Request, result: dict[str, Any], call: Call | None) -> dict[str, Any]:
        """Add the tool's schema to the result of a call by `call_tool` that failed for wrong arguments."""
        if call is None or not call.is_wrapped or call.ok:
            return result
        tool = await self.host.component("tool", call.name)
        permitted = await permitted_of(self.host, request.verdict)
        if not isinstance(tool, Tool) or call.name in permitted.unlisted:
            return result
        return with_schema(result, tool, call.arguments)


def n_evicted(session: Session | None) -> int:
    """Return how many loaded tools were evicted in a session so far."""
    return 0 if session is None else kept(session).n_evicted


def _may_defer(request: Request) -> bool:
    return request.verdict.preferences.deferral.over is not None


def _opens_turn(request: Request) -> bool:
    """Whether the words of a session's request are new, and may still add to its active set."""
    preferences = request.verdict.preferences
    if request.session is None or not _may_defer(request):
        return False
    can_be_answered = not request.lists_tools or preferences.resolution.status != "off"
    return can_be_answered and is_new_turn(kept(request.session).active, preferences.query, preferences.deferral)
