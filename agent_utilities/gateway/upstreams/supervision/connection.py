"""One connection of an upstream: begun on demand, and ended after disuse or a failure."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from mcp import MCPError

from agent_utilities.gateway.upstreams.connections.calls import Callers
from agent_utilities.gateway.upstreams.connections.session import UpstreamSession, hear_changes, learn_tools
from agent_utilities.gateway.upstreams.errors import UpstreamError
from agent_utilities.gateway.upstreams.http.http_client import http_trouble
from agent_utilities.gateway.upstreams.snapshot import Snapshot
from agent_utilities.gateway.upstreams.supervision.backoff import Health
from agent_utilities.gateway.upstreams.supervision.opening import Opener, root_error
from agent_utilities.runtime.waiting import beside, is_set

logger = logging.getLogger(__name__)


class Connection:
    """One connection, from the first demand until all of it is gone, processes included.

    Args:
        health: records its successes and failures, for later connections.
        snapshot: the upstream's last one; None where it was never reached.
        callers: those that it is for.
        changed: set where the upstream notifies on it of changed lists.
    """

    task: asyncio.Task[None]

    def __init__(
        self,
        opener: Opener,
        health: Health,
        snapshot: Snapshot | None,
        callers: Callers,
        changed: asyncio.Event,
    ) -> None:
        self._opener, self._health, self._policy = opener, health, opener.policy
        self._snapshot, self.callers, self._changed = snapshot, callers, changed
        self._session: asyncio.Future[UpstreamSession] = asyncio.get_running_loop().create_future()
        self.is_up = False
        """Whether it has come up, and is not gone."""
        self.n_users = 0
        """The number of calls that use it or wait for it."""
        self._n_listings = 0
        self._used_s: float | None = None  # when the last call went; None where there was none
        self._is_over = self._is_leaving = self._is_doubted = False
        self._n_doubts = self._n_unreachable = 0
        self._list_trouble: UpstreamError | None = None
        self._wake = asyncio.Event()

    @property
    def is_usable(self) -> bool:
        """Whether calls may be sent on it, now or once it is up."""
        session = self._session.result() if self.is_up else None
        is_at_end = session is not None and getattr(session.transport, "is_at_end", False)
        return not (self._is_over or is_at_end or (session is not None and session.ended.is_set()))

    @property
    def pid(self) -> int | None:
        """The id of its process, while it is up and has one."""
        return getattr(self._session.result().transport, "pid", None) if self.is_up else None

    async def session(self) -> UpstreamSession:
        """Wait for its session, and return it; `UpstreamError` where it could not be made."""
        return await asyncio.shield(self._session)

    @contextmanager
    def using(self) -> Iterator[None]:
        """Keep it up for a call, for as long as the block takes."""
        self.n_users += 1
        try:
            yield
        finally:
            self.n_users -= 1
            self._used_s = asyncio.get_running_loop().time()
            if self._is_leaving:
                self._wake.set()

    @contextmanager
    def listing(self) -> Iterator[None]:
        """Keep it up for a listing; it ends with the block unless a call has used it."""
        self._n_listings += 1
        try:
            yield
        finally:
            self._n_listings -= 1
            self._wake.set()

    def could_not_list(self, trouble: UpstreamError) -> bool:
        """Count it as failed unless a call has used it, since listing failed; return whether it ends."""
        if not self._is_over and not self.n_users and self._used_s is None:
            self._is_over, self._list_trouble = True, trouble
            self._wake.set()
        return self._is_over

    def lose(self) -> None:
        """End it, since the upstream has forgotten its session."""
        self._is_over = True
        self._wake.set()

    def doubt(self) -> None:
        """Check by a ping whether the upstream still answers, since it did not answer a call."""
        self._is_doubted = True
        self._n_doubts += 1
        self._wake.set()

    def reached(self, is_reached: bool) -> None:
        """Record whether a message got through."""
        if is_reached:
            self._n_unreachable = self._n_doubts = 0
        else:
            self._n_unreachable += 1
            self._wake.set()

    def leave(self) -> None:
        """End it once its present users have gone."""
        self._is_leaving = True
        self._wake.set()

    def refuse(self, why: UpstreamError) -> None:
        """Fail those who wait for it, if any."""
        self._is_over = True
        if not self._session.done():
            self._session.set_exception(why)
            self._session.exception()  # retrieved: maybe nobody waits

    async def run(self, before: Connection | None) -> None:
        """Run it, once the connection that it replaces has ended.

        After a first failure it ignores the backoff if a call came while that connection ended.
        """
        if before is not None:
            await asyncio.wait([before.task])
            may_go = self.n_users and self._health.n_failures <= 1
            if not may_go and (refusal := self._health.refusal()) is not None:
                return self.refuse(refusal)
        try:
            await self._run()
        except UpstreamError as error:
            self._failed(error)
        except Exception as error:
            logger.exception("upstream %r", self._opener.config.name)
            self._failed(self._opener.of_start(error, ""))

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        up_at_s = clock()
        self._health.counts.n_starts += 1
        known_version = self._snapshot.protocol_version if self._snapshot is not None else None
        session: UpstreamSession | None = None
        trouble: UpstreamError | None = None
        try:
            async with self._opener.opened(known_version, self.callers) as session:
                up_at_s = clock()
                session.changed = self._changed
                if session.is_modern and self._snapshot is not None:
                    await learn_tools(session, self._snapshot.tools)
                self.is_up, self._health.since_s = True, time.time()
                self._session.set_result(session)
                async with beside(hear_changes(session)), beside(session.ended.wait(), self._wake):
                    trouble = await self._until_over(session, up_at_s)
        except Exception as error:
            if session is None:
                raise
            logger.info("upstream %r: its connection ended by %r", self._opener.config.name, root_error(error))
            if not self._is_over:  # else the gateway ended it
                trouble = self._opener.died(session.transport.exit_text, in_call=False)
        if trouble is None:
            self._health.is_well()
        else:
            self._failed(trouble, clock() - up_at_s)

    async def _until_over(self, session: UpstreamSession, up_at_s: float) -> UpstreamError | None:
        """Wait until it is unused for long, or fails; return the failure if any."""
        while True:
            trouble = await self._what_is_wrong(session, up_at_s)
            if trouble is not None or self._is_over or session.ended.is_set() or self._unused_in_s() == 0:
                self._is_over = True  # at once, so that a call which comes meanwhile gets the next connection
                return trouble
            self._wake.clear()
            await is_set(self._wake, within_s=self._unused_in_s())

    async def _what_is_wrong(self, session: UpstreamSession, up_at_s: float) -> UpstreamError | None:
        opener, limit = self._opener, self._policy.n_unreachable
        if session.ended.is_set():
            up_s = asyncio.get_running_loop().time() - up_at_s
            if not self.n_users and up_s >= self._policy.backoff.sustained_s:
                return None  # some servers exit when nobody uses them
            return opener.died(session.transport.exit_text, in_call=False)
        if self._n_unreachable >= limit:
            return opener.error("unreachable", f"{limit} calls in a row did not get through")
        # Other calls may be why it does not answer: it is ended under them only after several without an answer.
        if self._is_doubted and (not self.n_users or self._n_doubts >= limit):
            self._is_doubted = False
            if not await _answers(session, self._policy.ping_s):
                text = f"a call showed no progress, and a ping was not answered within {self._policy.ping_s:g} s"
                return opener.error("did not answer", text)
        return self._list_trouble

    def _unused_in_s(self) -> float | None:
        """Seconds until it counts as unused; None while only a listing uses it."""
        idle_s = self._opener.config.idle_s
        if self.n_users or (self._session.result().listeners and not self._is_leaving):
            return idle_s
        if self._is_leaving:
            return 0.0
        if self._used_s is None:
            return None if self._n_listings else 0.0
        until_s = max(self._used_s + idle_s, self._session.result().works_until_s)
        return max(0.0, until_s - asyncio.get_running_loop().time())

    def _failed(self, trouble: UpstreamError, up_s: float = 0.0) -> None:
        health = self._health
        is_news = health.trouble is None or health.trouble.cause != trouble.cause
        health.failed(trouble, up_s)
        level = logging.WARNING if is_news and not self._policy.is_once else logging.INFO
        refusal = health.refusal() or trouble
        logger.log(level, "%s", refusal)
        self.refuse(refusal)


async def _answers(session: UpstreamSession, within_s: float) -> bool:
    """Whether an upstream answers a ping, or its equivalent in the newer era; an error is an answer."""
    try:
        async with asyncio.timeout(within_s):
            if session.is_modern:
                await session.send_discover(session.protocol_version or "")
            else:
                await session.send_ping()
    except MCPError as error:
        trouble = http_trouble(error)
        return not session.ended.is_set() and (trouble is None or trouble.is_reached)
    except TimeoutError:
        return False
    return True
