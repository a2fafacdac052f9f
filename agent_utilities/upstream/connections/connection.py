"""One connection to an upstream, by whatever reaches it: a task of its own, ended with all that it started."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import mcp_types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agent_utilities.runtime.waiting import ended
from agent_utilities.upstream.config import Transport, UpstreamConfig
from agent_utilities.upstream.connections.calls import CallsUnderWay
from agent_utilities.upstream.connections.negotiation import negotiate
from agent_utilities.upstream.connections.session import UpstreamSession
from agent_utilities.upstream.limits import Unfinished

if TYPE_CHECKING:
    import httpx2
    from fastmcp.client.transports import ClientTransport

    from agent_utilities.upstream.processes.process import ProcessGuard
    from agent_utilities.upstream.processes.stderr_log import StderrLog

logger = logging.getLogger(__name__)

_LIST_CHANGES = (
    mcp_types.ToolListChangedNotification,
    mcp_types.PromptListChangedNotification,
    mcp_types.ResourceListChangedNotification,
)

_EXIT_KNOWN_S = 1.0
"""Seconds after a connection's end in which how its process ended, and what it wrote last, gets known."""
_MODULES: Mapping[Transport, str] = {"stdio": "processes.stdio", "http": "http.transports", "sse": "http.transports"}


@dataclass(eq=False)
class Live:
    """One connection that is up."""

    session: UpstreamSession
    calls: CallsUnderWay
    transport: ClientTransport
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def ended(self) -> asyncio.Event:
        """Set once nothing comes from the upstream any more."""
        return self.session.ended

    async def exit_text(self) -> str:
        """Return how its process ended, once that is known; empty where it has none."""
        died = getattr(self.transport, "died", None)
        if died is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_EXIT_KNOWN_S):
                    await died.wait()
        return str(getattr(self.transport, "exit_text", ""))

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


class Connection:
    """One try to connect, and what it comes to.

    Args:
        known_version: the protocol version that the last connection agreed on; None where there was none.
        offered: what a handshake says of the clients that its calls are made for; None for all that one could offer.
    """

    def __init__(
        self,
        transport: ClientTransport,
        known_version: str | None,
        *,
        probe_s: float,
        close_s: float,
        offered: mcp_types.ClientCapabilities | None = None,
    ) -> None:
        self.transport, self._offered = transport, offered
        self._known_version, self._probe_s, self._close_s = known_version, probe_s, close_s
        self._task: asyncio.Task[None] | None = None
        self._up: asyncio.Future[Live] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()

    async def open(self, timeout_s: float) -> Live:
        """Connect, and return the connection once the upstream has answered.

        It is for the caller to close it, however this ends.

        Args:
            timeout_s: seconds until the upstream must have answered.

        Raises:
            TimeoutError: it has not.
            Exception: whatever the transport and the session raise where they can't reach it.
        """
        self._task = asyncio.create_task(self._hold(), name=f"connection of {self.transport!r}")
        waiting: list[asyncio.Future[Live] | asyncio.Task[None]] = [self._up, self._task]
        await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if self._up.done():
            return self._up.result()
        if self._task.done():
            self._task.result()
            raise ConnectionError("the connection was left before it was up")
        raise TimeoutError

    async def close(self) -> None:
        """End it, and return once its processes are gone, whoever cancels that meanwhile."""
        if self._task is None:
            return
        self._leave.set()
        if not self._up.done():
            self._task.cancel()
        try:
            await self._end(self._task)
        finally:
            self._up.cancel()

    async def _end(self, task: asyncio.Task[None]) -> None:
        try:
            is_over = await ended(task, self._close_s)
        except asyncio.CancelledError:
            await self._end_by_force(task)
            raise
        if not is_over:
            await self._end_by_force(task)

    async def _end_by_force(self, task: asyncio.Task[None]) -> None:
        if task.done():
            return
        task.cancel()
        if not await ended(task, self._close_s):
            logger.error("%r has not ended; it is left to itself", self.transport)

    async def _hold(self) -> None:
        async with _session(self.transport) as live:
            live.session.offer(self._offered)
            if self.transport.legacy_only:
                await live.session.initialize()
            else:
                await negotiate(live.session, self._known_version, probe_s=self._probe_s)
            self._up.set_result(live)
            await self._leave.wait()


@asynccontextmanager
async def _session(transport: ClientTransport) -> AsyncIterator[Live]:
    """Give a connection on which nothing is agreed on yet."""
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
        yield Live(session, calls, transport, changed)


def _version() -> str:
    from importlib.metadata import version

    return version("agent-utilities")


def module_of(config: UpstreamConfig) -> str:
    """Return the module that reaches the upstream."""
    return f"agent_utilities.upstream.{_MODULES[config.transport]}"


def transport_of(
    config: UpstreamConfig,
    *,
    environ: Mapping[str, str],
    stderr: StderrLog,
    guard: ProcessGuard,
    unfinished: Unfinished | None = None,
) -> ClientTransport:
    """Return a transport that reaches the upstream; it is used for one connection."""
    unfinished = unfinished or Unfinished()
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
