"""One configured server: its state, its snapshot, and every request that is made of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from mcp import MCPError

from agent_utilities.runtime.endings import ended
from agent_utilities.upstream.connections.calls import Call, NoProgressError
from agent_utilities.upstream.connections.negotiation import has_ended
from agent_utilities.upstream.errors import UpstreamError
from agent_utilities.upstream.http.forwarding import forwarded
from agent_utilities.upstream.http.http_errors import http_trouble
from agent_utilities.upstream.state import UpstreamState
from agent_utilities.upstream.supervision.health import Counts, Health
from agent_utilities.upstream.supervision.keeper import Keeper
from agent_utilities.upstream.supervision.opening import Opener

if TYPE_CHECKING:
    from agent_utilities.upstream.config import UpstreamConfig
    from agent_utilities.upstream.connections.connection import Live
    from agent_utilities.upstream.processes.stderr_log import StderrLog
    from agent_utilities.upstream.relay import Relay
    from agent_utilities.upstream.snapshot import Snapshot
    from agent_utilities.upstream.supervision.policy import Policy
    from agent_utilities.upstream.supervision.renewal import Renewal
    from agent_utilities.upstream.supervision.serving import Serving

T = TypeVar("T")


class _NotSentError(Exception):
    """A call found its connection ended before any of it was sent."""


class Upstream:
    """One configured server.

    Args:
        opener: opens connections to it.
        renewal: keeps its snapshot up to date.
        stderr: what it writes to stderr.
        policy: what holds for every upstream.
    """

    def __init__(self, opener: Opener, renewal: Renewal, stderr: StderrLog, policy: Policy) -> None:
        self.stderr = stderr
        self._opener, self._renewal, self._policy = opener, renewal, policy
        self._health = Health(policy)
        self._shared = self._keeper(is_for_all=True)
        self._isolated: dict[Hashable, Keeper] = {}
        self._tasks: dict[Keeper, asyncio.Task[None]] = {}
        self._start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]] | None = None
        self.is_coming = False
        """Whether it will run soon, so that a call waits for it."""

    @property
    def config(self) -> UpstreamConfig:
        """How it is configured."""
        return self._opener.troubles.config

    @config.setter
    def config(self, config: UpstreamConfig) -> None:
        self._opener.troubles.config = config

    @property
    def snapshot(self) -> Snapshot | None:
        """What it last listed; None where it was never reached."""
        return self._renewal.snapshot

    @property
    def is_running(self) -> bool:
        """Whether it is supervised."""
        return bool(self._tasks)

    @property
    def counts(self) -> Counts:
        """What it has done since the gateway started."""
        return self._health.counts

    @property
    def state(self) -> UpstreamState:
        """What it does now."""
        n_tools = len(self.snapshot.tools) if self.snapshot is not None else 0
        if not self.config.enabled:
            return UpstreamState("off", n_tools=n_tools)
        keepers = [self._shared, *self._isolated.values()]
        n_failures = self._health.failures.n_failures
        if any(keeper.is_up for keeper in keepers):
            return UpstreamState("ready", n_failures=n_failures, n_tools=n_tools)
        if any(keeper.is_starting for keeper in keepers):
            return UpstreamState("starting", n_failures=n_failures, n_tools=n_tools)
        if (trouble := self._health.trouble) is not None:
            has_next = self._health.wait_s > 0 or self._renewal.due_in_s <= 0
            next_try_s = self._health.failures.next_try_s if has_next else None
            return UpstreamState("failing", trouble.cause, trouble.detail, n_failures, next_try_s, n_tools)
        return UpstreamState("unseen" if self.snapshot is None else "idle", n_failures=n_failures, n_tools=n_tools)

    async def request(
        self,
        send: Callable[[Live], Awaitable[T]],
        relay: Relay | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """Send a request, on a connection that is started where there is none.

        Args:
            send: sends it. It is not called again where the upstream may have got any of it.
            relay: the caller's side; None where nobody can be asked or told.
            headers: the caller's; of them those that `forward_headers` names cross.

        Raises:
            UpstreamError: it could not be reached, died, or showed no progress for too long.
            MCPError: it answered with an error, which is handed on as it is.
        """
        if not self.config.enabled:
            raise self._opener.troubles.error("off", f"it is disabled in {self.config.source}")
        if self._start is None and not self.is_coming:
            raise self._opener.troubles.error("stopping", "the gateway is not running")
        keeper = self._keeper_for(relay)
        counts, started_s = self.counts, asyncio.get_running_loop().time()
        counts.n_calls += 1
        call = Call(relay, forwarded(self.config.forward_headers, headers), self.config.timeout_s)
        try:
            with keeper.using():
                try:
                    return await self._sent(keeper, await keeper.connected(), call, send)
                except _NotSentError:
                    return await self._sent(keeper, await keeper.connected(is_retry=True), call, send)
        except _NotSentError:
            counts.n_failed_calls += 1
            raise self._opener.troubles.died("", in_call=False) from None
        except UpstreamError:
            counts.n_failed_calls += 1
            raise
        finally:
            counts.calls_s += asyncio.get_running_loop().time() - started_s

    async def _sent(self, keeper: Keeper, live: Live, call: Call, send: Callable[[Live], Awaitable[T]]) -> T:
        serving = keeper.serving(live)
        if serving is None:
            raise _NotSentError
        try:
            with live.calls.adding(call):
                async with call.under_way():
                    result = await send(live)
        except NoProgressError:
            serving.doubt()
            raise self._opener.troubles.no_progress() from None
        except MCPError as error:
            raise await self._what_it_means(error, keeper, serving, call) from None
        serving.reached(True)
        return result

    async def _what_it_means(self, error: MCPError, keeper: Keeper, serving: Serving, call: Call) -> Exception:
        """Return what an error comes to: the upstream's own is handed on, one of its connection is told by its name."""
        troubles, trouble = self._opener.troubles, http_trouble(error)
        if trouble is not None and trouble.is_lost:
            serving.lose()
            return _NotSentError()
        if trouble is not None:
            serving.reached(trouble.cause != "unreachable")
            return troubles.error(trouble.cause, trouble.detail)
        if not has_ended(error):
            serving.reached(True)
            return error
        if keeper.is_stopping:
            return troubles.error("stopping", "it was ended in the middle of the call")
        if not call.is_sent:
            return _NotSentError()
        return troubles.died(await serving.live.exit_text(), in_call=True)

    async def connect(self) -> None:
        """Have it connected, as for a call that is about to come; where it can't be, `state` tells why."""
        if not self.config.enabled or (self._start is None and not self.is_coming):
            return
        keeper = self._shared
        with suppress(UpstreamError), keeper.using():
            await keeper.connected()

    async def renew(self) -> None:
        """Have the snapshot taken anew, behind."""
        self._renewal.want()
        if self._shared.live is not None:
            self._shared.live.changed.set()
        self._shared.wake()

    async def renewed(self) -> None:
        """Have the snapshot taken anew, and return once it is, or can't be now: `state` tells which."""
        if not self.is_running:
            return
        tried = self._renewal.next_try()
        await self.renew()
        if self._shared.live is not None or self._health.refusal() is None:
            await tried

    def forget_session(self, session: Hashable) -> None:
        """End what was started for one session alone, once its calls have ended.

        Args:
            session: as its relay names it.
        """
        keeper = self._isolated.pop(session, None)
        if keeper is not None:
            keeper.leave()

    def run(self, start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]) -> None:
        """Begin to supervise.

        Args:
            start: starts a task that is ended with the gateway.
        """
        self._start, self.is_coming = start, False
        if self._shared.is_over:  # it has run before
            self._shared, self._isolated = self._keeper(is_for_all=True), {}
        if self.config.enabled:
            self._run(self._shared)

    async def stop(self) -> None:
        """Take no more calls, let those under way end for a while, and return once all processes are gone."""
        keepers = dict(self._tasks)
        for keeper in keepers:
            keeper.leave()
        if keepers:
            await asyncio.wait(keepers.values(), timeout=self._policy.grace_s)
        for task in keepers.values():
            task.cancel()
        for task in keepers.values():
            await ended(task, 2 * self._policy.close_s)

    def _run(self, keeper: Keeper) -> None:
        if self._start is None:
            raise self._opener.troubles.error("stopping", "it is about to start")
        self._tasks[keeper] = self._start(keeper.run())
        self._tasks[keeper].add_done_callback(lambda _: self._tasks.pop(keeper, None))

    def _keeper_for(self, relay: Relay | None) -> Keeper:
        if not self.config.isolate or relay is None:
            return self._shared
        keeper = self._isolated.get(relay.session)
        if keeper is not None and not keeper.is_over:
            return keeper
        self._isolated = {session: one for session, one in self._isolated.items() if not one.is_over}
        if len(self._isolated) >= self._policy.n_isolated:
            self._make_room()
        keeper = self._keeper(is_for_all=False)
        self._run(keeper)
        self._isolated[relay.session] = keeper
        return keeper

    def _keeper(self, *, is_for_all: bool) -> Keeper:
        return Keeper(self._opener, self._health, self._renewal, self._policy, is_for_all=is_for_all)

    def _make_room(self) -> None:
        unused = next((session for session, keeper in self._isolated.items() if not keeper.users.n), None)
        if unused is None:
            text = f"{len(self._isolated)} sessions have a connection of their own, as many as there may be"
            raise self._opener.troubles.error("refused", text)
        self.forget_session(unused)
