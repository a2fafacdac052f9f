"""One configured server: its state, its snapshot, and every request that is made of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from mcp import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from agent_utilities.runtime.waiting import is_set
from agent_utilities.upstream.connections.calls import Call, GivenUpError, forwarded
from agent_utilities.upstream.connections.session import has_ended
from agent_utilities.upstream.errors import StateName, UpstreamError, UpstreamState
from agent_utilities.upstream.http.http_client import http_trouble
from agent_utilities.upstream.supervision.backoff import Counts, Health
from agent_utilities.upstream.supervision.connection import Connection
from agent_utilities.upstream.supervision.listing import Listing
from agent_utilities.upstream.supervision.opening import Opener

if TYPE_CHECKING:
    from mcp_types import ClientCapabilities

    from agent_utilities.upstream.config import UpstreamConfig
    from agent_utilities.upstream.connections.calls import Relay
    from agent_utilities.upstream.connections.session import UpstreamSession
    from agent_utilities.upstream.snapshot import Snapshot

logger = logging.getLogger(__name__)

T = TypeVar("T")
Start = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
"""Starts a task that belongs to the gateway, whoever asks for it."""
_FOR_ALL = None
"""The key of the connection that callers of any kind are served on, and that is listed on."""


class _NotSentError(Exception):
    """A call found its connection ended before any of it was sent."""


class Upstream:
    """One configured server."""

    def __init__(self, opener: Opener, listing: Listing) -> None:
        self.opener, self._listing, self._policy = opener, listing, opener.policy
        """What reaches it, and has its config and what it writes to stderr."""
        self.learn = listing.learn
        self.was_tried = listing.was_tried
        """Set once it has listed what it has since it runs, or failed to."""
        self.counts = Counts()
        """What it has done since the gateway started."""
        self._health, self._health_of_asking = Health(self._policy, self.counts), Health(self._policy, self.counts)
        self._connections: dict[Hashable, Connection] = {}
        """Those that new calls may be served on, by whom they are for."""
        self._running: set[Connection] = set()
        """All that are not gone yet."""
        self._modern_only: Mapping[str, Any] | None = None
        """What the server called itself that refused a handshake: a later version of it may take one."""
        self._is_asking_told = self._is_stopping = False
        self._start: Start | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._is_settled = asyncio.Event()
        """Unset while it is to run soon, so that a call waits for it."""
        self._is_settled.set()

    @property
    def config(self) -> UpstreamConfig:
        """How it is configured."""
        return self.opener.config

    @property
    def snapshot(self) -> Snapshot | None:
        """What it last listed; None where it was never reached."""
        return self._listing.snapshot

    @property
    def is_running(self) -> bool:
        """Whether it is supervised, or not all of it has ended yet."""
        return self._start is not None or bool(self._running)

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way."""
        return any(each.n_users for each in self._running)

    @property
    def state(self) -> UpstreamState:
        """What it does now."""
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
        """The ids of its processes."""
        return [pid for each in self._running if (pid := each.pid) is not None]

    # -- requests ----------------------------------------------------------------------------------------------------

    async def request(
        self,
        send: Callable[[UpstreamSession], Awaitable[T]],
        relay: Relay | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """Send a request, on a connection that is started where there is none.

        Args:
            send: sends it. It is not called again where the upstream may have got any of it.
            relay: the caller's side; None where nobody can be asked or told.

        Raises:
            UpstreamError: it could not be reached, died, or showed no progress for too long.
            MCPError: it answered with an error, which is handed on as it is.
        """
        if not self.config.enabled:
            raise self.opener.error("off", f"it is disabled in {self.config.source}")
        counts, started_s = self.counts, asyncio.get_running_loop().time()
        counts.n_calls += 1
        crossing = forwarded(self.config.forward_headers, headers)
        call = Call(relay, crossing, self.config.timeout_s, self.config.limits.call_s)
        try:
            await self._is_settled.wait()
            key, offered = await self._served_on(relay)
            try:
                return await self._sent(self._connection(key, offered), call, send)
            except _NotSentError:
                return await self._sent(self._connection(key, offered, is_retry=True), call, send)
        except (_NotSentError, UpstreamError) as error:
            counts.n_failed_calls += 1
            if isinstance(error, UpstreamError):
                raise
            raise self.opener.died("", in_call=False) from None
        finally:
            counts.calls_s += asyncio.get_running_loop().time() - started_s

    async def _sent(self, connection: Connection, call: Call, send: Callable[[UpstreamSession], Awaitable[T]]) -> T:
        with connection.using():
            session = await connection.session()
            if not connection.is_usable:
                raise _NotSentError
            try:
                async with call.under_way(session.calls):
                    result = await send(session)
            except GivenUpError as error:
                connection.doubt()
                raise self.opener.error("did not answer", str(error)) from None
            except MCPError as error:
                raise self._what_it_means(error, connection, session, call) from None
            connection.reached(True)
            return result

    def _what_it_means(
        self, error: MCPError, connection: Connection, session: UpstreamSession, call: Call
    ) -> Exception:
        """Return what an error comes to: the upstream's own as it is, one of its connection by its name."""
        opener, trouble = self.opener, http_trouble(error)
        if trouble is not None and trouble.is_lost:
            connection.lose()
            return _NotSentError()
        if trouble is not None:
            connection.reached(trouble.cause != "unreachable")
            return opener.error(trouble.cause, trouble.detail)
        if not has_ended(error):
            connection.reached(True)
            return error
        if self._is_stopping:
            return opener.error("stopping", "it was ended in the middle of the call")
        if not call.is_sent:
            return _NotSentError()
        return opener.died(session.transport.exit_text, in_call=True)

    async def connect(self) -> None:
        """Have it connected, as for a call that is about to come; where it can't be, `state` tells why."""
        await self._is_settled.wait()
        with suppress(UpstreamError):
            if self.config.enabled:
                connection = self._connection(_FOR_ALL)
                with connection.using():
                    await connection.session()

    # -- while it runs -----------------------------------------------------------------------------------------------

    def expect_run(self) -> None:
        """Have calls wait: it runs soon."""
        self._is_settled.clear()

    def run(self, start: Start) -> None:
        """Begin to supervise."""
        self._start, self._is_stopping = start, False
        self._is_settled.set()
        if self.config.enabled and self.opener.shared.may_list(self.config):
            self.retry()

    def refuse_calls(self) -> None:
        """Take no more calls, and tell those under way that they are ended: what serves them is cancelled next."""
        self._start, self._is_stopping = None, True
        self._is_settled.set()
        self.was_tried.set()
        if self._renewing is not None:
            self._renewing.cancel()
        for connection in self._running:
            connection.leave()

    async def stop(self) -> None:
        """Take no more calls, let those under way end for a while, and return once all processes are gone."""
        self.refuse_calls()
        await self._gone()

    async def end(self) -> None:
        """End all connections as they are, and return once their processes are gone; the next call begins another."""
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
        """Forget its trouble, and list it where that is due: nothing stands in its way any more."""
        self._health.is_well()
        if self._start is not None:
            if self._renewing is not None:
                self._renewing.cancel()
            self.was_tried.clear()
            self._renewing = self._start(self._keep_renewed())

    async def renewed(self) -> None:
        """Have the snapshot taken anew, and return once it is, or can't be now: `state` tells which."""
        if self._start is not None and self.config.enabled:
            await asyncio.wait([self._start(self._renew(self.config.list_timeout_s))])

    async def _keep_renewed(self) -> None:
        """Have the snapshot taken anew whenever it has changed or grown old."""
        clock, policy = asyncio.get_running_loop().time, self._policy
        settle_s, listed_s, least_s = policy.settle_s, 0.0, 0.0
        while True:
            if await is_set(self._listing.changed, within_s=max(least_s, self._listing.due_in_s)):
                is_busy = clock() - listed_s < settle_s
                settle_s = min(policy.settle_limit_s, settle_s * 2) if is_busy else policy.settle_s
                await asyncio.sleep(settle_s)
            await asyncio.sleep(self._health.wait_s)
            await self._renew(self.config.idle_s)
            listed_s = clock()
            is_used = self._listing.trouble is not None and _FOR_ALL in self._connections
            least_s = policy.backoff.limit_s if is_used else 0.0  # it serves calls, though it can't list

    async def _renew(self, limit_s: float) -> None:
        """Take the snapshot anew, in one of the places for that where it is not connected already.

        One that takes long waits for a network or hangs: it leaves its place after a while, so that no number of
        upstreams that hang delays the others for longer.
        """
        if _FOR_ALL in self._connections:
            return await self._take(limit_s)
        async with self.opener.shared.places:
            if self._start is None:
                return None
            taking = self._start(self._take(limit_s))
            await asyncio.wait([taking], timeout=self._policy.slot_s)
        await asyncio.wait([taking])
        return None

    async def _take(self, limit_s: float) -> None:
        with suppress(UpstreamError):
            connection = self._connection(_FOR_ALL, is_listed=True)
            try:
                with connection.listing():
                    await self._listing.take(await connection.session(), limit_s)
            except (MCPError, UpstreamError) as error:
                self.was_tried.set()
                # Where the connection has ended why is for that to say.
                if isinstance(error, MCPError) or connection.could_not_list(error):
                    await asyncio.wait([connection.task])
            except Exception:  # it must not end the others
                logger.exception("upstream %r could not be listed", self.config.name)
        self.was_tried.set()

    # -- connections -------------------------------------------------------------------------------------------------

    def _connection(
        self,
        key: Hashable,
        offered: ClientCapabilities | None = None,
        *,
        is_retry: bool = False,
        is_listed: bool = False,
    ) -> Connection:
        """Return a connection that serves calls or comes up to do so, begun where there is none.

        Args:
            key: whom it is for.
            offered: what its callers' clients can be asked in the middle of a call; None where they are of any kind.
            is_retry: whether for a call that found its connection ended, which waits for no backoff of a first failure.
            is_listed: whether who asks for it takes the snapshot on it; else that is done behind.

        Raises:
            UpstreamError: the last one has failed and the next is not due, or there may be no more of them.
        """
        before = self._connections.get(key)
        if before is not None and before.is_usable:
            return before
        if self._start is None:
            raise self.opener.error("stopping", "the gateway is not running")
        is_shared = key is _FOR_ALL or not self.config.isolate
        # Trouble of one for asking is its own: where it can't be had all are served on the first.
        health = self._health if key is _FOR_ALL or self.config.isolate else self._health_of_asking
        if is_retry:
            health.allow_one()
        if (refusal := health.refusal()) is not None:
            raise refusal
        others = [each for each in self._connections if each is not _FOR_ALL]
        limit = self._policy.n_isolated if self.config.isolate else self._policy.n_offers
        if key is not _FOR_ALL and before is None and len(others) >= limit:
            unused = next((each for each in others if not self._connections[each].n_users), None)
            if unused is None:
                text = f"{len(others)} connections beside the one for all are in use, as many as there may be"
                raise self.opener.error("refused", text)
            self.forget_session(unused)
        changed = self._listing.changed if is_shared else asyncio.Event()
        connection = Connection(self.opener, health, self.snapshot, offered=offered, changed=changed)
        connection.task = self._start(connection.run(before))
        connection.task.add_done_callback(lambda _: self._is_gone(key, connection))
        self._connections[key] = connection
        self._running.add(connection)
        if key is _FOR_ALL and not is_listed:
            self._start(self._take(self.config.idle_s))
        return connection

    def _is_gone(self, key: Hashable, connection: Connection) -> None:
        self._running.discard(connection)
        if self._connections.get(key) is connection:
            del self._connections[key]
        connection.refuse(self.opener.error("stopping", "it is being ended"))

    def forget_session(self, session: Hashable) -> None:
        """End what was started for one session alone, once its calls have ended."""
        if (connection := self._connections.pop(session, None)) is not None:
            connection.leave()

    async def _served_on(self, relay: Relay | None) -> tuple[Hashable, ClientCapabilities | None]:
        """Return whom the connection is for that a caller is served on, and what it offers to be asked."""
        if self.config.isolate and relay is not None:
            return relay.session, relay.asked_at_once
        offered = relay.asked_at_once if relay is not None else None
        if offered is None or not self._may_ask_at_once():
            return _FOR_ALL, None
        key = offered.model_dump_json()
        try:
            connection = self._connection(key, offered)
            with connection.using():
                is_asking = not (await connection.session()).is_modern
        except UpstreamError as error:
            # Told once: callers are served, and can't be asked in the middle of a call.
            level, self._is_asking_told = logging.DEBUG if self._is_asking_told else logging.WARNING, True
            name = self.config.name
            logger.log(level, "upstream %r can't ask callers in the middle of a call, for now: %s", name, error)
            return _FOR_ALL, None
        if is_asking:
            self._is_asking_told = False
            return key, offered
        self._modern_only = self.snapshot.server_info if self.snapshot is not None else None
        self.forget_session(key)
        return _FOR_ALL, None

    def _may_ask_at_once(self) -> bool:
        """Whether a connection in the handshake's era would let it ask what it can't ask on the one for all."""
        snapshot = self.snapshot
        if snapshot is None or snapshot.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            return False
        if snapshot.server_info == self._modern_only:
            return False
        return self._health.refusal() is None or any(connection.is_up for connection in self._running)
