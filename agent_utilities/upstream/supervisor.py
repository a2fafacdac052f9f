"""The one supervisor of an upstream: starts it when it is needed, shares it, ends it, and tries again in measure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import TypeVar

import mcp_types
from mcp import MCPError

from agent_utilities.upstream.backoff import Failures
from agent_utilities.upstream.calls import Call
from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.connection import Live, connect, forwarded
from agent_utilities.upstream.errors import Cause, UpstreamError
from agent_utilities.upstream.listing import take_snapshot
from agent_utilities.upstream.policy import Policy
from agent_utilities.upstream.relay import Relay
from agent_utilities.upstream.snapshot import Snapshot
from agent_utilities.upstream.state import UpstreamState
from agent_utilities.upstream.transports import transport_of

T = TypeVar("T")


class Upstream:
    """One configured server and its one supervisor.

    Args:
        config: the upstream's.
        environ: the user's environment.
        snapshot: what it listed the last time; None where it was never reached.
        slots: bounds how many are started at once.
        on_snapshot: told of each snapshot that is taken.
        policy: what holds for every upstream.
    """

    def __init__(
        self,
        config: UpstreamConfig,
        *,
        environ: Mapping[str, str],
        snapshot: Snapshot | None,
        slots: asyncio.Semaphore,
        on_snapshot: Callable[[Snapshot], None],
        policy: Policy,
    ) -> None:
        self.config = config
        self.snapshot = snapshot
        self._environ, self._slots, self._on_snapshot, self._policy = environ, slots, on_snapshot, policy
        self._failures = Failures()
        self._trouble: UpstreamError | None = None
        self._live: Live | None = None
        self._is_starting = False
        self._wanted = asyncio.Event()
        self._outcome: asyncio.Future[Live] | None = None
        self._used_s = 0.0

    @property
    def state(self) -> UpstreamState:
        """What it does now."""
        n_tools = len(self.snapshot.tools) if self.snapshot is not None else 0
        if not self.config.enabled:
            return UpstreamState("off", n_tools=n_tools)
        if self._live is not None:
            return UpstreamState("ready", n_tools=n_tools)
        if self._is_starting:
            return UpstreamState("starting", n_failures=self._failures.n_failures, n_tools=n_tools)
        if self._trouble is not None:
            return UpstreamState(
                "failing",
                self._trouble.cause,
                self._trouble.detail,
                self._failures.n_failures,
                self._failures.next_try_s,
                n_tools,
            )
        return UpstreamState("idle" if self.snapshot is not None else "unseen", n_tools=n_tools)

    async def request(
        self,
        send: Callable[[Live], Awaitable[T]],
        relay: Relay | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """Send a request, on a connection that is started where there is none.

        Args:
            send: sends it.
            relay: the caller's side; None where nobody can be asked or told.
            headers: the caller's; of them those that `forward_headers` names cross.

        Raises:
            UpstreamError: it could not be reached, died, or showed no progress for too long.
            MCPError: it answered with an error, which is handed on as it is.
        """
        call = Call(relay, forwarded(self.config.forward_headers, headers), self.config.timeout_s)
        for attempt in range(2):
            live = await self._connected()
            try:
                with live.calls.adding(call):
                    async with call.under_way():
                        return await send(live)
            except TimeoutError:
                seconds = f"no sign of progress for {self.config.timeout_s:g} s"
                raise self._error("did not answer", seconds) from None
            except MCPError as error:
                if error.code != mcp_types.CONNECTION_CLOSED:
                    raise
                if call.is_sent or attempt:
                    raise self._error("died", "the connection ended in the middle of the call") from None
            finally:
                self._used_s = asyncio.get_running_loop().time()
        raise AssertionError("unreachable")

    async def renew(self) -> None:
        """Take a snapshot anew, and return once it is taken or the try has failed."""
        try:
            await self._connected()
        except UpstreamError:
            pass

    async def _connected(self) -> Live:
        if not self.config.enabled:
            raise self._error("off", f"it is disabled in {self.config.source}")
        if self._live is not None and not self._live.ended.is_set():
            return self._live
        now = asyncio.get_running_loop().time()
        if self._trouble is not None and not self._is_starting and not self._failures.is_due(now):
            trouble = self._trouble
            assert self._failures.next_try_s is not None
            raise self._error(trouble.cause, trouble.detail, retry_in_s=self._failures.next_try_s - now)
        if self._outcome is None or self._outcome.done():
            self._outcome = asyncio.get_running_loop().create_future()
            self._outcome.add_done_callback(lambda outcome: outcome.cancelled() or outcome.exception())
        self._wanted.set()
        return await asyncio.shield(self._outcome)

    def _error(self, cause: Cause, detail: str, retry_in_s: float | None = None) -> UpstreamError:
        return UpstreamError(self.config.name, cause, detail, retry_in_s=retry_in_s)

    async def run(self) -> None:
        """Supervise until cancelled; the upstream's process has ended then."""
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                await self._serve_once()
        finally:
            self._answer(self._error("stopping", "the gateway is stopping"))

    def _answer(self, outcome: Live | UpstreamError) -> None:
        waiting, self._outcome = self._outcome, None
        if waiting is None or waiting.done():
            return
        if isinstance(outcome, UpstreamError):
            waiting.set_exception(outcome)
        else:
            waiting.set_result(outcome)

    async def _serve_once(self) -> None:
        loop = asyncio.get_running_loop()
        up_since_s: float | None = None
        try:
            async with AsyncExitStack() as stack:
                self._is_starting = True
                async with self._slots, asyncio.timeout(self.config.start_timeout_s):
                    known = self.snapshot.protocol_version if self.snapshot is not None else None
                    transport = transport_of(self.config, self._environ)
                    live = await stack.enter_async_context(connect(transport, known, probe_s=self._policy.probe_s))
                self._live, self._is_starting, self._used_s = live, False, loop.time()
                up_since_s = loop.time()
                self._trouble = None
                self._answer(live)
                await self._keep(live)
        except Exception as error:
            self._fail(error, loop.time() - up_since_s if up_since_s is not None else 0.0)
        finally:
            self._live, self._is_starting = None, False

    def _fail(self, error: Exception, up_s: float) -> None:
        now = asyncio.get_running_loop().time()
        self._failures = self._failures.after_failure(self._policy.backoff, now, up_s, self._policy.dice)
        self._trouble = self._error("did not start", f"{type(error).__name__}: {error}")
        self._answer(self._trouble)

    async def _keep(self, live: Live) -> None:
        """Serve until the connection ends or nobody has used it for long."""
        self._take(await take_snapshot(live, self.config, self._policy.bounds))
        while not live.ended.is_set():
            left = self._used_s + self.config.idle_s - asyncio.get_running_loop().time()
            if left <= 0 and not len(live.calls):
                return
            try:
                await asyncio.wait_for(live.ended.wait(), max(left, 0.05))
            except TimeoutError:
                continue

    def _take(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._on_snapshot(snapshot)
