"""One connection to an upstream: how it is opened, which era it speaks, and what of a call crosses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import mcp_types
from mcp.client.session import ClientRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agent_utilities.upstream.calls import CallsUnderWay
from agent_utilities.upstream.session import UpstreamSession, negotiate

if TYPE_CHECKING:
    from fastmcp.client.transports import ClientTransport


@dataclass(eq=False)
class Live:
    """One connection that is up.

    Args:
        session: sends requests; its results are the upstream's, unjudged.
        calls: what is under way on it.
        changed: set where the upstream has told that what it lists has changed.
    """

    session: UpstreamSession
    calls: CallsUnderWay
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def ended(self) -> asyncio.Event:
        """Set once nothing comes from the upstream any more."""
        return self.session.ended

    @property
    def protocol_version(self) -> str:
        """The version that was negotiated."""
        return self.session.protocol_version or ""

    @property
    def is_modern(self) -> bool:
        """Whether it is of the era that knows no handshake."""
        return self.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def server_capabilities(self) -> mcp_types.ServerCapabilities:
        """What the upstream can do."""
        return self.session.server_capabilities or mcp_types.ServerCapabilities()

    @property
    def server_info(self) -> mcp_types.Implementation | None:
        """What the upstream calls itself."""
        return self.session.server_info

    @property
    def instructions(self) -> str | None:
        """What the upstream says of itself to models."""
        return self.session.instructions


@asynccontextmanager
async def connect(transport: ClientTransport, known_version: str | None, *, probe_s: float) -> AsyncIterator[Live]:
    """Connect, and give the connection once the upstream has answered; it is ended when the block is left.

    Args:
        transport: reaches the upstream; used once.
        known_version: the protocol version that the last connection agreed on; None where there was none.
        probe_s: seconds that a probe for the newer era is waited for alone, before the older one is tried beside it.

    Raises:
        Exception: whatever the transport raises where it can't reach the upstream.
    """
    from fastmcp.client.transports.base import TransportOptions

    calls = CallsUnderWay()
    questions = Questions(calls)
    changed = asyncio.Event()

    async def on_message(message: object) -> None:
        if isinstance(message, LIST_CHANGES):
            changed.set()

    async with transport.connect_session(
        transport_options=TransportOptions(session_class=UpstreamSession, forward_incoming_headers=False),
        sampling_callback=questions.sample,
        elicitation_callback=questions.elicit,
        list_roots_callback=questions.roots,
        logging_callback=questions.log,
        log_level="debug",
        message_handler=on_message,
        client_info=mcp_types.Implementation(name="agent-utilities gateway", version="2"),
    ) as session:
        assert isinstance(session, UpstreamSession)
        await negotiate(session, known_version, probe_s=probe_s, legacy_only=transport.legacy_only)
        yield Live(session, calls, changed)


LIST_CHANGES = (
    mcp_types.ToolListChangedNotification,
    mcp_types.PromptListChangedNotification,
    mcp_types.ResourceListChangedNotification,
)


class Questions:
    """Hands what an upstream asks and tells to the caller that it belongs to, and to nobody else.

    Args:
        calls: the calls that are under way on the connection.
    """

    def __init__(self, calls: CallsUnderWay) -> None:
        self._calls = calls

    async def sample(
        self, context: ClientRequestContext, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult | mcp_types.CreateMessageResultWithTools | mcp_types.ErrorData:
        """Have the caller's model answer."""
        call = self._calls.asked()
        if call is None or call.relay is None:
            return _refusal("sampling")
        with call.asking():
            return await call.relay.sample(params)

    async def elicit(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """Ask the caller's user."""
        call = self._calls.asked()
        if call is None or call.relay is None:
            return _refusal("elicitation")
        with call.asking():
            return await call.relay.elicit(params)

    async def roots(self, context: ClientRequestContext) -> mcp_types.ListRootsResult | mcp_types.ErrorData:
        """Ask for the caller's roots."""
        call = self._calls.asked()
        if call is None or call.relay is None:
            return _refusal("roots")
        with call.asking():
            return await call.relay.roots()

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Hand a log message on; it is dropped where it is nobody's alone."""
        call = self._calls.asked()
        if call is not None and call.relay is not None:
            call.move_on()
            await call.relay.log(params)


def _refusal(what: str) -> mcp_types.ErrorData:
    text = f"{what} refused: no call is under way whose caller alone it belongs to"
    return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=text)


def forwarded(names: tuple[str, ...], headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return those of the caller's headers that the operator lets cross.

    Args:
        names: the operator's, folded.
        headers: the caller's.
    """
    return {name: value for name, value in (headers or {}).items() if name.casefold() in names}
