"""SDK middleware: makes the verdict on each request, and adds the decision to its result."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import mcp_types
from fastmcp.server.dependencies import get_http_request
from fastmcp.utilities.versions import parse_version_key
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import validate_mcp_param_headers
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from opentelemetry import trace
from pydantic import BaseModel
from starlette.requests import Request as HttpRequest

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.compat.sdk_server import connection_of
from agent_utilities.errors import SelectionError
from agent_utilities.policy.decision import revision
from agent_utilities.policy.entry_names import CALL_TOOL
from agent_utilities.policy.entry_names import EVERY_NAME as ENTRY_NAMES
from agent_utilities.protocol import fit
from agent_utilities.seam.events import RequestServed
from agent_utilities.seam.feature import Asked, BoundError, Refusal
from agent_utilities.seam.host import CallRecord, find
from agent_utilities.seam.request import (
    HANDED_ON,
    MAKE_CALL,
    RELAYED,
    UNFIT,
    Call,
    Request,
    RequestBegan,
    RequestOver,
    ToolCalled,
    ToolsListed,
    request_in_force,
    sender_of,
    serving,
)
from agent_utilities.seam.session import Client
from agent_utilities.seam.verdict import Verdict
from agent_utilities.selection.channels import META_KEY
from agent_utilities.selection.model import NOTHING, Selection
from agent_utilities.selection.parse import read_meta
from agent_utilities.server.answers import may_complete, may_use_task, set_cache
from agent_utilities.server.callers import shorten
from agent_utilities.server.entering import keep_for_task, request_of_task
from agent_utilities.server.wire.lists import Lists, page_in_force
from agent_utilities.server.wire.summary import summarise

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer

logger = logging.getLogger("agent_utilities.wire")

_LISTS: dict[str, ComponentKind] = {
    "tools/list": "tool",
    "prompts/list": "prompt",
    "resources/list": "resource",
    "resources/templates/list": "template",
}
_LOOK_UPS: dict[str, tuple[ComponentKind, str]] = {
    "tools/call": ("tool", "name"),
    "prompts/get": ("prompt", "name"),
    "resources/read": ("resource", "uri"),
    "resources/subscribe": ("resource", "uri"),
    "skills/get": ("resource", "uri"),
}
_N_UNFIT = 20
"""The most unfit components that a list names, to bound its size; `gateway check` and the log name them all."""
_GREETINGS = ("initialize", "server/discover")
_NO_COMPLETION = mcp_types.CompleteResult(completion=mcp_types.Completion(values=[]))

_Context = ServerRequestContext[Any, Any]


class Wire:
    """Middleware of the SDK's server: the verdict made here holds for everything that serves the request.

    A server mounted in another has no part in it: the verdict is made where the request arrives, on the names its
    caller sees.
    """

    def __init__(self, host: AgentServer) -> None:
        self._host, self._features = host, host.features
        Lists(host)

    async def __call__(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None:
            return await call_next(ctx)
        self._host.sessions.of(ctx)  # it keeps its place, however this request ends
        # Read first: the verdict may list tools, and the headers of this call had none to be checked against.
        is_call = ctx.method == "tools/call"
        was_listed = is_call and self._host.surface.catalogs.of_caller("tool") is not None
        outer = request_in_force() or await request_of_task(self._host)
        request = await self._request(ctx, outer)
        if is_call:
            request.values[MAKE_CALL] = partial(self._call_within, ctx, call_next, outer)
        self._note(ctx, request.verdict)
        self._host.notify(RequestBegan(request))
        result: HandlerResult = None
        try:
            with serving(request):
                if is_call:
                    result = await self._call(ctx, call_next, request, was_listed=was_listed)
                else:
                    result = await self._serve(ctx, call_next, request)
        except Asked as asked:
            result = fit.result_for(dict(asked.result), ctx.protocol_version)
        except Exception:
            self._host.notify(RequestServed(ctx.method, "error"))
            raise
        finally:
            self._host.notify(RequestOver(request))
            await self._host.sessions.ended(request.session, ctx, result)
        self._host.notify(RequestServed(ctx.method, "ok" if _is_ok(result) else "error"))
        return result

    async def _call_within(
        self,
        ctx: _Context,
        call_next: CallNext,
        outer: Request | None,
        name: str,
        arguments: Mapping[str, Any],
        within: str,
    ) -> dict[str, Any]:
        """Make a call on behalf of another one: on its connection and by its selection, and judged by itself."""
        meta = {key: value for key, value in ((ctx.params or {}).get("_meta") or {}).items() if key != "progressToken"}
        ctx = replace(ctx, params={"name": name, "arguments": {**arguments}, "_meta": meta})

        async def serve(ctx: _Context) -> HandlerResult:
            request = replace(await self._request(ctx, outer), within=within)
            with serving(request):
                return await self._call(ctx, call_next, request, was_listed=True)

        record = find(self._host, CallRecord)
        result = await (serve(ctx) if record is None else record(ctx, serve))
        return result.model_dump(by_alias=True, exclude_none=True) if isinstance(result, BaseModel) else result or {}

    async def _request(self, ctx: _Context, outer: Request | None) -> Request:
        """Return a request that features have narrowed and shaped.

        Raises:
            MCPError: its selection is malformed, or a feature could not tell its bounds.
        """
        client, arguments = None, (ctx.params or {}).get("arguments")
        if ctx.method in _LOOK_UPS and not isinstance(arguments, dict | None):
            raise MCPError(mcp_types.INVALID_PARAMS, f"`arguments` is no object: {arguments!r:.99}")
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            client = Client(ctx, self._host.changes.tell_tools, self._host.changes.heard)
        try:
            meta = (ctx.params or {}).get("_meta")
            selection = self._host.callers.selection_of(ctx.request, NOTHING if meta is None else read_meta(meta))
            await self._wait_for_first(ctx, selection)
            return await self._host.request(
                selection,
                method=ctx.method,
                params=MappingProxyType(ctx.params or {}),
                session=await self._host.sessions.begun(ctx),
                client=client,
                caller=sender_of(ctx.request),
                outer=outer,
            )
        except SelectionError as error:
            raise MCPError(mcp_types.INVALID_PARAMS, str(error), error.as_dict()) from None
        except BoundError as error:
            raise MCPError(mcp_types.INTERNAL_ERROR, str(error)) from None

    async def _wait_for_first(self, ctx: _Context, selection: Selection) -> None:
        """Make lists, searches and look-ups by name wait for components never seen; no other request waits."""
        if (kind := _LISTS.get(ctx.method)) is not None:
            await self._host.pending.wait_for_first(selection, kind)
        elif (looked_up := _LOOK_UPS.get(ctx.method)) is not None:
            kind, key = looked_up
            params = ctx.params or {}
            name = params.get(key)
            if kind == "tool" and name == CALL_TOOL:  # the call of the tool that it names
                name = (params.get("arguments") or {}).get("name", name)
            elif kind == "tool" and name in ENTRY_NAMES:
                name = None
            await self._host.pending.wait_for_first(selection, kind, None if name is None else str(name))

    async def _serve(self, ctx: _Context, call_next: CallNext, request: Request) -> HandlerResult:
        if ctx.method == "completion/complete" and not await may_complete(self._host, request.params.get("ref")):
            return _NO_COMPLETION
        if ctx.method.startswith("tasks/") and not await may_use_task(self._host, task := _task_id(ctx)):
            raise MCPError(mcp_types.INVALID_PARAMS, f"Task {task} not found")  # as for one that never was
        if (kind := _LISTS.get(ctx.method)) is not None:
            return await self._list(ctx, call_next, request, kind)
        cut = shorten(ctx.params) if ctx.method == "initialize" else []
        result = await self._handed_on(ctx, call_next, request)
        if not isinstance(result, dict):
            return result
        if cut:
            logger.info("a client's handshake was too long to be kept whole; cut: %s", ", ".join(cut))
            result["_meta"] = {**(result.get("_meta") or {}), META_KEY: {"cut": cut}}
        if ctx.method == fit.SKILL.method and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            is_whole = not self._host.pending.absent(request.verdict.bounds)
            set_cache(self._host, result, request, "resource", is_whole=is_whole)
        if ctx.method in _GREETINGS:
            if (instructions := await self._host.instructions_for(request)) is not None:
                result["instructions"] = instructions
        return await self._completed(request, result)

    async def _completed(self, request: Request, result: dict[str, Any]) -> dict[str, Any]:
        """Return a result that is no call's with what features add.

        Raises:
            MCPError: a feature withholds it.
        """
        try:
            return await self._features.after_request(request, result, None)
        except Refusal as refusal:
            raise MCPError(mcp_types.INVALID_REQUEST, str(refusal)) from None

    async def _handed_on(self, ctx: _Context, call_next: CallNext, request: Request) -> HandlerResult:
        """Serve a request; an upstream's result is returned unchanged, but for the client's protocol version.

        An author's middleware has had its turn by then, and what it changed is changed.
        """
        request.values[RELAYED] = None
        result = await call_next(ctx)
        relayed: dict[str, Any] | None = request.values.pop(RELAYED, None)
        if relayed is None or not isinstance(result, dict):
            return result
        if ctx.method == "completion/complete":
            return fit.result_for({**result, **relayed}, ctx.protocol_version)
        meta = result.get("_meta") or {}
        if not HANDED_ON.keys() <= meta.keys():
            return result
        ours = {key: value for key, value in meta.items() if key not in HANDED_ON}
        whole = fit.result_for(relayed, ctx.protocol_version)
        if ctx.method == "resources/read" and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            whole = {**fit.ENVELOPE, **whole, "cacheScope": "private"}  # others may be bounded otherwise
        theirs = whole.get("_meta")
        return {**whole, "_meta": {**theirs, **ours} if isinstance(theirs, dict) else ours} if ours else whole

    async def _list(self, ctx: _Context, call_next: CallNext, request: Request, kind: ComponentKind) -> HandlerResult:
        items: list[dict[str, Any]] = []
        token = page_in_force.set(items)
        try:
            result = await call_next(ctx)
        finally:
            page_in_force.reset(token)
        self._note(ctx, request.verdict, kind)
        if not isinstance(result, dict):
            return result
        field = fit.KINDS[ctx.method].field
        result[field] = [*result[field], *map(dict, items)]  # other callers are sent what these are copies of
        decision = request.verdict.decisions.get((self._host.surface, kind))
        summary = await summarise(self._host, request, kind, decision)
        result["_meta"] = {**(result.get("_meta") or {}), META_KEY: summary}
        if unfit := request.values.get(UNFIT):
            summary["unfit"] = dict(islice(unfit.items(), _N_UNFIT))
            summary["n_unfit"] = len(unfit)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            set_cache(self._host, result, request, kind, is_whole="absent" not in summary)
        if kind == "tool" and decision is not None:
            self._host.notify(ToolsListed(ctx.method, decision, summary, request))
        return await self._completed(request, result)

    def _note(self, ctx: _Context, verdict: Verdict, listed: ComponentKind | None = None) -> None:
        """Record that a connection's client is notified of changes, and under which bounds it lists."""
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._host.changes.heard(connection_of(ctx.session), verdict, listed)

    async def _call(self, ctx: _Context, call_next: CallNext, request: Request, *, was_listed: bool) -> HandlerResult:
        """Serve a call, with the revision of its surface in its log line and span.

        Args:
            was_listed: whether its caller had been listed tools, so that the SDK has checked its headers.
        """
        surface, verdict = self._host.surface, request.verdict
        decision = await surface.unanswered_decision(await self._host.catalog("tool"), verdict)
        tied_to = revision(decision, verdict.asked)
        trace.get_current_span().set_attribute("agent_utilities.revision", tied_to)
        call = await self._features.before_call(request, Call(request.params))
        if call.params is not request.params:
            ctx = replace(ctx, params=(params := {**call.params}))
            call = replace(call, params=MappingProxyType(params))  # what is admitted is what is made
        logger.info("tools/call name=%r revision=%s", call.name, tied_to)
        if not was_listed and not call.is_wrapped:  # of a tool behind another the headers say nothing
            refuse_headers(self._host, ctx.request, call.params)
        started, ok, is_asked = time.perf_counter(), False, False
        record = find(self._host, CallRecord)
        try:
            try:
                if call.name in decision.permitted_names:  # else it is answered as a name that never was (law L1)
                    await self._features.admit(request, call)
            except Asked:
                is_asked = True
                if record is not None:
                    await record.began(request, call, decision, tied_to, is_asked=True)
                raise
            if record is not None:
                await record.began(request, call, decision, tied_to)
            with serving(replace(request, params=call.params)):  # by another tool it may name another
                result = await self._handed_on(ctx, call_next, request)
            ok = _is_ok(result)
            if isinstance(result, dict):
                await keep_for_task(self._host, request, result)
                result = await self._features.after_request(request, result, replace(call, ok=ok))
            return result
        except Refusal as refusal:
            ok = False
            return mcp_types.CallToolResult(content=[mcp_types.TextContent(text=str(refusal))], is_error=True)
        finally:
            seconds = time.perf_counter() - started
            self._host.notify(ToolCalled(call.name, tied_to, ok, seconds, decision, request, is_asked))


def _task_id(ctx: _Context) -> str:
    return str((ctx.params or {}).get("taskId"))


def _is_ok(result: HandlerResult) -> bool:
    if isinstance(result, mcp_types.CallToolResult):
        return not result.is_error
    return not (isinstance(result, dict) and result.get("isError") is True)


# -- `Mcp-Param-*` headers of calls: checked without listing every tool for each ---------------------------------------


def refuse_headers(host: AgentServer, request: Any, params: Mapping[str, Any]) -> None:
    """Check the headers of a call whose caller was listed their tools only now, after the SDK would have checked.

    Raises:
        MCPError: a header and its argument differ.
    """
    if not isinstance(request, HttpRequest) or (schema := header_schema(host, str(params.get("name")))) is None:
        return
    rejection = validate_mcp_param_headers(schema, params.get("arguments") or {}, request.headers)
    if rejection is not None:
        raise MCPError(rejection.code, rejection.message, rejection.data)


def header_schema(host: AgentServer, name: str) -> Mapping[str, Any] | None:
    """Return a tool's input schema where its headers are to be checked and the caller may call it, else None.

    Only a tool that asks for headers needs the check, so the others cost nothing. One that the caller may not call,
    or that has an `auth` check of its own, is passed over: the call itself then answers, as for an unknown name. So is
    every tool before the caller was listed any; `refuse_headers` is for them.
    """
    catalog = host.surface.catalogs.of_caller("tool")
    of_name = [tool for tool in catalog.with_header_parameters if tool.name == name] if catalog is not None else []
    if not of_name:
        return None
    try:
        bounds = host.surface.merged(host.callers.selection_of(get_http_request())).bounds
    except (SelectionError, RuntimeError):  # malformed, or not over HTTP: the call itself answers
        return None
    callable_ones = [tool for tool in of_name if not tool.is_guarded and bounds.refusal(tool) is None]
    if not callable_ones:
        return None
    return max(callable_ones, key=lambda tool: parse_version_key(tool.version)).header_schema
