"""A client's session that hands results on as they come, and takes pages of listings item by item."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import anyio
import mcp_types
from anyio import TASK_STATUS_IGNORED
from anyio.abc import ObjectSendStream, TaskStatus
from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import CallOptions, OnRequest, ProgressFnT
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import from_json

from agent_utilities.upstream.connections.calls import Call, CallsUnderWay, Relay, present_call
from agent_utilities.upstream.http.http_client import HttpTrouble
from agent_utilities.upstream.limits import TooMuchError, check_parts

_page: ContextVar[dict[str, Any] | None] = ContextVar("agent_utilities_upstream_page", default=None)
_REQUESTS: Mapping[str, type[mcp_types.PaginatedRequest[Any]]] = {
    "tools/list": mcp_types.ListToolsRequest,
    "prompts/list": mcp_types.ListPromptsRequest,
    "resources/list": mcp_types.ListResourcesRequest,
    "resources/templates/list": mcp_types.ListResourceTemplatesRequest,
}
_UNSAID: Mapping[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""What a result of 2026-07-28 means that doesn't say it: such a server is understood, as SDKs of before take it."""
_WITHIN = 16
"""How deep a component stands within a snapshot's or a list's JSON, at most."""

Component = mcp_types.Tool | mcp_types.Prompt | mcp_types.Resource | mcp_types.ResourceTemplate


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of component."""

    name: str
    method: str
    field: str
    model: type[Component]


TOOL = Kind("tool", "tools/list", "tools", mcp_types.Tool)
PROMPT = Kind("prompt", "prompts/list", "prompts", mcp_types.Prompt)
RESOURCE = Kind("resource", "resources/list", "resources", mcp_types.Resource)
TEMPLATE = Kind("resource template", "resources/templates/list", "resourceTemplates", mcp_types.ResourceTemplate)
FIELDS: Mapping[str, str] = {kind.method: kind.field for kind in (TOOL, PROMPT, RESOURCE, TEMPLATE)}
"""By method, the field of its result that has the items."""


@dataclass(frozen=True, slots=True)
class Item:
    """A component of a page."""

    key: str
    component: Component
    n_bytes: int


def parsed(kind: Kind, raw: Mapping[str, Any], version: str) -> tuple[list[Item], list[str]]:
    """Return the components of a page, and a line for each item that is none. It may take long: use a thread."""
    items: list[Item] = []
    problems: list[str] = []
    for item in raw[kind.field]:
        try:
            validate_server_result(kind.method, version, {**raw, kind.field: [item]})
            component = kind.model.model_validate(item, by_name=False)
            written = component.model_dump_json(by_alias=True, exclude_none=True).encode()
            from_json(_WITHIN * b"[" + written + _WITHIN * b"]")
        except (ValueError, RecursionError) as error:  # a schema may be nested deeper than can be written, or read
            problems.append(_why_not(kind, item, error))
        else:
            items.append(Item(_key(component), component, len(written)))
    return items, problems


def _key(component: Component) -> str:
    if isinstance(component, mcp_types.Resource):
        return str(component.uri)
    if isinstance(component, mcp_types.ResourceTemplate):
        return component.uri_template
    return component.name


def _why_not(kind: Kind, item: object, error: Exception) -> str:
    name = item.get("name") if isinstance(item, dict) else None
    if not isinstance(error, ValidationError):
        return f"{kind.name} {name!r} is left out: {error}"[:300]
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"] if not isinstance(part, int) and part != kind.field)
    return f"{kind.name} {name!r} is left out: {where}{': ' if where else ''}{first['msg']}"[:300]


class UpstreamSession(ClientSession):
    """A connection that is up. Results are relayed: none is held against its tool's output schema."""

    calls: CallsUnderWay
    """What is under way on it."""
    changed: asyncio.Event
    """Set where the upstream has told that what it lists has changed."""

    def __init__(self, read_stream: Any, write_stream: Any, **kwargs: Any) -> None:
        dispatcher = self._sending = _Dispatcher(read_stream, _MarkingStream(write_stream))
        self.ended = dispatcher.ended
        """Set once nothing comes from the upstream any more."""
        super().__init__(dispatcher=dispatcher, **kwargs)

    @property
    def is_modern(self) -> bool:
        """Whether it is of the era that knows no handshake."""
        return self.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def validate_tool_result(self, name: str, result: mcp_types.CallToolResult) -> None:
        """Take it as it is: whoever asked for it judges it."""

    def offer(self, offered: mcp_types.ClientCapabilities | None) -> None:
        """Have a handshake say that this can be asked for; all that a client could be asked where None."""
        self._sending.offered = offered

    async def list_page(self, kind: Kind, cursor: str | None) -> Mapping[str, Any]:
        """Return a page of a listing as it came, its items unjudged.

        Args:
            cursor: of the page; None for the first.

        Raises:
            MCPError: it was answered with an error.
            ValidationError: it was answered with what is no page.
        """
        params = mcp_types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
        token = _page.set({})
        try:
            await self.send_request(_REQUESTS[kind.method](params=params), mcp_types.Result)
            return _page.get() or {}
        finally:
            _page.reset(token)


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    """Hears the progress of the present call, and gives a page of a listing past the session's judgement."""

    def __init__(self, read_stream: Any, write_stream: Any) -> None:
        super().__init__(read_stream, write_stream)
        self.ended = asyncio.Event()
        self.offered: mcp_types.ClientCapabilities | None = None

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **related: Any
    ) -> dict[str, Any]:
        """Send a request, and return its result as it came; of a page that `list_page` takes, all but the items."""
        call = present_call()
        if method == "initialize" and self.offered is not None:
            params = {**(params or {}), "capabilities": _plain(self.offered)}
        if call is not None:
            opts = {**(opts or {})}
            opts["on_progress"] = _heard(call, opts.get("on_progress"))
            if call.relay is not None:
                params = _with_capabilities(params, call.relay)
        raw = await super().send_raw_request(method, params, opts, **related)
        if method not in FIELDS:
            _check(raw)
        if _is_modern(params):
            raw = {**_UNSAID, **raw}
        page, field = _page.get(), FIELDS.get(method)
        if page is None or field is None or not isinstance(raw.get(field), list):
            return raw
        page.update(raw)
        return {**raw, field: []}

    async def run(self, on_request: OnRequest, *args: Any, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Receive until the connection ends."""

        async def checked(context: Any, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
            _check(params or {})
            return await on_request(context, method, params)

        try:
            await super().run(checked, *args, task_status=task_status)
        finally:
            self.ended.set()


def _check(message: Mapping[str, Any]) -> None:
    try:
        check_parts(message)
    except TooMuchError as error:
        raise MCPError.from_error_data(HttpTrouble("sent too much", f"it sent {error}").as_error()) from None


def _is_modern(params: Mapping[str, Any] | None) -> bool:
    meta = (params or {}).get("_meta")
    return isinstance(meta, Mapping) and mcp_types.PROTOCOL_VERSION_META_KEY in meta


def _with_capabilities(params: Mapping[str, Any] | None, relay: Relay) -> Mapping[str, Any] | None:
    """Return a request's params, such that they tell what the caller's client offers where they tell what ours does.

    Upstreams of 2026-07-28 are told with each request, and ask nothing that isn't offered.
    """
    meta = (params or {}).get("_meta")
    if params is None or not isinstance(meta, Mapping) or mcp_types.CLIENT_CAPABILITIES_META_KEY not in meta:
        return params
    offered = _plain(relay.capabilities or mcp_types.ClientCapabilities())
    return {**params, "_meta": {**meta, mcp_types.CLIENT_CAPABILITIES_META_KEY: offered}}


def _plain(capabilities: mcp_types.ClientCapabilities) -> dict[str, Any]:
    return capabilities.model_dump(by_alias=True, mode="json", exclude_none=True)


def _heard(call: Call, on_progress: ProgressFnT | None) -> ProgressFnT:
    """Return what hears progress: of the call, and of whoever sends it and wants to hear of it themselves."""
    if on_progress is None:
        return call.progress

    async def both(progress: float, total: float | None, message: str | None) -> None:
        call.move_on()
        await on_progress(progress, total, message)

    return both


def _with_headers(item: SessionMessage, headers: Mapping[str, str]) -> SessionMessage:
    """Return a message that an HTTP transport sends with these headers, beside those of the protocol."""
    metadata = item.metadata
    if metadata is not None and not isinstance(metadata, ClientMessageMetadata):
        return item
    known = metadata if metadata is not None else ClientMessageMetadata()
    return SessionMessage(item.message, replace(known, headers={**headers, **(known.headers or {})}))


class _MarkingStream(ObjectSendStream[SessionMessage]):
    """Gives the transport what the present call sends, with its caller's headers that cross, and marks it as sent."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def send(self, item: SessionMessage) -> None:
        call = present_call()
        if call is None:
            await self._inner.send(item)
            return
        was_sent, call.is_sent = call.is_sent, True
        try:
            await self._inner.send(_with_headers(item, call.headers) if call.headers else item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            call.is_sent = was_sent
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()


_N_A_TURN = 200
_SELDOM_S = 60.0


def _seldom() -> Callable[[logging.LogRecord], bool]:
    """Return what lets each line of code log once a minute.

    Why: the SDK logs a traceback of each notification or event that it can't read, of which a server may send
    thousands a second; nothing else bounds them.
    Ends when: the SDK counts them, or says nothing of them.
    """
    next_s: dict[tuple[str, int], float] = {}

    def is_logged(record: logging.LogRecord) -> bool:
        place, now_s = (record.pathname, record.lineno), time.monotonic()
        if now_s < next_s.get(place, now_s):
            return False
        next_s[place] = now_s + _SELDOM_S
        return True

    return is_logged


for _name in ("client", "mcp.client.streamable_http", "mcp.shared.jsonrpc_dispatcher"):
    logging.getLogger(_name).addFilter(_seldom())


async def learn_tools(session: ClientSession, tools: Sequence[mcp_types.Tool]) -> None:
    """Have a session know tools that it did not list itself, so that it sends the headers that their schemas ask for.

    Why: over streamable HTTP, 2026-07-28 has a call bear headers of its arguments (`x-mcp-header`). A session learns
    which from its own `list_tools()`, which judges a whole page at once on the event loop; and a connection that was
    made for a call has listed nothing yet.
    Ends when: `ClientSession` takes known tools, or its lists take items one by one.
    """
    for start in range(0, len(tools), _N_A_TURN):
        page = mcp_types.ListToolsResult(tools=list(tools[start : start + _N_A_TURN]))
        session._absorb_tool_listing(page, complete=False)  # noqa: SLF001 (there is no public way)
        await asyncio.sleep(0)
