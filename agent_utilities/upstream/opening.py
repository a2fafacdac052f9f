"""Opens connections to one upstream: in a slot, within its deadline, and in the era that it speaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from mcp_types.version import LATEST_HANDSHAKE_VERSION

from agent_utilities.upstream.connection import Connection, Live
from agent_utilities.upstream.errors import UpstreamError
from agent_utilities.upstream.transports import module_of, transport_of

if TYPE_CHECKING:
    from agent_utilities.upstream.policy import Policy
    from agent_utilities.upstream.process_guard import ProcessGuard
    from agent_utilities.upstream.slots import StartSlots
    from agent_utilities.upstream.stderr_log import StderrLog
    from agent_utilities.upstream.troubles import Troubles


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

    async def open(self, known_version: str | None, is_urgent: Callable[[], bool]) -> tuple[Connection, Live]:
        """Return a connection, and what is up on it; where there is none, its processes are gone.

        Args:
            known_version: the protocol version that was agreed on the last time; None where none was.
            is_urgent: whether somebody waits for it now.

        Raises:
            UpstreamError: it could not be made.
        """
        async with self._slots.taking(is_urgent):
            until_s = asyncio.get_running_loop().time() + self.troubles.config.start_timeout_s
            if known_version is None and self._is_shy:
                known_version = LATEST_HANDSHAKE_VERSION
            try:
                return await self._once(known_version, until_s)
            except UpstreamError as error:
                if known_version is not None or not self._fled(error):
                    raise
            # Some servers exit where they are asked what they don't know: the next is asked what all of them know.
            self._is_shy = True
            return await self._once(LATEST_HANDSHAKE_VERSION, until_s)

    def _fled(self, error: UpstreamError) -> bool:
        return (
            self.troubles.config.transport == "stdio"
            and isinstance(error.__cause__, Exception)
            and (error.cause == "did not start" and not isinstance(error.__cause__, TimeoutError))
        )

    async def _once(self, known_version: str | None, until_s: float) -> tuple[Connection, Live]:
        # What a transport needs takes a second to import, which the event loop has no time for.
        await asyncio.to_thread(import_module, module_of(self.troubles.config))
        transport = transport_of(self.troubles.config, environ=self._environ, stderr=self._stderr, guard=self._guard)
        connection = Connection(transport, known_version, probe_s=self._policy.probe_s, close_s=self._policy.close_s)
        try:
            return connection, await connection.open(until_s - asyncio.get_running_loop().time())
        except Exception as error:
            await connection.close()
            raise self.troubles.of_start(error, exit_text_of(connection)) from error
        except asyncio.CancelledError:
            await connection.close()
            raise


def exit_text_of(connection: Connection) -> str:
    """Return how a connection's process ended; empty where it has none, or it has not ended."""
    return getattr(connection.transport, "exit_text", "")
