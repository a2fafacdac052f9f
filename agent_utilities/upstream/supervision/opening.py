"""Opens connections to one upstream: in a slot, within its deadline, and in the era that it speaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mcp import MCPError
from mcp_types import ClientCapabilities
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION

from agent_utilities.upstream.config import Transport
from agent_utilities.upstream.connections.connection import Connection, Live
from agent_utilities.upstream.connections.transports import module_of, transport_of
from agent_utilities.upstream.errors import UpstreamError
from agent_utilities.upstream.http.http_errors import http_trouble
from agent_utilities.upstream.limits import Unfinished
from agent_utilities.upstream.supervision.troubles import root_error

if TYPE_CHECKING:
    from agent_utilities.upstream.processes.process_guard import ProcessGuard
    from agent_utilities.upstream.processes.stderr_log import StderrLog
    from agent_utilities.upstream.supervision.policy import Policy
    from agent_utilities.upstream.supervision.slots import StartSlots
    from agent_utilities.upstream.supervision.troubles import Troubles


_NOT_STREAMABLE = (400, 404, 405, 406, 415, 501)
"""What a server answers a POST with that knows nothing of streamable HTTP."""


@dataclass(frozen=True, slots=True)
class _Way:
    """How an upstream is tried.

    Args:
        transport: by what it is reached.
        version: the protocol version that is expected; None where there is nothing to expect.
        offered: what a handshake says that can be asked for; None for all that one could offer.
    """

    transport: Transport
    version: str | None
    offered: ClientCapabilities | None = None

    @property
    def is_probing(self) -> bool:
        """Whether it is asked for the newer era first."""
        return self.version not in HANDSHAKE_PROTOCOL_VERSIONS

    def without_probe(self) -> _Way:
        """Return the same way without a question that servers of the older era don't know."""
        return replace(self, version=LATEST_HANDSHAKE_VERSION) if self.is_probing else self


class Opener:
    """Opens connections to one upstream, one after the other.

    Args:
        troubles: makes its errors, and knows its config.
        environ: the user's environment.
        stderr: takes what it writes to stderr.
        guard: ends its processes where the gateway can't.
        slots: bounds how many upstreams are started at once.
        policy: how long things may take.
    """

    def __init__(
        self,
        troubles: Troubles,
        *,
        environ: Mapping[str, str],
        stderr: StderrLog,
        guard: ProcessGuard,
        slots: StartSlots,
        policy: Policy,
    ) -> None:
        self.troubles = troubles
        self._environ, self._stderr, self._guard = environ, stderr, guard
        self._slots, self._policy = slots, policy
        self._is_shy = False
        self._transport: Transport | None = None
        self._unfinished = Unfinished()

    async def open(
        self, known_version: str | None, is_urgent: Callable[[], bool], offered: ClientCapabilities | None = None
    ) -> tuple[Connection, Live]:
        """Return a connection, and what is up on it; where there is none, its processes are gone.

        Args:
            known_version: the protocol version that was agreed on the last time; None where none was.
            is_urgent: whether somebody waits for it now.
            offered: what its callers' clients can be asked in the middle of a call, for which a handshake is made where
                the upstream takes one; None where they are of any kind.

        Raises:
            UpstreamError: it could not be made.
        """
        async with self._slots.taking(is_urgent):
            until_s = asyncio.get_running_loop().time() + self.troubles.config.start_timeout_s
            version = known_version if offered is None else LATEST_HANDSHAKE_VERSION
            way = _Way(self._transport or self.troubles.config.transport, version, offered)
            if self._is_shy:
                way = way.without_probe()
            try:
                return await self._once(way, until_s)
            except UpstreamError as error:
                other = self._other_way(way, error)
                if other is None:
                    raise
                return await self._otherwise(other, until_s, error)

    def hurry(self) -> None:
        """Have a try that waits for a place to start go first, since somebody waits for it now."""
        self._slots.look_again()

    async def _otherwise(self, way: _Way, until_s: float, first: UpstreamError) -> tuple[Connection, Live]:
        try:
            opened = await self._once(way, until_s)
        except UpstreamError as error:
            self._is_shy = self._is_shy or way.transport == "stdio"
            raise (error if way.transport == "stdio" else first) from error.__cause__
        self._is_shy, self._transport = way.transport == "stdio", way.transport
        return opened

    def _other_way(self, way: _Way, error: UpstreamError) -> _Way | None:
        """Return how else it may be reached; None where what went wrong says nothing of that.

        Some servers exit where they are asked what they don't know, so they are asked only what all know then. Configs
        seldom tell the two HTTP transports apart, so one that knows nothing of the newer is reached by the older.
        """
        cause = error.__cause__
        if way.transport == "stdio" and way.is_probing and error.cause == "did not start":
            return way.without_probe() if cause is not None and not isinstance(cause, TimeoutError) else None
        trouble = http_trouble(cause) if isinstance(cause, MCPError) else None
        if way.transport == "http" and trouble is not None and trouble.status in _NOT_STREAMABLE:
            return replace(way, transport="sse", version=None)
        return None

    async def _once(self, way: _Way, until_s: float) -> tuple[Connection, Live]:
        config = self.troubles.config.model_copy(update={"transport": way.transport})
        await self._slots.import_module(module_of(config))
        transport = transport_of(
            config, environ=self._environ, stderr=self._stderr, guard=self._guard, unfinished=self._unfinished
        )
        policy = self._policy
        connection = Connection(
            transport, way.version, probe_s=policy.probe_s, close_s=policy.close_s, offered=way.offered
        )
        try:
            return connection, await connection.open(until_s - asyncio.get_running_loop().time())
        except Exception as error:
            await connection.close()
            raise self.troubles.of_start(error, exit_text_of(connection)) from root_error(error)
        except asyncio.CancelledError:
            await connection.close()
            raise


def exit_text_of(connection: Connection) -> str:
    """Return how a connection's process ended; empty where it has none, or it has not ended."""
    return getattr(connection.transport, "exit_text", "")
