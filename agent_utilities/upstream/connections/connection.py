"""One connection to an upstream, by whatever reaches it, on which an era is agreed; and how well it works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import mcp_types

from agent_utilities.runtime.waiting import is_set
from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.connections.calls import CallsUnderWay
from agent_utilities.upstream.connections.session import UpstreamSession
from agent_utilities.upstream.limits import Unfinished

if TYPE_CHECKING:
    import httpx2
    from fastmcp.client.transports import ClientTransport

    from agent_utilities.upstream.processes.process import ProcessGuard
    from agent_utilities.upstream.processes.stderr_log import StderrLog

_LIST_CHANGES = (
    mcp_types.ToolListChangedNotification,
    mcp_types.PromptListChangedNotification,
    mcp_types.ResourceListChangedNotification,
)

_EXIT_KNOWN_S = 1.0
"""Seconds after a connection's end in which how its process ended, and what it wrote last, gets known."""


class Connection:
    """A connection that is up, and how well it works."""

    def __init__(self, session: UpstreamSession, transport: ClientTransport) -> None:
        self.session, self._transport = session, transport
        self._since_s = asyncio.get_running_loop().time()
        self.wake = asyncio.Event()
        """Set where there may be something to do about it."""
        self.is_over = self.is_doubted = False
        self.n_doubts = self.n_unreachable = 0

    @property
    def is_usable(self) -> bool:
        """Whether calls may be sent on it."""
        return not self.is_over and not self.session.ended.is_set()

    @property
    def up_s(self) -> float:
        """Seconds that it has been up."""
        return asyncio.get_running_loop().time() - self._since_s

    @property
    def exit_text(self) -> str:
        """How its process ended; empty where it has none, or it has not ended."""
        return exit_text_of(self._transport)

    async def last_exit_text(self) -> str:
        """Return how its process ended, once that is known."""
        if (died := getattr(self._transport, "died", None)) is not None:
            await is_set(died, within_s=_EXIT_KNOWN_S)
        return self.exit_text

    def lose(self) -> None:
        """Give it up, since the upstream has forgotten its session."""
        self.is_over = True
        self.wake.set()

    def doubt(self) -> None:
        """Find out whether it still answers: a call on it did not."""
        self.is_doubted = True
        self.n_doubts += 1
        self.wake.set()

    def reached(self, is_reached: bool) -> None:
        """Take note of whether a message got through."""
        if is_reached:
            self.n_unreachable = self.n_doubts = 0
        else:
            self.n_unreachable += 1
            self.wake.set()


def exit_text_of(transport: ClientTransport) -> str:
    """Return how the process of a transport ended; empty where it has none, or it has not ended."""
    return getattr(transport, "exit_text", "")


@asynccontextmanager
async def connected(
    transport: ClientTransport,
    known_version: str | None,
    *,
    probe_s: float,
    offered: mcp_types.ClientCapabilities | None = None,
) -> AsyncIterator[Connection]:
    """Hold a connection on which an era is agreed, for as long as the block runs; its processes are gone then.

    Args:
        known_version: the protocol version that the last connection agreed on; None where there was none.
        probe_s: seconds that a probe for the newer era is waited for, of which some servers take no notice.
        offered: what a handshake says of the clients that its calls are made for; None for all that one could offer.

    Raises:
        Exception: whatever the transport and the session raise where they can't reach it.
    """
    from fastmcp.client.transports.base import TransportOptions

    calls = CallsUnderWay()
    changed = asyncio.Event()

    async def on_message(message: object) -> None:
        if isinstance(message, _LIST_CHANGES):
            changed.set()

    async with transport.connect_session(
        transport_options=TransportOptions(session_class=UpstreamSession, forward_incoming_headers=False),
        sampling_callback=calls.sample,
        elicitation_callback=calls.elicit,
        list_roots_callback=calls.roots,
        logging_callback=calls.log,
        log_level="debug",
        message_handler=on_message,
        client_info=mcp_types.Implementation(name="agent-utilities gateway", version=_version()),
    ) as session:
        assert isinstance(session, UpstreamSession)
        session.calls, session.changed = calls, changed
        session.offer(offered)
        if transport.legacy_only:
            await session.initialize()
        else:
            await session.negotiate(known_version, probe_s)
        yield Connection(session, transport)


def _version() -> str:
    from importlib.metadata import version

    return version("agent-utilities")


def transport_of(
    config: UpstreamConfig,
    *,
    environ: Mapping[str, str],
    stderr: StderrLog,
    guard: ProcessGuard,
    unfinished: Unfinished,
) -> ClientTransport:
    """Return a transport that reaches the upstream, for one connection.

    It imports what it needs, which may take a second: use a thread.
    """
    if config.transport == "stdio":
        from agent_utilities.upstream.processes.stdio import StdioUpstream

        return StdioUpstream(config, environ=environ, stderr=stderr, guard=guard, unfinished=unfinished)
    from agent_utilities.upstream.http.transports import http_transport

    return http_transport(config, _auth(config, environ), unfinished)


def _auth(config: UpstreamConfig, environ: Mapping[str, str]) -> str | httpx2.Auth | None:
    """Return what the transport shows of us: a bearer token, or the user's login."""
    from agent_utilities.settings import read_settings
    from agent_utilities.upstream.http.login import login_of

    login = login_of(config, read_settings(environ).gateway_folder)
    return login or (config.auth.get_secret_value() if config.auth is not None else None)
