"""A client's session that hands results on as they come, and says when its connection has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types.methods import validate_server_result
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from agent_utilities.upstream.calls import present_call


class UpstreamDispatcher(JSONRPCDispatcher[TransportContext]):
    """Sends requests of the present call: marks it as sent, and hears its progress."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ended = asyncio.Event()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **related: Any
    ) -> dict[str, Any]:
        """Send a request and return its result as it came.

        Args:
            method: of the protocol.
            params: the request's.
            opts: how it is sent.
            related: to what it belongs, as the base class has it.
        """
        call = present_call()
        if call is not None:
            if self.ended.is_set():
                raise MCPError(code=mcp_types.CONNECTION_CLOSED, message="Connection closed")
            call.is_sent = True
            opts = {"on_progress": call.progress, **(opts or {})}
        return await super().send_raw_request(method, params, opts, **related)

    async def run(self, *args: Any, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Receive until the connection ends."""
        try:
            await super().run(*args, task_status=task_status)
        finally:
            self.ended.set()


class UpstreamSession(ClientSession):
    """A session whose results are relayed: none is held against its tool's output schema."""

    def __init__(self, read_stream: Any, write_stream: Any, **kwargs: Any) -> None:
        dispatcher = UpstreamDispatcher(read_stream, write_stream)
        self.ended = dispatcher.ended
        super().__init__(dispatcher=dispatcher, **kwargs)

    async def validate_tool_result(self, name: str, result: mcp_types.CallToolResult) -> None:
        """Take it as it is: whoever asked for it judges it."""


async def negotiate(session: ClientSession, known_version: str | None, *, probe_s: float, legacy_only: bool) -> None:
    """Agree on a protocol version, in one request where the era is known from before.

    Args:
        session: a connection that nothing was sent on yet.
        known_version: what was agreed on the last time; None where nothing was.
        probe_s: seconds that a probe for the newer era is waited for alone. Servers that know nothing of it may be
            silent, so the older era's handshake goes out beside the probe then, and whichever is answered holds.
        legacy_only: whether the transport knows nothing but the older era.

    Raises:
        MCPError: the upstream refused both.
    """
    if legacy_only:
        await session.initialize()
        return
    if known_version in HANDSHAKE_PROTOCOL_VERSIONS:
        try:
            await session.initialize()
            return
        except MCPError as error:
            if error.code == mcp_types.CONNECTION_CLOSED:
                raise
    probe = asyncio.ensure_future(_discover(session))
    try:
        await asyncio.wait([probe], timeout=probe_s)
        if probe.done() and probe.result():
            return
        await _first_to_agree(probe, session.initialize)
    finally:
        probe.cancel()
        await asyncio.gather(probe, return_exceptions=True)


async def _first_to_agree(probe: asyncio.Future[bool], initialize: Callable[[], Awaitable[object]]) -> None:
    handshake = asyncio.ensure_future(initialize())
    try:
        while not handshake.done() and not (probe.done() and probe.result()):
            waiting = [future for future in (probe, handshake) if not future.done()]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if handshake.done() and not (probe.done() and probe.result()):
            handshake.result()
    finally:
        handshake.cancel()
        await asyncio.gather(handshake, return_exceptions=True)


async def _discover(session: ClientSession) -> bool:
    """Adopt the newer era where the upstream knows it, and say whether it does."""
    try:
        raw = await session.send_discover(LATEST_MODERN_VERSION)
        validate_server_result("server/discover", LATEST_MODERN_VERSION, raw)
        result = mcp_types.DiscoverResult.model_validate(raw)
    except (MCPError, ValidationError):
        return False
    if not any(version in result.supported_versions for version in MODERN_PROTOCOL_VERSIONS):
        return False
    session.adopt(result)
    return True
