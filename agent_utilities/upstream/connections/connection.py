"""One connection to an upstream, by whatever reaches it: a task of its own, ended with all that it started."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import mcp_types

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

_MODULES: Mapping[Transport, str] = {"stdio": "processes.stdio", "http": "http.transports", "sse": "http.transports"}


_EXIT_KNOWN_S = 1.0
"""Seconds after a connection's end in which how its process ended, and what it wrote last, gets known."""


class Connection:
    """One try to connect, what it comes to, and how well that works.

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
        self._up: asyncio.Future[UpstreamSession] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self._since_s = math.inf
        self.wake = asyncio.Event()
        """Set where there may be something to do about it."""
        self.is_over = self.is_doubted = False
        self.n_doubts = self.n_unreachable = 0

    @property
    def session(self) -> UpstreamSession:
        """What is up on it, once it was opened."""
        return self._up.result()

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
        return getattr(self.transport, "exit_text", "")

    async def last_exit_text(self) -> str:
        """Return how its process ended, once that is known."""
        if (died := getattr(self.transport, "died", None)) is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(died.wait(), _EXIT_KNOWN_S)
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

    async def open(self, timeout_s: float) -> None:
        """Connect, and return once the upstream has answered; where it does not, all is gone.

        Raises:
            TimeoutError: it has not answered in time.
            Exception: whatever the transport and the session raise where they can't reach it.
        """
        self._task = asyncio.create_task(self._hold(), name=f"connection of {self.transport!r}")
        waiting: list[asyncio.Future[UpstreamSession] | asyncio.Task[None]] = [self._up, self._task]
        try:
            await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if self._task.done():
                self._task.result()
            if not self._up.done():
                raise TimeoutError
            self._since_s = asyncio.get_running_loop().time()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End it, and return once its processes are gone, whoever cancels that meanwhile."""
        if (task := self._task) is None:
            return
        self._leave.set()
        if not self._up.done():
            task.cancel()
        try:
            await ended(task, self._close_s)
        finally:
            if not task.done():
                task.cancel()
                if not await ended(task, self._close_s):
                    logger.error("%r has not ended; it is left to itself", self.transport)
            self._up.cancel()

    async def _hold(self) -> None:
        async with _session(self.transport) as session:
            session.offer(self._offered)
            if self.transport.legacy_only:
                await session.initialize()
            else:
                await negotiate(session, self._known_version, probe_s=self._probe_s)
            self._up.set_result(session)
            await self._leave.wait()


@asynccontextmanager
async def _session(transport: ClientTransport) -> AsyncIterator[UpstreamSession]:
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
        session.calls, session.changed = calls, changed
        yield session


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
