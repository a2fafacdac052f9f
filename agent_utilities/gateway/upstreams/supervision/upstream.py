"""One configured server: its state, its snapshot, its connections, and requests to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from mcp import MCPError
from mcp_types import ClientCapabilities

from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.connections.calls import Call, Callers, GivenUpError, Relay, forwarded
from agent_utilities.gateway.upstreams.connections.session import EndedError, UpstreamSession
from agent_utilities.gateway.upstreams.errors import StateName, UpstreamError, UpstreamState
from agent_utilities.gateway.upstreams.http.http_client import http_trouble
from agent_utilities.gateway.upstreams.snapshot import Snapshot
from agent_utilities.gateway.upstreams.supervision.backoff import Counts, Health
from agent_utilities.gateway.upstreams.supervision.connection import Connection
from agent_utilities.gateway.upstreams.supervision.listing import Listing
from agent_utilities.gateway.upstreams.supervision.opening import Opener
from agent_utilities.runtime.waiting import is_set

logger = logging.getLogger(__name__)

T = TypeVar("T")
Start = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
"""Starts a task that belongs to the gateway, not to its caller."""
NOTHING = ClientCapabilities()
FOR_ALL = Callers(None, NOTHING)
"""The callers of the shared connection: those who can't be asked during calls, or need no other for that."""


class _NotSentError(Exception):
    """The connection of a call ended before any of the call was sent."""


class Upstream:
    def __init__(self, opener: Opener, listing: Listing) -> None:
        self.opener, self._listing, self._policy = opener, listing, opener.policy
        self.learn = listing.learn
        self.was_tried = listing.was_tried
        """Set after the first try to list it since it runs."""
        self.counts = Counts()
        self._health, self._health_of_asking = Health(self._policy, self.counts), Health(self._policy, self.counts)
        self._connections: dict[Hashable, Connection] = {}
        """Connections for new calls, by the key of their callers."""
        self._running: set[Connection] = set()
        """All connections that are not gone yet."""
        self._modern_only: Mapping[str, Any] | None = None
        """The server info of a server that refused a handshake: a later version of it may take one."""
        self._is_warned = self._is_stopping = False
        self._start: Start | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._is_settled = asyncio.Event()
        """Unset while it is to run soon, so that calls wait."""
        self._is_settled.set()

    @property
    def config(self) -> UpstreamConfig:
        return self.opener.config

    @property
    def snapshot(self) -> Snapshot | None:
        """Its last snapshot; None where it was never reached."""
        return self._listing.snapshot

    @property
    def is_running(self) -> bool:
        """Whether it is supervised, or not all of its connections have ended."""
        return self._start is not None or bool(self._running)

    @property
    def is_busy(self) -> bool:
        return any(each.n_users for each in self._running)

    @property
    def state(self) -> UpstreamState:
        health, trouble = self._health, self._health.trouble
        if not self.config.enabled:
            return UpstreamState("off")
        name: StateName = "unseen" if self.snapshot is None else "idle"
        if self._running:
            name = "ready" if any(each.is_up for each in self._running) else "starting"
        elif trouble is not None:
            return UpstreamState("failing", trouble.cause, trouble.detail, health.n_failures)
        return UpstreamState(name, n_failures=health.n_failures)

    @property
    def since_s(self) -> float:
        """When a connection of it last came up, failed or ended, in seconds since 1970."""
        return self._health.since_s

    @property
    def pids(self) -> list[int]:
        return [pid for each in self._running if (pid := each.pid) is not None]

    # -- requests ----------------------------------------------------------------------------------------------------

    async def request(
        self,
        send: Callable[[UpstreamSession], Awaitable[T]],
        relay: Relay | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """Send a request on a connection, which is started if there is none.

        Args:
            send: sends it; called again only where the upstream can't have received any of it.
            relay: the caller's side; None where there is nobody to ask or notify.

        Raises:
            UpstreamError: it could not be reached, died, or showed no progress for too long.
            MCPError: it answered with an error, which is forwarded as it is.
        """
        if not self.config.enabled:
            raise self.opener.error("off", f"it is disabled in {self.config.source}")
        counts, started_s = self.counts, asyncio.get_running_loop().time()
        counts.n_calls += 1
        crossing = forwarded(self.config.forward_headers, headers)
        call = Call(relay, crossing, self.config.timeout_s, self.config.limits.call_s)
        try:
            await self._is_settled.wait()
            callers = await self._served_on(relay)
            try:
                return await self._sent(self._connection(callers), call, send)
            except _NotSentError:
                return await self._sent(self._connection(callers, is_retry=True), call, send)
        except (_NotSentError, UpstreamError) as error:
            counts.n_failed_calls += 1
            if isinstance(error, UpstreamError):
                raise
            raise self.opener.died("", in_call=False) from None
        finally:
            counts.calls_s += asyncio.get_running_loop().time() - started_s
            if call.n_dropped:
                counts.n_untold += call.n_dropped
                text = "upstream %r: %d messages that the caller did not read in time were dropped"
                logger.warning(text, self.config.name, call.n_dropped)

    async def _sent(self, connection: Connection, call: Call, send: Callable[[UpstreamSession], Awaitable[T]]) -> T:
        with connection.using():
            session = await connection.session()
            if not connection.is_usable:
                raise _NotSentError
            try:
                async with call.under_way(session.calls):
                    await session.follow_log_level()
                    call.is_sent = False
                    result = await send(session)
            except GivenUpError as error:
                connection.doubt()
                raise self.opener.error("did not answer", str(error)) from None
            except MCPError as error:
                raise await self._what_it_means(error, connection, session, call) from None
            connection.reached(True)
            return result

    async def _what_it_means(
        self, error: MCPError, connection: Connection, session: UpstreamSession, call: Call
    ) -> Exception:
        """Return the upstream's own error as it is, or an `UpstreamError` or `_NotSentError` for the connection's."""
        opener, trouble = self.opener, http_trouble(error)
        if await session.is_forgotten(error, self._policy.ping_s):
            connection.lose()
            return _NotSentError()
        if trouble is not None:
            connection.reached(trouble.is_reached)
            if trouble.cause == "died":
                return opener.died(trouble.detail, in_call=True)
            return opener.error(trouble.cause, trouble.detail)
        if not isinstance(error, EndedError):
            connection.reached(True)
            return error
        if self._is_stopping:
            return opener.error("stopping", "it was ended in the middle of the call")
        if not call.is_sent:
            return _NotSentError()
        return opener.died(session.transport.exit_text, in_call=True)

    async def connect(self) -> None:
        """Connect, as for a call; where that fails, `state` has the reason."""
        await self._is_settled.wait()
        with suppress(UpstreamError):
            if self.config.enabled:
                connection = self._connection(FOR_ALL)
                with connection.using():
                    await connection.session()

    # -- while it runs -----------------------------------------------------------------------------------------------

    def expect_run(self) -> None:
        """Make calls wait until it runs."""
        self._is_settled.clear()

    def run(self, start: Start) -> None:
        self._start, self._is_stopping = start, False
        self._is_settled.set()
        if self.config.enabled and self.opener.shared.may_list(self.config):
            self.retry()

    def refuse_calls(self) -> None:
        """Refuse new calls, and mark those under way as ended by the gateway: their tasks are cancelled next."""
        self._start, self._is_stopping = None, True
        self._is_settled.set()
        self.was_tried.set()
        if self._renewing is not None:
            self._renewing.cancel()
        for connection in self._running:
            connection.leave()

    async def stop(self) -> None:
        """Refuse new calls, wait for those under way up to a limit, and return once all processes are gone."""
        self.refuse_calls()
        await self._gone()

    async def end(self) -> None:
        """End all connections, and return once their processes are gone; the next call begins another."""
        for key in list(self._connections):
            self.forget_session(key)
        await self._gone()

    async def _gone(self) -> None:
        if tasks := [connection.task for connection in self._running]:
            await asyncio.wait(tasks, timeout=self._policy.grace_s)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=2 * self._policy.close_s)

    def retry(self) -> None:
        """Reset its failures, and list it at once where that is due."""
        self._health.is_well()
        if self._start is not None:
            if self._renewing is not None:
                self._renewing.cancel()
            self.was_tried.clear()
            self._renewing = self._start(self._keep_renewed())

    async def renewed(self) -> None:
        """Take the snapshot again, and return after one try; where that fails, `state` has the reason."""
        if self._start is not None and self.config.enabled:
            await asyncio.wait([self._start(self._renew(self.config.list_timeout_s))])

    async def _keep_renewed(self) -> None:
        """Take the snapshot again whenever it has changed or expired."""
        clock, policy = asyncio.get_running_loop().time, self._policy
        settle_s, listed_s, least_s = policy.settle_s, 0.0, 0.0
        while True:
            if await is_set(self._listing.changed, within_s=max(least_s, self._listing.due_in_s)):
                is_busy = clock() - listed_s < settle_s
                settle_s = min(policy.settle_limit_s, settle_s * 2) if is_busy else policy.settle_s
                await asyncio.sleep(settle_s)
            await asyncio.sleep(self._health.wait_s)
            await self._renew(self.config.idle_s, policy.empty_s)
            listed_s = clock()
            is_used = self._listing.trouble is not None and self._listed_on().key in self._connections
            least_s = policy.backoff.limit_s if is_used else 0.0  # it serves calls, though listing fails

    async def _renew(self, limit_s: float, empty_s: float = 0.0) -> None:
        """Take the snapshot again; in one of the places for that, unless it is connected already.

        A slow listing gives up its place after a while, so that upstreams that hang don't delay the others.
        """
        callers, listed = self._listed_on(), asyncio.Event()
        if callers.key in self._connections:
            return await self._take(callers, limit_s, empty_s, listed)
        async with self.opener.shared.places:
            if self._start is None:
                return None
            taking = self._start(self._take(callers, limit_s, empty_s, listed))
            await is_set(listed, within_s=self._policy.slot_s)
        await asyncio.wait([taking])
        return None

    async def _take(self, callers: Callers, limit_s: float, empty_s: float, listed: asyncio.Event) -> None:
        with suppress(UpstreamError):
            connection = self._connection(callers, is_listed=True)
            try:
                with connection.listing():
                    await self._listing.take(await connection.session(), limit_s, empty_s, listed)
            except (MCPError, UpstreamError) as error:
                self.was_tried.set()
                # Where the connection has ended, its own error counts.
                if isinstance(error, MCPError) or connection.could_not_list(error):
                    await asyncio.wait([connection.task])
            except Exception:  # it must not end the others
                logger.exception("upstream %r could not be listed", self.config.name)
        listed.set()
        self.was_tried.set()

    # -- connections -------------------------------------------------------------------------------------------------

    def _connection(self, callers: Callers, *, is_retry: bool = False, is_listed: bool = False) -> Connection:
        """Return a connection that is up or coming up; it is begun where there is none.

        Args:
            is_retry: whether a call's connection had ended, so that it ignores the backoff of a first failure.
            is_listed: whether the caller takes the snapshot; else that is done in the background.

        Raises:
            UpstreamError: the last one has failed and the next try is not due, or too many are in use.
        """
        key, isolate = callers.key, self.config.isolate
        before = self._connections.get(key)
        if before is not None and before.is_usable:
            return before
        if self._start is None:
            raise self.opener.error("stopping", "the gateway is not running")
        # A connection for questions fails on its own: without one, callers are served on the shared one.
        health = self._health if callers is FOR_ALL or isolate or not self._is_second else self._health_of_asking
        if is_retry:
            health.allow_one()
        if (refusal := health.refusal()) is not None:
            raise refusal
        others = [each for each in self._connections if each is not FOR_ALL.key]
        limit = self._policy.n_isolated if isolate else self._policy.n_offers
        if callers is not FOR_ALL and before is None and len(others) >= limit:
            unused = next((each for each in others if not self._connections[each].n_users), None)
            if unused is None:
                text = f"{len(others)} connections beside the one for all are in use, as many as there may be"
                raise self.opener.error("refused", text)
            self.forget_session(unused)
        changed = asyncio.Event() if isolate and callers is not FOR_ALL else self._listing.changed
        connection = Connection(self.opener, health, self.snapshot, callers, changed)
        connection.task = self._start(connection.run(before))
        connection.task.add_done_callback(lambda _: self._is_gone(key, connection))
        self._connections[key] = connection
        self._running.add(connection)
        if not is_listed and (callers is FOR_ALL or (self._listing.is_of_before and not isolate)):
            self._start(self._take(callers, self.config.idle_s, 0.0, asyncio.Event()))
        return connection

    def _is_gone(self, key: Hashable, connection: Connection) -> None:
        self._running.discard(connection)
        if self._connections.get(key) is connection:
            del self._connections[key]
        connection.refuse(self.opener.error("stopping", "it is being ended"))

    def forget_session(self, session: Hashable) -> None:
        """End the connection of one session, once its calls have ended."""
        if (connection := self._connections.pop(session, None)) is not None:
            connection.leave()

    async def _served_on(self, relay: Relay | None) -> Callers:
        """Return the callers of the connection for a caller: after a handshake, those with the same capabilities."""
        if relay is None:
            return FOR_ALL
        if self.config.isolate:
            offered = relay.capabilities or NOTHING
            return Callers(relay.session, offered, must_ask=relay.asked_at_once is not None, owner=relay)
        offered = (relay.capabilities if self._listing.is_of_before else relay.asked_at_once) or NOTHING
        snapshot = self.snapshot
        if offered == NOTHING or snapshot is None or snapshot.server_info == self._modern_only:
            return FOR_ALL
        callers = Callers(offered.model_dump_json(exclude_none=True), offered, must_ask=True)
        try:
            connection = self._connection(callers)
            with connection.using():
                is_asking = not (await connection.session()).is_modern
        except UpstreamError as error:
            if not self._is_second:
                raise
            # Warned of once: calls work, without questions during them.
            level, self._is_warned = logging.DEBUG if self._is_warned else logging.WARNING, True
            name = self.config.name
            logger.log(level, "upstream %r can't ask callers in the middle of a call, for now: %s", name, error)
            return FOR_ALL
        if is_asking:
            self._is_warned = False
            return callers
        self._modern_only = self.snapshot.server_info if self.snapshot is not None else None
        self.forget_session(callers.key)
        return FOR_ALL

    @property
    def _is_second(self) -> bool:
        """Whether a connection for questions stands beside another that serves, or is likely to."""
        return not self._listing.is_of_before or any(each.is_up for each in self._running)

    def _listed_on(self) -> Callers:
        """Return the callers of the connection for listing: those with most capabilities, as lists may need them."""
        if self.config.isolate or not self._listing.is_of_before:
            return FOR_ALL
        usable = [each.callers for each in self._connections.values() if each.is_usable]
        return max(usable, key=lambda callers: len(str(callers.key)), default=FOR_ALL)
