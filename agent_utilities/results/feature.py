"""The feature that bounds what tools answer: over a budget a result is shortened, kept whole, and read in parts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast

from fastmcp.exceptions import ToolError
from fastmcp.tools.base import Tool, ToolResult
from mcp_types import TextContent, ToolAnnotations
from pydantic import TypeAdapter, ValidationError

from agent_utilities.catalog.model import ComponentKind, entry
from agent_utilities.errors import InputError, SettingsError, said_of
from agent_utilities.policy.decision import Decision
from agent_utilities.policy.entry_names import CALL_TOOL, READ_RESULT, RUN_PROGRAM, free_name
from agent_utilities.protocol.fit import ENVELOPE
from agent_utilities.results.content import counted
from agent_utilities.seam.components import origin_of
from agent_utilities.seam.events import Event
from agent_utilities.seam.feature import ALWAYS_LOADED, Feature, OwnTool, Refusal
from agent_utilities.seam.host import CallOption, Host, ResultSource, SharedState, WireMiddleware, find
from agent_utilities.seam.request import (
    RESULT_TOKENS,
    TOOL_OF_TASK,
    TOOLS_USED,
    Call,
    Request,
    ResultRead,
    ToolCalled,
    request_in_force,
)
from agent_utilities.selection.merge import effective
from agent_utilities.selection.model import NO_LIMIT
from agent_utilities.selection.parse import AUTO_TOKENS
from agent_utilities.settings import ResultRule

if TYPE_CHECKING:
    from mcp.server.context import HandlerResult, ServerRequestContext
    from prometheus_client import CollectorRegistry

    from agent_utilities.results.bounded import BoundedResults
    from agent_utilities.results.kept import Owner
    from agent_utilities.seam.caller import Caller
    from agent_utilities.seam.session import Session

logger = logging.getLogger("agent_utilities.results")

_OPTION = CallOption(
    "select",
    {"type": "string", "description": "JMESPath: give only this of the result; the rest can be read"},
    "agent-utilities/result",
)
_RULES = TypeAdapter(dict[str, ResultRule])
_READER = entry("tool", READ_RESULT, read_only=True)
_LINKS_SINCE = "2025-06-18"
"""The first version of the protocol that has links to resources in results."""
_OF_TASKS = ("tasks/get", "tasks/result")


@dataclass(frozen=True, slots=True)
class ResultShortened(Event):
    """A result was over its budget, or something of it was selected.

    Args:
        tool: the tool's name, as its caller knows it.
        tokens: about how many the whole takes.
        shown: about how many were given.
    """

    tool: str
    tokens: int
    shown: int

    def log(self) -> None:
        logger.info(
            "tools/call name=%r answered with %d tokens, of which %d are given", self.tool, self.tokens, self.shown
        )

    def span_event(self) -> tuple[str, Mapping[str, str | int | float]]:
        return "result shortened", {"tokens": self.tokens, "shown": self.shown}


class Results(Feature):
    """Bounds results by the tokens that they take in a prompt, and provides `read_result`.

    Args:
        by_default: the budget where nobody sets one; `NO_LIMIT` for none.
    """

    name = "results"
    after = ("access", "audit", "quotas", "usage", "upstreams", "capabilities", "tool_search", "query")
    hears = (ToolCalled,)
    limit_s = 60.0  # a result of many MiB is not given whole because a busy machine takes long for it

    def __init__(self, by_default: int = NO_LIMIT) -> None:
        self._by_default = by_default
        self._counts: Any = None

    def attach(self, host: Host) -> None:
        super().attach(host)
        host.offer(CallOption, lambda: _OPTION if self._begins_with() < NO_LIMIT else None)
        host.offer(WireMiddleware, lambda: self._resource)

    def check(self) -> None:
        _ = self._rules

    @cached_property
    def _rules(self) -> Mapping[str, ResultRule]:
        return _rules(self.host.operator.settings.results)

    @cached_property
    def _bounded(self) -> BoundedResults:
        from agent_utilities.results.bounded import BoundedResults  # no server needs it before the first long result
        from agent_utilities.results.kept import Kept

        shared = find(self.host, SharedState)
        return BoundedResults(Kept(None if shared is None else shared.redis))

    # -- lists -------------------------------------------------------------------------------------------------------

    async def summary(self, request: Request, kind: ComponentKind, decision: Decision) -> Mapping[str, Any]:
        """Return the budget, where lists are made by one."""
        tokens = self._of_lists(request)
        return {"result_tokens": tokens} if kind == "tool" and tokens < NO_LIMIT else {}

    async def tools_at_head(self, request: Request, decision: Decision) -> Sequence[Tool]:
        """List `read_result` where results may be shortened; where tools are deferred `call_tool` reaches it."""
        if (
            not self._may_shorten(request)
            or not self._can_read(request)
            or not decision.permitted
            or (decision.defers and len(decision.visible) < len(decision.permitted))
        ):
            return ()
        return (self._reader(free_name(READ_RESULT, decision.permitted_names), request),)

    async def tool(self, name: str, request: Request) -> Tool | None:
        if not name.endswith(READ_RESULT) or not self._can_read(request):
            return None
        decision = await self.host.decide("tool", request.verdict)
        return self._reader(name, request) if name == free_name(READ_RESULT, decision.permitted_names) else None

    def _can_read(self, request: Request) -> bool:
        """Whether a caller may use `read_result` of this server, and not of one that is mounted in it.

        Where the caller alone has asked for a budget, the operator's allow-lists must name it, as other entry tools.
        """
        if request.entered and request.entered[-1].host is not self.host:
            return False
        return request.verdict.bounds.permits_entry_tool(_READER, by_caller=self._begins_with() == NO_LIMIT)

    def _reader(self, name: str, request: Request) -> Tool:
        from agent_utilities.results.reading import READ_RESULT_DESCRIPTION, READ_RESULT_SCHEMA

        async def answer(arguments: Mapping[str, Any]) -> ToolResult:
            return await self._answer(arguments, request, name)

        return OwnTool(
            name=name,
            description=READ_RESULT_DESCRIPTION,
            parameters=dict(READ_RESULT_SCHEMA),
            annotations=ToolAnnotations(read_only_hint=True),
            meta=dict(ALWAYS_LOADED),
            answer=answer,
            purpose="by which the rest of long results is read",
        )

    # -- calls -------------------------------------------------------------------------------------------------------

    async def admit(self, request: Request, call: Call) -> None:
        """Refuse a call whose `select` can't be read, before the tool has done anything.

        Raises:
            Refusal: it is no JMESPath expression.
        """
        if not (expression := _asked_select(call.params)):
            return
        from agent_utilities.results.select import parsed

        try:
            parsed(expression)
        except InputError as error:
            raise Refusal(f"the tool was not called: {error}") from error

    async def after_request(self, request: Request, result: dict[str, Any], call: Call | None) -> dict[str, Any]:
        """Shorten the result of a tool, of a call or of a background task.

        Lists leave output schemas out where results may be shortened: a client that has one refuses what is not whole.
        """
        if request.method == "tools/list":
            return _without_schemas(result) if self._may_shorten(request) else result
        if call is not None:
            return await self._fitted(request, result, call.name, _asked_select(call.params))
        if request.method not in _OF_TASKS:
            return result
        inner = result if request.method == "tasks/result" else result.get("result")
        name = await self._tool_of_task(request)
        if not isinstance(inner, dict) or name is None:
            return result
        fitted = await self._fitted(request, inner, name, "")
        return result if fitted is inner else fitted if inner is result else {**result, "result": fitted}

    async def _fitted(self, request: Request, result: dict[str, Any], name: str, select: str) -> dict[str, Any]:
        if request.verdict.outer:  # a tool that calls others reads their results itself
            return result
        if request.within:  # no prompt gets it, but what a program makes of it
            request.values[RESULT_TOKENS] = await counted(result), 0
            return result
        rule = await self._rule(name)
        tokens = request.verdict.effective.budget.of_call(self._by_default, rule.tokens)
        n_tokens = await counted(result, tokens)
        request.values[RESULT_TOKENS] = n_tokens, n_tokens
        select = select or rule.select
        if n_tokens <= tokens and not select and not rule.compact:
            return result
        decision = await self.host.decide("tool", request.verdict)
        made_of = request.values.get(TOOLS_USED)
        if made_of is None and name not in decision.permitted_names:  # of the server's own, such as `read_result`
            return result
        is_listed_whole = not self._may_shorten(request)
        if is_listed_whole and "structuredContent" in result and not select:
            return result  # its client was listed the schema of the whole
        from agent_utilities.results.bounded import Wanted

        reader = free_name(READ_RESULT, decision.permitted_names) if self._can_read(request) else ""
        through = CALL_TOOL if decision.defers and len(decision.visible) < len(decision.permitted) else ""
        has_links = request.client is None or request.client.version >= _LINKS_SINCE
        form = tokens, select, rule.compact, is_listed_whole, has_links
        wanted = Wanted(*form, reader, through, sorted(made_of or ()))
        owner = owner_of(request.caller, request.session)
        fitted, about = await self._bounded.fitted(result, wanted, owner, name)
        if about:
            request.values[RESULT_TOKENS] = n_tokens, n_shown = about["tokens"], about.get("shown", about["tokens"])
            self.host.notify(ResultShortened(name, n_tokens, n_shown))
        return fitted

    async def _tool_of_task(self, request: Request) -> str | None:
        """Return the name of the tool whose task a request is about, or None."""
        from agent_utilities.compat.tasks import tool_of_task

        if (name := request.values.get(TOOL_OF_TASK)) is not None:
            return str(name)
        found = await tool_of_task(self.host, str(request.params.get("taskId")))
        return None if found is None else found[0]

    async def _rule(self, name: str) -> ResultRule:
        """Return the operator's rule for a tool: of the settings file, else of its server's entry."""
        if (rule := self._rules.get(name)) is not None:
            return rule
        for source in self.host.offered(ResultSource):
            if (rules := source.rules()) and isinstance(tool := await self.host.component("tool", name), Tool):
                origin = origin_of(tool, self.host)
                return rules.get(origin.server.name, {}).get(origin.own_name or name, _NO_RULE)
        return _NO_RULE

    def _begins_with(self) -> int:
        """Return the budget of a caller who says nothing."""
        return effective(self.host.operator.selection).budget.of_lists(self._by_default)

    def _of_lists(self, request: Request) -> int:
        return request.verdict.effective.budget.of_lists(self._by_default)

    def _may_shorten(self, request: Request) -> bool:
        """Whether a result of this caller's may be shortened, by a budget or by a tool's own rule."""
        has_rules = bool(self._rules) or any(source.rules() for source in self.host.offered(ResultSource))
        return (has_rules or self._of_lists(request) < NO_LIMIT) and not request.verdict.outer

    # -- reading on --------------------------------------------------------------------------------------------------

    async def _reading(self, request: Request) -> tuple[Owner, int, Callable[[str], bool]]:
        """Return whose results a request may read, the tokens of an answer, and what says which tools it may use."""
        decision = await self.host.decide("tool", request.verdict)
        tokens = request.verdict.effective.budget.of_call(self._by_default)
        return owner_of(request.caller, request.session), tokens, partial(_may_use, request, decision)

    async def _answer(self, arguments: Mapping[str, Any], request: Request, reader: str) -> ToolResult:
        owner, tokens, may_use = await self._reading(request)
        try:
            answer = await self._bounded.read(arguments, owner, min(tokens, _MOST_READ), may_use, reader)
        except InputError as error:
            raise ToolError(str(error)) from error
        self.host.notify(ResultRead(*answer[1:]))
        return ToolResult(content=[TextContent(text=text) for text in answer.shown.blocks])

    async def _resource(self, ctx: ServerRequestContext[Any, Any], call_next: Any) -> HandlerResult:
        """Answer `resources/read` of a kept result; any other request, and other results, go on."""
        uri, request = str((ctx.params or {}).get("uri")), request_in_force()
        if ctx.method != "resources/read" or request is None or not uri.startswith("result://"):
            return cast("HandlerResult", await call_next(ctx))
        if (contents := await self._bounded.resource(uri, *await self._reading(request))) is None:
            return cast("HandlerResult", await call_next(ctx))
        envelope = {} if request.client is not None else ENVELOPE
        return {**envelope, "contents": contents}

    # -- what it says of itself --------------------------------------------------------------------------------------

    def start_lines(self) -> Sequence[str]:
        tokens = self._begins_with()
        return [] if tokens == NO_LIMIT else [f"results of over {tokens:,} tokens are shortened, and kept to be read"]

    def health(self) -> Mapping[str, Any]:
        cause = self._bounded.kept.cause if "_bounded" in self.__dict__ else ""
        return {"results": {"status": "apart", "cause": cause}} if cause else {}

    def register_metrics(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter

        labels = ["server", "tool"]
        whole = Counter("mcp_result_tokens", "Tokens of results, as tools gave them.", labels, registry=registry)
        kept = Counter("mcp_result_tokens_kept", "Those of them that were left out.", labels, registry=registry)
        self._counts = whole, kept

    def notify(self, event: Event) -> None:
        """Count the tokens of results; names of tools that nobody has are no labels."""
        if self._counts is None or not isinstance(event, ToolCalled) or RESULT_TOKENS not in event.request.values:
            return
        if event.name in event.decision.permitted_names:
            n_tokens, n_shown = event.request.values[RESULT_TOKENS]
            server = self.host.tool_facts(event.decision.catalog, event.name).server or self.host.name
            for counter, n in zip(self._counts, (n_tokens, n_tokens - n_shown), strict=True):
                counter.labels(server, event.name).inc(max(0, n))


def _may_use(request: Request, decision: Decision, tool: str) -> bool:
    """Whether a caller may use a tool, or may run programs where the result is a program's."""
    is_program = tool.endswith(RUN_PROGRAM) and request.verdict.bounds.permits_entry_tool(_PROGRAM, by_caller=False)
    return is_program or tool in decision.permitted_names


_PROGRAM = entry("tool", RUN_PROGRAM, read_only=True)
_NO_RULE = ResultRule()
_MOST_READ = AUTO_TOKENS * 4
"""The most tokens of one answer of `read_result`, where results are not bounded otherwise."""


def owner_of(caller: Caller | None, session: Session | None) -> Owner:
    """Return the owner of a request's results; a client's id alone identifies nobody, as many may use it."""
    from agent_utilities.results.kept import Owner

    if caller is not None and caller.subject:
        return Owner("subject", caller.person)
    if session is not None:
        return Owner("session", (session.id,))
    if caller is not None and caller.token:
        digest = blake2b(caller.token.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return Owner("token", (digest,))
    return Owner("handle")


def for_gateway() -> Results:
    """Return the feature of a gateway, whose results are shortened unless somebody says otherwise."""
    return Results(AUTO_TOKENS)


def _rules(by_tool: Mapping[str, Any]) -> dict[str, ResultRule]:
    """Read the operator's rules.

    Raises:
        SettingsError: one can't be read.
    """
    from agent_utilities.results.select import parsed

    try:
        rules = _RULES.validate_python(by_tool)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise SettingsError("it can't be read", first["input"], f"results.{place}", said_of(first["msg"])) from None
    for name, rule in rules.items():
        if rule.select:
            try:
                parsed(rule.select)
            except InputError as error:
                raise SettingsError(error.what, rule.select, f"results.{name}.select", error.hint) from None
    return rules


def _asked_select(params: Mapping[str, Any]) -> str:
    """Return the expression in the `_meta` of a call; empty where there is none."""
    meta = params.get("_meta")
    own = meta.get("agent-utilities/result") if isinstance(meta, Mapping) else None
    expression = own.get("select") if isinstance(own, Mapping) else None
    return expression if isinstance(expression, str) else ""


def _without_schemas(result: dict[str, Any]) -> dict[str, Any]:
    tools = [_without_schema(each) if "outputSchema" in each else each for each in result["tools"]]
    return {**result, "tools": tools}


def _without_schema(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in tool.items() if key != "outputSchema"}
