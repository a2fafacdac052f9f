"""Keeps one connection for all who call: started when it is wanted, ended when nobody uses it, never two at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from mcp import MCPError

from agent_utilities.upstream.errors import UpstreamError
from agent_utilities.upstream.opening import Opener, exit_text_of

if TYPE_CHECKING:
    from agent_utilities.upstream.connection import Connection, Live
    from agent_utilities.upstream.health import Health
    from agent_utilities.upstream.policy import Policy
    from agent_utilities.upstream.renewal import Renewal

logger = logging.getLogger(__name__)


class Keeper:
    """Keeps one connection of an upstream.

    Args:
        opener: opens it.
        health: the upstream's, which all of its connections share.
        renewal: keeps its snapshot up to date.
        policy: how long things may take.
        is_for_all: whether all sessions share it, and snapshots are taken on it. One that is a single session's ends
            when it is not used any more.
    """

    def __init__(self, opener: Opener, health: Health, renewal: Renewal, policy: Policy, *, is_for_all: bool) -> None:
        self._opener, self._health, self._renewal, self._policy = opener, health, renewal, policy
        self._is_for_all = is_for_all
        self.live: Live | None = None
        self.is_starting = False
        self.is_up = False
        """Whether there is a connection, until all of it is gone."""
        self.is_over = False
        """Whether it serves no more, and never will."""
        self.n_users = 0
        self.is_leaving = False
        """Whether it takes no new users."""
        self.is_stopping = False
        """Whether it is ended whoever uses it."""
        self._used_s: float | None = None
        self._outcome: asyncio.Future[Live] | None = None
        self._wake = asyncio.Event()
        self._lost: Live | None = None
        self._doubted: Live | None = None
        self._n_doubts = 0
        self._n_unreachable = 0
        self._is_listed = False
        self._is_retried = False
        self._up_s = 0.0

    @contextmanager
    def using(self) -> Iterator[None]:
        """Keep it for as long as the block takes."""
        self.n_users += 1
        try:
            yield
        finally:
            self.n_users -= 1
            self._used_s = asyncio.get_running_loop().time()
            if self.is_leaving and not self.n_users:
                self._wake.set()

    async def connected(self, *, is_retry: bool = False) -> Live:
        """Return the connection that is up, once there is one.

        Args:
            is_retry: whether it is for a call that found its connection ended before it was sent: such a one waits for
                no backoff, where it is the first failure.

        Raises:
            UpstreamError: the last try has failed and the next is not due, or the one that is under way fails.
        """
        if self.is_leaving or self.is_over:
            raise self._opener.troubles.error("stopping", "it is being ended, or has been")
        live = self.live
        if live is not None and not live.ended.is_set() and live is not self._lost:
            return live
        if is_retry:
            self._is_retried = True
            self._health.allow_one()
        if not self.is_starting and (refusal := self._health.refusal()) is not None:
            raise refusal
        if self._outcome is None:
            self._outcome = asyncio.get_running_loop().create_future()
            self._outcome.add_done_callback(lambda outcome: outcome.cancelled() or outcome.exception())
            self._wake.set()
        return await asyncio.shield(self._outcome)

    def wake(self) -> None:
        """Have it look again whether there is anything to do."""
        self._wake.set()

    def leave(self) -> None:
        """Take no new users, and end once the present ones have gone."""
        self.is_leaving = True
        self._wake.set()

    def lost(self, live: Live) -> None:
        """Give up a connection whose session the upstream has forgotten; the next is made when it is wanted."""
        self._lost = live
        self._wake.set()

    def doubt(self, live: Live) -> None:
        """Find out whether a connection still answers: a call on it did not."""
        self._doubted = live
        self._n_doubts += 1
        self._wake.set()

    def reached(self, is_reached: bool) -> None:
        """Take note of whether a message got through to it."""
        if is_reached:
            self._n_unreachable = self._n_doubts = 0
            return
        self._n_unreachable += 1
        if self._n_unreachable >= self._policy.n_unreachable:
            self._wake.set()

    async def run(self) -> None:
        """Keep it until cancelled, or until it has nobody to serve any more; its processes are gone then."""
        try:
            while await self._is_wanted():
                try:
                    await self._one_connection()
                except Exception as error:
                    logger.exception("upstream %r", self._opener.troubles.config.name)
                    self._fail(self._opener.troubles.of_start(error, ""), 0.0)
        finally:
            self.is_over = True
            self._renewal.tried()
            self._answer(self._opener.troubles.error("stopping", "it is being ended"))

    async def _is_wanted(self) -> bool:
        """Wait until a connection is wanted; False where none will be."""
        while not self.is_leaving:
            if self._outcome is not None:
                return True
            if not self._is_for_all and self._used_s is not None and not self.n_users:
                return False
            wait_s = max(self._renewal.due_in_s, self._health.wait_s) if self._is_for_all else None
            if wait_s is not None and wait_s <= 0:
                return True
            self._wake.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                continue
        return False

    async def _one_connection(self) -> None:
        loop = asyncio.get_running_loop()
        counts, started_s = self._health.counts, loop.time()
        counts.n_starts += 1
        self.is_starting, self._is_listed, self._is_retried = True, False, False
        self._used_s, self._n_unreachable, self._n_doubts = None, 0, 0
        known = self._renewal.snapshot.protocol_version if self._renewal.snapshot is not None else None
        try:
            connection, live = await self._opener.open(known, lambda: self.n_users > 0)
        except UpstreamError as error:
            self._fail(error, 0.0)
            return
        finally:
            self.is_starting = False
        self._up_s = loop.time()
        counts.starts_s += self._up_s - started_s
        self.live, self.is_up = live, True
        self._answer(live)
        try:
            why_over = await self._until_over(connection, live)
        except asyncio.CancelledError:
            self.is_leaving = self.is_stopping = True
            raise
        finally:
            self.live = None
            try:
                await connection.close()
            finally:
                self.is_up = False
        if why_over is None:
            self._health.is_well()
        else:
            self._fail(why_over(), loop.time() - self._up_s)

    def _fail(self, trouble: UpstreamError, up_s: float) -> None:
        self._health.failed(trouble, up_s)
        if up_s and self._is_retried:
            self._health.allow_one()
        refusal = self._health.refusal()
        logger.warning("%s", refusal or trouble)
        self._renewal.tried()
        if not up_s or refusal is not None:
            self._answer(refusal or trouble)

    def _answer(self, outcome: Live | UpstreamError) -> None:
        waiting, self._outcome = self._outcome, None
        if waiting is None or waiting.done():
            return
        if isinstance(outcome, UpstreamError):
            waiting.set_exception(outcome)
        else:
            waiting.set_result(outcome)

    async def _until_over(self, connection: Connection, live: Live) -> Callable[[], UpstreamError] | None:
        """Serve until nobody has used it for long, or until something is wrong with it: then return what says so."""
        self._renewal.trouble = None
        behind = self._renewal.run(live, self._listed) if self._is_for_all else asyncio.sleep(0)
        async with _beside(behind, self._wake), _beside(live.ended.wait(), self._wake):
            while True:
                trouble = await self._what_is_wrong(connection, live)
                if trouble is not None:
                    return trouble
                if live is self._lost or live.ended.is_set() or self._unused_in_s() == 0:
                    return None
                self._wake.clear()
                try:
                    async with asyncio.timeout(self._unused_in_s()):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    async def _what_is_wrong(self, connection: Connection, live: Live) -> Callable[[], UpstreamError] | None:
        troubles = self._opener.troubles
        if live.ended.is_set():
            up_s = asyncio.get_running_loop().time() - self._up_s
            if not self.n_users and up_s >= self._policy.backoff.sustained_s:
                return None  # it went by itself, as some do that nobody uses
            return lambda: troubles.died(exit_text_of(connection), in_call=False)
        if self._n_unreachable >= self._policy.n_unreachable:
            return lambda: troubles.error("unreachable", f"{self._n_unreachable} calls in a row did not get through")
        if self._doubted is live and (self.n_users == 0 or self._n_doubts >= self._policy.n_unreachable):
            self._doubted = None
            if not await _answers(live, self._policy.ping_s):
                return troubles.no_progress
        if self._renewal.trouble is not None and not self._is_in_use:
            trouble = self._renewal.trouble
            return lambda: trouble
        return None

    @property
    def _is_in_use(self) -> bool:
        """Whether it was made for calls too, and not for a snapshot alone."""
        return self.n_users > 0 or self._used_s is not None

    def _listed(self) -> None:
        self._is_listed = True
        if self._renewal.trouble is None or self._is_in_use:
            self._renewal.tried()
        self._wake.set()

    def _unused_in_s(self) -> float | None:
        """Seconds until it counts as unused; None where that is for somebody else to say."""
        idle_s = self._opener.troubles.config.idle_s
        if self.n_users:
            return idle_s
        if self.is_leaving:
            return 0.0
        if self._used_s is None:
            return 0.0 if self._is_listed or not self._is_for_all else None
        return max(0.0, self._used_s + idle_s - asyncio.get_running_loop().time())


async def _answers(live: Live, within_s: float) -> bool:
    """Whether an upstream answers the least of questions; an error is an answer."""
    try:
        async with asyncio.timeout(within_s):
            if live.is_modern:
                await live.session.send_discover(live.protocol_version)
            else:
                await live.session.send_ping()
    except MCPError:
        return not live.ended.is_set()
    except TimeoutError:
        return False
    return True


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, Any], wake: asyncio.Event) -> AsyncIterator[None]:
    """Run something beside the block; its end sets an event, and the end of the block is its own."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda _: wake.set())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
