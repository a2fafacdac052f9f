"""One configured server: its state, its snapshot, and every request that is made of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from mcp import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from agent_utilities.upstream.connections.calls import Call, CallTooLongError, NoProgressError, forwarded
from agent_utilities.upstream.connections.session import has_ended
from agent_utilities.upstream.errors import StateName, UpstreamError, UpstreamState
from agent_utilities.upstream.http.http_client import http_trouble
from agent_utilities.upstream.supervision.backoff import Counts, Health
from agent_utilities.upstream.supervision.connection_manager import ConnectionManager
from agent_utilities.upstream.supervision.opening import Opener

if TYPE_CHECKING:
    from mcp_types import ClientCapabilities

    from agent_utilities.upstream.config import UpstreamConfig
    from agent_utilities.upstream.connections.calls import Relay
    from agent_utilities.upstream.connections.connection import Connection
    from agent_utilities.upstream.connections.session import UpstreamSession
    from agent_utilities.upstream.snapshot import Snapshot
    from agent_utilities.upstream.supervision.backoff import Policy
    from agent_utilities.upstream.supervision.renewal import Renewal

logger = logging.getLogger(__name__)

T = TypeVar("T")


class _NotSentError(Exception):
    """A call found its connection ended before any of it was sent."""


class Upstream:
    """One configured server."""

    def __init__(self, opener: Opener, renewal: Renewal, policy: Policy) -> None:
        self.stderr = opener.errors.stderr
        """What it writes to stderr."""
        self._opener, self._renewal, self._policy = opener, renewal, policy
        self._health, self._health_of_asking = Health(policy), Health(policy)
        self._health_of_asking.counts = self._health.counts
        self._shared = self._manager(self._health, is_for_all=True)
        self._others: dict[Hashable, ConnectionManager] = {}
        self._modern_only: Mapping[str, Any] | None = None
        """What the server called itself that refused a handshake: a later version of it may take one."""
        self._is_asking_told = False
        self._tasks: dict[ConnectionManager, asyncio.Task[None]] = {}
        self._start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]] | None = None
        self.is_coming = False
        """Whether it will run soon, so that a call waits for it."""

    @property
    def config(self) -> UpstreamConfig:
        """How it is configured."""
        return self._opener.errors.config

    @config.setter
    def config(self, config: UpstreamConfig) -> None:
        self._opener.errors.config = config

    @property
    def snapshot(self) -> Snapshot | None:
        """What it last listed; None where it was never reached."""
        return self._renewal.snapshot

    @property
    def was_tried(self) -> asyncio.Event:
        """Set once it has listed what it has since it runs, or failed to."""
        return self._renewal.was_tried

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
        health, doing = self._health, {manager.state for manager in self._managers}
        name: StateName = "unseen" if self.snapshot is None else "idle"
        if doing & {"up", "starting"}:
            name = "ready" if "up" in doing else "starting"
        elif (trouble := health.trouble) is not None:
            next_try_s = health.next_try_s if health.wait_s > 0 or self._renewal.due_in_s <= 0 else None
            return UpstreamState("failing", trouble.cause, trouble.detail, health.n_failures, next_try_s, n_tools)
        return UpstreamState(name, n_failures=health.n_failures, n_tools=n_tools)

    @property
    def _managers(self) -> list[ConnectionManager]:
        return [self._shared, *self._others.values()]

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
            raise self._opener.errors.error("off", f"it is disabled in {self.config.source}")
        if self._start is None and not self.is_coming:
            raise self._opener.errors.error("stopping", "the gateway is not running")
        counts, started_s = self.counts, asyncio.get_running_loop().time()
        counts.n_calls += 1
        call = Call(
            relay, forwarded(self.config.forward_headers, headers), self.config.timeout_s, self.config.limits.call_s
        )
        try:
            manager = await self._manager_of(relay)
            with manager.using():
                try:
                    return await self._sent(manager, await manager.connected(), call, send)
                except _NotSentError:
                    return await self._sent(manager, await manager.connected(is_retry=True), call, send)
        except _NotSentError:
            counts.n_failed_calls += 1
            raise self._opener.errors.died("", in_call=False) from None
        except UpstreamError:
            counts.n_failed_calls += 1
            raise
        finally:
            counts.calls_s += asyncio.get_running_loop().time() - started_s

    async def _sent(
        self,
        manager: ConnectionManager,
        connection: Connection,
        call: Call,
        send: Callable[[UpstreamSession], Awaitable[T]],
    ) -> T:
        if not connection.is_usable:
            raise _NotSentError
        try:
            with connection.session.calls.adding(call):
                async with call.under_way():
                    result = await send(connection.session)
        except NoProgressError:
            connection.doubt()
            raise self._opener.errors.no_progress() from None
        except CallTooLongError:
            raise self._opener.errors.too_long() from None
        except MCPError as error:
            raise await self._what_it_means(error, manager, connection, call) from None
        connection.reached(True)
        return result

    async def _what_it_means(
        self, error: MCPError, manager: ConnectionManager, connection: Connection, call: Call
    ) -> Exception:
        """Return what an error comes to: the upstream's own as it is, one of its connection by its name."""
        errors, trouble = self._opener.errors, http_trouble(error)
        if trouble is not None and trouble.is_lost:
            connection.lose()
            return _NotSentError()
        if trouble is not None:
            connection.reached(trouble.cause != "unreachable")
            return errors.error(trouble.cause, trouble.detail)
        if not has_ended(error):
            connection.reached(True)
            return error
        if manager.is_stopping:
            return errors.error("stopping", "it was ended in the middle of the call")
        if not call.is_sent:
            return _NotSentError()
        return errors.died(await connection.last_exit_text(), in_call=True)

    async def connect(self) -> None:
        """Have it connected, as for a call that is about to come; where it can't be, `state` tells why."""
        if not self.config.enabled or (self._start is None and not self.is_coming):
            return
        manager = self._shared
        with suppress(UpstreamError), manager.using():
            await manager.connected()

    def _renew(self) -> None:
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
        self._renew()
        if self._shared.live is not None or self._health.refusal() is None:
            await tried

    def forget_session(self, session: Hashable) -> None:
        """End what was started for one session alone, once its calls have ended."""
        manager = self._others.pop(session, None)
        if manager is not None:
            manager.leave()

    def run(self, start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]) -> None:
        """Begin to supervise."""
        self._start, self.is_coming = start, False
        if self._shared.state == "over":  # it has run before
            self._shared, self._others = self._manager(self._health, is_for_all=True), {}
        if self.config.enabled:
            self._renewal.was_tried.clear()
            self._run(self._shared)

    def refuse_calls(self) -> None:
        """Take no more calls, and tell those under way that they are ended: what serves them is cancelled next."""
        for manager in self._tasks:
            manager.stop()

    async def stop(self) -> None:
        """Take no more calls, let those under way end for a while, and return once all processes are gone."""
        tasks = dict(self._tasks)
        for manager in tasks:
            manager.leave()
        if tasks:
            await asyncio.wait(tasks.values(), timeout=self._policy.grace_s)
        self.refuse_calls()
        for task in tasks.values():
            task.cancel()
        if tasks:
            await asyncio.wait(tasks.values(), timeout=2 * self._policy.close_s)

    def _run(self, manager: ConnectionManager) -> None:
        if self._start is None:
            raise self._opener.errors.error("stopping", "it is about to start")
        self._tasks[manager] = self._start(manager.run())
        self._tasks[manager].add_done_callback(lambda _: self._tasks.pop(manager, None))

    async def _manager_of(self, relay: Relay | None) -> ConnectionManager:
        """Return what keeps the connection that a caller is served on.

        Raises:
            UpstreamError: as many sessions as there may be have one of their own.
        """
        if self.config.isolate and relay is not None:
            return self._other(relay.session, relay.asked_at_once)
        offered = relay.asked_at_once if relay is not None else None
        if offered is None or not self._may_ask_at_once():
            return self._shared
        try:
            manager = self._other(key := offered.model_dump_json(), offered)
            with manager.using():
                is_asking = not (await manager.connected()).session.is_modern
        except UpstreamError as error:
            self._tell_unasked(str(error))
            return self._shared
        if is_asking:
            self._is_asking_told = False
            return manager
        self._modern_only = self.snapshot.server_info if self.snapshot is not None else None
        self.forget_session(key)
        return self._shared

    def _may_ask_at_once(self) -> bool:
        """Whether a connection in the handshake's era would let it ask what it can't ask on the one for all."""
        snapshot = self.snapshot
        if snapshot is None or snapshot.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            return False
        if snapshot.server_info == self._modern_only:
            return False
        return self._health.refusal() is None or any(manager.state == "up" for manager in self._managers)

    def _tell_unasked(self, why: str) -> None:
        """Tell once that callers are served, and can't be asked in the middle of a call."""
        level, self._is_asking_told = logging.DEBUG if self._is_asking_told else logging.WARNING, True
        logger.log(level, "upstream %r can't ask callers in the middle of a call, for now: %s", self.config.name, why)

    def _other(self, key: Hashable, offered: ClientCapabilities | None) -> ConnectionManager:
        """Return what keeps a session's own connection, or that of clients that offer the same."""
        manager = self._others.get(key)
        if manager is not None and manager.state != "over":
            return manager
        self._others = {key: one for key, one in self._others.items() if one.state != "over"}
        if len(self._others) >= (self._policy.n_isolated if self.config.isolate else self._policy.n_offers):
            self._make_room()
        if self.config.isolate:
            manager = self._manager(self._health, is_for_all=False, offered=offered)
        else:
            # Its trouble is its own: where it can't be had all are served on the first. Changes are listed on that too.
            health, on_change = self._health_of_asking, self._renew
            manager = self._manager(health, is_for_all=False, offered=offered, on_change=on_change)
        self._run(manager)
        self._others[key] = manager
        return manager

    def _manager(self, health: Health, **options: Any) -> ConnectionManager:
        return ConnectionManager(self._opener, health, self._renewal, self._policy, **options)

    def _make_room(self) -> None:
        unused = next((key for key, manager in self._others.items() if not manager.n_users), None)
        if unused is None:
            text = f"{len(self._others)} connections beside the one for all are in use, as many as there may be"
            raise self._opener.errors.error("refused", text)
        self.forget_session(unused)
