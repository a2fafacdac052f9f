"""A client's session that hands results on as they come, and takes pages of listings item by item."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio
import mcp_types
from anyio import TASK_STATUS_IGNORED
from anyio.abc import ObjectSendStream, TaskStatus
from mcp import ClientSession, MCPError
from mcp.client._probe import negotiate_auto
from mcp.shared.dispatcher import CallOptions, OnRequest
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types.methods import validate_server_result
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from agent_utilities.upstream.connections.calls import CallsUnderWay, Relay, present_call
from agent_utilities.upstream.http.http_client import HttpTrouble
from agent_utilities.upstream.limits import TooMuchError, check_parts

_UNSAID: Mapping[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""What a result of 2026-07-28 means that doesn't say it: such a server is understood, as SDKs of before take it."""
_WITHIN = 16
"""How deep a component stands within a snapshot's or a list's JSON, at most."""

Component = mcp_types.Tool | mcp_types.Prompt | mcp_types.Resource | mcp_types.ResourceTemplate


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of component: what a person calls it, and how it is listed.

    Args:
        field: the field of a list's result that has the items.
    """

    name: str
    method: str
    field: str
    model: type[Component]
    request: type[mcp_types.PaginatedRequest[Any]]


TOOL = Kind("tool", "tools/list", "tools", mcp_types.Tool, mcp_types.ListToolsRequest)
PROMPT = Kind("prompt", "prompts/list", "prompts", mcp_types.Prompt, mcp_types.ListPromptsRequest)
RESOURCE = Kind("resource", "resources/list", "resources", mcp_types.Resource, mcp_types.ListResourcesRequest)
TEMPLATE = Kind(
    "resource template",
    "resources/templates/list",
    "resourceTemplates",
    mcp_types.ResourceTemplate,
    mcp_types.ListResourceTemplatesRequest,
)
_LISTS = frozenset(kind.method for kind in (TOOL, PROMPT, RESOURCE, TEMPLATE))


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

    async def negotiate(self, known_version: str | None, probe_s: float) -> None:
        """Agree on a protocol version, in one request where the era is known from before.

        A server that has only started slowly answers the probe and the handshake: it is spoken to in the older era
        then, since many keep to a handshake that they have made.

        Args:
            known_version: what was agreed on the last time; None where nothing was.
            probe_s: seconds that a probe for the newer era is waited for. Servers that know nothing of it may be
                silent, so the older era's handshake goes out then.

        Raises:
            MCPError: the upstream refused both.
        """
        if known_version in HANDSHAKE_PROTOCOL_VERSIONS:
            try:
                await self.initialize()
                return
            except MCPError as error:
                if has_ended(error):
                    raise
        self._sending.probe_s = probe_s
        try:
            await negotiate_auto(self)
        except MCPError as error:
            # One that knows no handshake may have answered the probe after it was given up.
            self._sending.probe_s = None
            if has_ended(error):
                raise
            await negotiate_auto(self)
        self._sending.probe_s = None

    async def list_page(self, kind: Kind, cursor: str | None) -> Mapping[str, Any]:
        """Return a page of a listing as it came, its items unjudged.

        Args:
            cursor: of the page; None for the first.

        Raises:
            MCPError: it was answered with an error.
            ValidationError: it was answered with what is no page.
        """
        params = mcp_types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
        data = plain(kind.request(params=params))
        opts: CallOptions = {}
        self._stamp(data, opts)
        raw = await self._sending.send_raw_request(kind.method, data.get("params"), opts)
        unjudged: dict[str, Any] = {kind.field: []} if isinstance(raw.get(kind.field), list) else {}
        validate_server_result(kind.method, self.protocol_version or "", {**raw, **unjudged})
        return raw


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    """Hears the progress of the present call, and bounds the parts of what comes."""

    def __init__(self, read_stream: Any, write_stream: Any) -> None:
        super().__init__(read_stream, write_stream)
        self.ended = asyncio.Event()
        self.offered: mcp_types.ClientCapabilities | None = None
        self.probe_s: float | None = None
        """Seconds that the upstream's era is asked for; None once it is agreed on."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **related: Any
    ) -> dict[str, Any]:
        """Send a request, and return its result as it came."""
        call = present_call()
        if method == "initialize" and self.offered is not None:
            params = {**(params or {}), "capabilities": plain(self.offered)}
        if method == "server/discover" and self.probe_s is not None:
            opts = {**(opts or {}), "timeout": self.probe_s}
        if call is not None:
            opts = {**(opts or {}), "on_progress": call.progress}
            if call.relay is not None:
                params = _with_capabilities(params, call.relay)
        raw = await super().send_raw_request(method, params, opts, **related)
        if method not in _LISTS:
            _check(raw)
        return {**_UNSAID, **raw} if _is_modern(params) else raw

    async def run(self, on_request: OnRequest, *args: Any, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Receive until the connection ends."""

        async def checked(context: Any, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
            _check(params or {})
            return await on_request(context, method, params)

        try:
            await super().run(checked, *args, task_status=task_status)
        finally:
            self.ended.set()


def has_ended(error: Exception) -> bool:
    """Whether an error says that an answer can't come any more, and not what the upstream says."""
    return is_closed(error) or (_is_of_transport(error) and str(error).startswith("SSE stream"))


def is_closed(error: Exception) -> bool:
    """Whether an error says that the whole connection has ended."""
    return _is_of_transport(error) and str(error) == "Connection closed"


def _is_of_transport(error: Exception) -> bool:
    return isinstance(error, MCPError) and error.code == mcp_types.CONNECTION_CLOSED


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
    offered = plain(relay.capabilities or mcp_types.ClientCapabilities())
    return {**params, "_meta": {**meta, mcp_types.CLIENT_CAPABILITIES_META_KEY: offered}}


def plain(value: BaseModel) -> dict[str, Any]:
    """Return a value as it stands on the wire."""
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


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
