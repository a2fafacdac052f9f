"""An MCP session with an upstream over any transport, which returns results and pages of lists as they come."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import mcp_types
from anyio import TASK_STATUS_IGNORED
from anyio.abc import ObjectSendStream, TaskStatus
from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.inbound import MCP_NAME_HEADER, encode_header_value
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types.methods import validate_server_result
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic_core import to_jsonable_python

from agent_utilities.compat.sdk_client import learn_page, negotiate
from agent_utilities.gateway.upstreams.connections.calls import USUAL_LEVEL, CallsUnderWay, present_call
from agent_utilities.gateway.upstreams.errors import own_data
from agent_utilities.gateway.upstreams.http.http_client import HttpTrouble, http_trouble
from agent_utilities.gateway.upstreams.limits import TooMuchError, check_parts
from agent_utilities.protocol.fit import ENVELOPE, RESULTS, SKILL, SKILLS_EXTENSION, TOOL, fitted

if TYPE_CHECKING:
    from agent_utilities.gateway.upstreams.connections.calls import Relay
    from agent_utilities.gateway.upstreams.http.transports import HttpUpstream
    from agent_utilities.gateway.upstreams.processes.stdio import StdioUpstream

_LISTS = {"tools/list", "prompts/list", "resources/list", "resources/templates/list", SKILL.method}
"""Lists, whose items are validated one by one."""


class UpstreamSession(ClientSession):
    def __init__(
        self, transport: StdioUpstream | HttpUpstream, read_stream: Any, write_stream: Any, owner: Relay | None
    ) -> None:
        self.transport = transport
        """Its transport, which knows how the process ended."""
        self.calls = calls = CallsUnderWay(owner)
        dispatcher = self._sending = _Dispatcher(read_stream, _MarkingStream(write_stream), self._hear)
        self.ended = dispatcher.ended
        """Set once nothing comes from the upstream any more."""
        self._level_set: str | None = None  # of log messages, by the last `logging/setLevel`
        self.changed = asyncio.Event()
        """Set where the upstream has notified of changed lists."""
        self.works_until_s = 0.0
        """The event loop's time until which it may work on background tasks, and is not unused."""
        self.listeners: dict[str, Callable[[], None]] = {}
        """Listeners for updates of resources, by URI."""
        super().__init__(
            dispatcher=dispatcher,
            sampling_callback=lambda context, params: calls.ask(mcp_types.CreateMessageRequest(params=params)),
            elicitation_callback=lambda context, params: calls.ask(mcp_types.ElicitRequest(params=params)),
            list_roots_callback=lambda context: calls.ask(mcp_types.ListRootsRequest()),
            log_level="debug",
            client_info=mcp_types.Implementation(name="agent-utilities gateway", version=version("agent-utilities")),
        )

    @property
    def is_modern(self) -> bool:
        """Whether it is of the era that knows no handshake."""
        return self.protocol_version in MODERN_PROTOCOL_VERSIONS

    def _hear(self, method: str, params: Mapping[str, Any]) -> bool:
        """Handle a notification of the upstream; return whether that is all that is to be done."""
        if method.endswith("/list_changed"):
            self.changed.set()
        if method == "notifications/resources/updated":
            updated = str(params.get("uri"))
            for uri, heard in list(self.listeners.items()):
                if updated == uri or updated.startswith(f"{uri.rstrip('/')}/"):  # or of a part of it
                    heard()
        if method not in ("notifications/progress", "notifications/message"):
            return False
        self.calls.hear(method, params)
        return True

    async def negotiate(self, known_version: str | None, probe_s: float, offered: mcp_types.ClientCapabilities) -> None:
        """Agree on a protocol version, in one request where the era is known from before.

        A server that only starts slowly answers both the probe and the handshake: then the older era holds, since many
        keep to a handshake that they have made.

        Args:
            known_version: the version that was agreed on the last time, if any.
            probe_s: seconds to wait for the answer to a probe for the newer era. Servers that don't know it may be
                silent, so the older era's handshake is sent then.
            offered: the clients' capabilities for a handshake.

        Raises:
            MCPError: the upstream refused both.
        """
        self._sending.offered = offered
        if self.transport.is_handshake_only:
            await self.initialize()
            return
        if known_version in HANDSHAKE_PROTOCOL_VERSIONS:
            try:
                await self.initialize()
                return
            except MCPError as error:
                if isinstance(error, EndedError):
                    raise
        self._sending.probe_s = probe_s
        try:
            await negotiate(self)
        except MCPError as error:
            # A server without a handshake may have answered the probe too late.
            self._sending.probe_s = None
            if isinstance(error, EndedError):
                raise
            await negotiate(self)
        self._sending.probe_s = None

    async def ask(
        self, method: str, params: Mapping[str, Any] | None = None, extensions: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send a request, and return its result as it came, not validated; errors raise `MCPError`.

        Since 2026-07-28 the request declares the `extensions` of the protocol that it uses.
        """
        data: dict[str, Any] = {"method": method}
        if params is not None:
            data["params"] = params
        opts: CallOptions = {}
        self._stamp(data, opts)
        if self.is_modern:
            data["params"]["_meta"][mcp_types.CLIENT_CAPABILITIES_META_KEY] = {"extensions": extensions or {}}
            if isinstance(task := data["params"].get("taskId"), str):  # unknown to the SDK
                opts["headers"] = {**opts.get("headers", {}), MCP_NAME_HEADER: encode_header_value(task)}
        return await self._sending.send_raw_request(method, data.get("params"), opts)

    async def follow_log_level(self) -> None:
        """Set the log level of an upstream of the handshake's era to the least that present callers want."""
        level = self.calls.log_level() or (self._level_set and USUAL_LEVEL)
        has = self.server_capabilities
        if level is None or level == self._level_set or self.is_modern or has is None or has.logging is None:
            return
        self._level_set = level
        with suppress(MCPError):
            await self._sending.send_raw_request("logging/setLevel", {"level": level})

    async def is_forgotten(self, error: MCPError, within_s: float) -> bool:
        """Whether an error means that the upstream has forgotten the session, and so did not carry out the request.

        Servers use any status and any words for it, and tools may speak of sessions of their own. So an error that
        sounds like it counts only if a ping, which no tool answers, gets such an error too.
        """
        if self.is_modern or not _sounds_forgotten(error):
            return False
        try:
            async with asyncio.timeout(within_s):
                await self.send_ping()
        except MCPError as other:
            return _sounds_forgotten(other)
        except TimeoutError:
            pass
        return False

    async def list_page(self, method: str, field: str, cursor: str | None) -> Mapping[str, Any]:
        """Return a page of a list as it came, its items (in `field`) not validated; the first where `cursor` is None.

        Raises:
            MCPError: the answer is an error.
            ValidationError: the answer is no page.
        """
        raw = await self.ask(method, {"cursor": cursor} if cursor is not None else None)
        unchecked: dict[str, Any] = {field: []} if isinstance(raw.get(field), list) else {}
        validate_server_result(method, self.protocol_version or "", {**raw, **unchecked}, surface=RESULTS)
        return raw


async def hear_changes(session: UpstreamSession) -> None:
    """Subscribe to changes of an upstream's lists, as the newer era requires."""
    from mcp.client.subscriptions import SubscriptionLost, listen

    has = session.server_capabilities or mcp_types.ServerCapabilities()
    kinds = (has.tools, has.prompts, has.resources)
    tools, prompts, resources = (kind is not None and bool(kind.list_changed) for kind in kinds)
    if not session.is_modern or not (tools or prompts or resources):
        return
    while not session.ended.is_set():
        try:
            async with listen(
                session, tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
            ) as changes:
                async for _ in changes:
                    session.changed.set()
        except SubscriptionLost:
            session.changed.set()  # changes may have been missed
        except (MCPError, RuntimeError):
            return
        await asyncio.sleep(1)


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    """Forwards notifications in order, tells apart upstreams' and transports' errors, and bounds incoming messages."""

    def __init__(self, read_stream: Any, write_stream: Any, hear: Callable[[str, Mapping[str, Any]], bool]) -> None:
        super().__init__(read_stream, write_stream)
        self._reading, self._hear = read_stream, hear
        self.ended = asyncio.Event()
        self.offered = mcp_types.ClientCapabilities()
        self.probe_s: float | None = None
        """Seconds to wait for the probe of the upstream's era; None once that is known."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **related: Any
    ) -> dict[str, Any]:
        """Send a request, and return its result as it came; `EndedError` where none can come any more."""
        call, meta = present_call(), (params or {}).get("_meta") or {}
        is_modern = mcp_types.PROTOCOL_VERSION_META_KEY in meta
        if method == "initialize":
            params = {**(params or {}), "capabilities": plain(self.offered)}
        if method == "server/discover" and self.probe_s is not None:
            opts = {**(opts or {}), "timeout": self.probe_s}
        if is_modern:
            # An upstream of 2026-07-28 learns them with each request, and asks only what they include.
            offered = call.relay.capabilities if call is not None and call.relay is not None else None
            capabilities = plain(offered or mcp_types.ClientCapabilities())
            if extensions := (meta.get(mcp_types.CLIENT_CAPABILITIES_META_KEY) or {}).get("extensions"):
                capabilities["extensions"] = extensions
            if call is None or method.startswith(("skills/", "resources/")):
                # Some servers have skills only for clients that declare them.
                capabilities["extensions"] = {**(capabilities.get("extensions") or {}), SKILLS_EXTENSION: {}}
            meta = {**meta, mcp_types.CLIENT_CAPABILITIES_META_KEY: capabilities}
        if call is not None:
            opts = {**(opts or {}), "headers": {**call.headers, **((opts or {}).get("headers") or {})}}
            meta = {**meta, "progressToken": call.token}
        try:
            raw = await super().send_raw_request(method, {**(params or {}), "_meta": meta}, opts, **related)
        except MCPError as error:
            raise _whose(error) from None
        if method not in _LISTS:
            _check(raw)
        if not is_modern:
            return raw
        # Results that are read here get all defaults; those that are forwarded only their type.
        return {**(ENVELOPE if method in (*_LISTS, "server/discover") else {"resultType": "complete"}), **raw}

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: TaskStatus[None] = TASK_STATUS_IGNORED,
    ) -> None:
        async def checked(context: Any, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
            _check(params or {})
            return await on_request(context, method, params)

        def heard(method: str, params: Mapping[str, Any] | None) -> bool:
            # Handled at once, since the SDK reads on before its own handling of a notification begins; in the context
            # of the request on whose response it came, where there is one.
            context = getattr(self._reading, "last_context", None) or copy_context()
            is_done = context.run(self._hear, method, params or {})
            return is_done or (on_notify_intercept is not None and on_notify_intercept(method, params))

        try:
            await super().run(checked, on_notify, heard, task_status=task_status)
        finally:
            self.ended.set()


class EndedError(MCPError):
    """The connection has ended, so that no answer can come; raised for the transport's errors alone."""


def _whose(error: MCPError) -> MCPError:
    """Return an upstream's own error as it sent it, and a transport's as `EndedError` or with its trouble."""
    is_own, data = own_data(error.data)
    if not is_own and error.code == mcp_types.CONNECTION_CLOSED:
        return EndedError(error.code, error.message)
    if not is_own and error.code == mcp_types.PARSE_ERROR:  # its message has all of the SDK's validation errors
        return MCPError.from_error_data(HttpTrouble("not MCP", "answered with no JSON-RPC message").as_error())
    return MCPError(error.code, error.message, data)


def _sounds_forgotten(error: MCPError) -> bool:
    trouble = http_trouble(error)
    return "session" in error.message.lower() or (trouble is not None and trouble.status == 404)


def _check(message: Mapping[str, Any]) -> None:
    try:
        check_parts(message)
    except TooMuchError as error:
        raise MCPError.from_error_data(HttpTrouble("sent too much", f"it sent {error}").as_error()) from None


def plain(value: Any) -> Any:
    """Return a model, or whatever holds models, as it stands on the wire."""
    return to_jsonable_python(value, by_alias=True, exclude_none=True)


class _MarkingStream(ObjectSendStream[SessionMessage]):
    """Marks the present call as sent once the transport has taken it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def send(self, item: SessionMessage) -> None:
        await self._inner.send(item)
        if (call := present_call()) is not None:
            call.is_sent = True

    async def aclose(self) -> None:
        await self._inner.aclose()


_N_A_TURN = 200
_HEADER = "x-mcp-header"
_SELDOM_S = 60.0


def _seldom() -> Callable[[logging.LogRecord], bool]:
    """Return a log filter that passes one record a minute from each line of code.

    Why: the SDK logs a traceback for each notification or event that it can't read, of which a server may send
    thousands a second.
    Ends when: the SDK bounds these records itself.
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


async def learn_tools(session: ClientSession, tools: Sequence[Mapping[str, Any]]) -> None:
    """Register tools whose calls need headers of their arguments, in turns with the event loop (law L7)."""
    for start in range(0, len(tools), _N_A_TURN):
        turn = tools[start : start + _N_A_TURN]
        with_headers = (tool for tool in turn if _HEADER in json.dumps(tool.get("inputSchema")))
        fits = [fitted(TOOL, tool, is_modern=True).item for tool in with_headers]
        learn_page(session, [mcp_types.Tool.model_validate(item) for item in fits if item is not None])
        await asyncio.sleep(0)
