"""Keeps one connection for all who call: started when it is wanted, ended when nobody uses it, never two at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from mcp import MCPError

from agent_utilities.runtime.waiting import beside, is_set
from agent_utilities.upstream.errors import UpstreamError
from agent_utilities.upstream.supervision.opening import Opener, root_error

if TYPE_CHECKING:
    from mcp_types import ClientCapabilities

    from agent_utilities.upstream.connections.connection import Connection
    from agent_utilities.upstream.connections.session import UpstreamSession
    from agent_utilities.upstream.supervision.backoff import Health, Policy
    from agent_utilities.upstream.supervision.renewal import Renewal

logger = logging.getLogger(__name__)

Trouble = Callable[[], UpstreamError]
"""Says what was wrong with a connection, once all of it has ended."""


class ConnectionManager:
    """Keeps one connection of an upstream: `waiting` until one is wanted, `starting`, `up`, and at the end `over`.

    Args:
        is_for_all: whether snapshots are taken on it, for callers of any kind; another ends when it is not used.
        offered: what its callers' clients can be asked in the middle of a call; None where they are of any kind.
        on_change: called where the upstream tells on it that its lists changed, if no snapshots are taken on it.
    """

    def __init__(
        self,
        opener: Opener,
        health: Health,
        renewal: Renewal,
        policy: Policy,
        *,
        is_for_all: bool,
        offered: ClientCapabilities | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._opener, self._health, self._renewal, self._policy = opener, health, renewal, policy
        self._is_for_all, self._offered, self._on_change = is_for_all, offered, on_change
        self.state: Literal["waiting", "starting", "up", "over"] = "waiting"
        """`up` lasts until all of the connection is gone."""
        self.is_stopping = False
        """Whether it is ended whoever uses it."""
        self.n_users = 0
        """The calls that want the connection, from before it is up until they have ended."""
        self._used_s: float | None = None  # when the last of them went; None where there was none since the start
        self._is_leaving = False
        self._wake = asyncio.Event()
        self._up: Connection | None = None
        self._outcome: asyncio.Future[Connection] | None = None
        self._is_retried = self._is_listed = False

    @property
    def live(self) -> UpstreamSession | None:
        """What is up on the connection, where calls may be sent on it."""
        return self._up.session if self._up is not None and self._up.is_usable else None

    @contextmanager
    def using(self) -> Iterator[None]:
        """Keep it for as long as the block takes."""
        self.n_users += 1
        try:
            yield
        finally:
            self.n_users -= 1
            self._used_s = asyncio.get_running_loop().time()
            if self._is_leaving and not self.n_users:
                self._wake.set()

    async def connected(self, *, is_retry: bool = False) -> Connection:
        """Return the connection that is up, once there is one.

        A retry, of a call that found its connection ended before it was sent, waits for no backoff of a first failure.

        Raises:
            UpstreamError: the last try has failed and the next is not due, or the one that is under way fails.
        """
        if self._is_leaving or self.state == "over":
            raise self._opener.errors.error("stopping", "it is being ended, or has been")
        if self._up is not None and self._up.is_usable:
            return self._up
        if is_retry:
            self._is_retried = True
            self._health.allow_one()
        if self.state != "starting" and (refusal := self._health.refusal()) is not None:
            raise refusal
        if self._outcome is None:
            self._outcome = asyncio.get_running_loop().create_future()
            self._outcome.add_done_callback(lambda outcome: outcome.cancelled() or outcome.exception())
            self._wake.set()
        self._opener.hurry()
        return await asyncio.shield(self._outcome)

    def wake(self) -> None:
        """Have it look again whether there is anything to do."""
        self._wake.set()

    def leave(self) -> None:
        """Take no new users, and end once the present ones have gone."""
        self._is_leaving = True
        self._wake.set()

    def stop(self) -> None:
        """Take no new users, and tell the present ones that it is ended whoever uses it: its task is cancelled next."""
        self.is_stopping = True
        self.leave()

    async def run(self) -> None:
        """Keep it until cancelled, or until it has nobody to serve any more; its processes are gone then."""
        try:
            while await self._is_wanted():
                try:
                    await self._one_connection()
                except UpstreamError as error:
                    self._failed(error, 0.0)
                except Exception as error:
                    logger.exception("upstream %r", self._opener.errors.config.name)
                    self._failed(self._opener.errors.of_start(error, ""), 0.0)
        finally:
            self.state = "over"
            if self._is_for_all:
                self._renewal.could_not()
            self._answer(self._opener.errors.error("stopping", "it is being ended"))

    async def _is_wanted(self) -> bool:
        """Wait until a connection is wanted; False where none will be."""
        while not self._is_leaving:
            if self._outcome is not None:
                return True
            if not self._is_for_all and self._used_s is not None and not self.n_users:
                return False
            wait_s = max(self._renewal.due_in_s, self._health.wait_s) if self._is_for_all else None
            if wait_s is not None and wait_s <= 0:
                return True
            self._wake.clear()
            await is_set(self._wake, within_s=wait_s)
        return False

    async def _one_connection(self) -> None:
        counts, started_s = self._health.counts, asyncio.get_running_loop().time()
        counts.n_starts += 1
        self.state, self._is_retried, self._used_s = "starting", False, None
        known = self._renewal.snapshot.protocol_version if self._renewal.snapshot is not None else None
        up: Connection | None = None
        trouble: Trouble | None = None
        try:
            async with self._opener.opened(known, lambda: self.n_users > 0, self._offered) as up:
                counts.starts_s += asyncio.get_running_loop().time() - started_s
                self.state, self._up, up.wake = "up", up, self._wake
                self._is_listed = not self._is_for_all
                self._answer(up)
                trouble = await self._until_over(up)
        except Exception as error:
            if up is None:
                raise
            logger.info("upstream %r: its connection ended by %r", self._opener.errors.config.name, root_error(error))
            trouble = trouble or (lambda: self._opener.errors.died(up.exit_text, in_call=False))
        finally:
            self._up, self.state = None, "waiting"
        if trouble is None:
            self._health.is_well()
        else:
            self._failed(trouble(), up.up_s)

    async def _until_over(self, up: Connection) -> Trouble | None:
        """Wait until nobody has used it for long, or until something is wrong: then return what says so."""
        if self._is_for_all:
            self._renewal.trouble = None
        async with beside(self._hear_changes(up), self._wake), beside(up.session.ended.wait(), self._wake):
            while True:
                trouble = await self._what_is_wrong(up)
                if trouble is not None or not up.is_usable or self._unused_in_s() == 0:
                    up.is_over = True  # At once: a call that comes while all ends is given the next connection.
                    return trouble
                self._wake.clear()
                await is_set(self._wake, within_s=self._unused_in_s())

    async def _what_is_wrong(self, up: Connection) -> Trouble | None:
        errors, limit = self._opener.errors, self._policy.n_unreachable
        if up.session.ended.is_set():
            if not self.n_users and up.up_s >= self._policy.backoff.sustained_s:
                return None  # it went by itself, as some do that nobody uses
            return lambda: errors.died(up.exit_text, in_call=False)
        if up.n_unreachable >= limit:
            return lambda: errors.error("unreachable", f"{limit} calls in a row did not get through")
        # Others' calls may be why it does not answer: it is ended under them only where it answers none of many.
        if up.is_doubted and (not self.n_users or up.n_doubts >= limit):
            up.is_doubted = False
            if not await _answers(up.session, self._policy.ping_s):
                return errors.no_progress
        trouble = self._renewal.trouble if self._is_for_all else None
        if trouble is not None and not self.n_users and self._used_s is None:
            return lambda: trouble
        return None

    async def _hear_changes(self, up: Connection) -> None:
        """Take snapshots on the connection for all; on another, hand on that the upstream tells of changes."""
        if self._is_for_all:
            await self._renewal.run(up.session, self._listed)
        settle_s = self._policy.settle_s
        while True:
            await up.session.changed.wait()
            await asyncio.sleep(settle_s)
            settle_s = min(2 * settle_s, self._policy.settle_limit_s)
            up.session.changed.clear()
            self._on_change()

    def _listed(self) -> None:
        self._is_listed = True
        if self._renewal.trouble is None or self.n_users or self._used_s is not None:
            self._renewal.tell()
        self._wake.set()

    def _unused_in_s(self) -> float | None:
        """Seconds until it counts as unused; None where that is for a listing to say, for which alone it was made."""
        idle_s = self._opener.errors.config.idle_s
        if self.n_users:
            return idle_s
        if self._is_leaving:
            return 0.0
        if self._used_s is None:
            return 0.0 if self._is_listed else None
        return max(0.0, self._used_s + idle_s - asyncio.get_running_loop().time())

    def _failed(self, trouble: UpstreamError, up_s: float) -> None:
        is_news = self._health.trouble is None or self._health.trouble.cause != trouble.cause
        self._health.failed(trouble, up_s)
        if up_s and self._is_retried:
            self._health.allow_one()
        refusal = self._health.refusal()
        is_told = is_news and not self._policy.is_once
        logger.log(logging.WARNING if is_told else logging.INFO, "%s", refusal or trouble)
        if self._is_for_all:
            self._renewal.could_not()
        if not up_s or refusal is not None:
            self._answer(refusal or trouble)

    def _answer(self, outcome: Connection | UpstreamError) -> None:
        waiting, self._outcome = self._outcome, None
        if waiting is None or waiting.done():
            return
        if isinstance(outcome, UpstreamError):
            waiting.set_exception(outcome)
        else:
            waiting.set_result(outcome)


async def _answers(live: UpstreamSession, within_s: float) -> bool:
    """Whether an upstream answers the least of questions; an error is an answer."""
    try:
        async with asyncio.timeout(within_s):
            if live.is_modern:
                await live.send_discover(live.protocol_version or "")
            else:
                await live.send_ping()
    except MCPError:
        return not live.ended.is_set()
    except TimeoutError:
        return False
    return True
