"""Serves one connection that is up, until nobody uses it any more or something is wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp import MCPError

from agent_utilities.upstream.errors import UpstreamError
from agent_utilities.upstream.supervision.opening import exit_text_of

if TYPE_CHECKING:
    from agent_utilities.upstream.connections.connection import Connection, Live
    from agent_utilities.upstream.supervision.policy import Policy
    from agent_utilities.upstream.supervision.renewal import Renewal
    from agent_utilities.upstream.supervision.troubles import Troubles
    from agent_utilities.upstream.supervision.users import Users

Trouble = Callable[[], UpstreamError]
"""Says what was wrong with a connection, once all of it has ended."""


class Serving:
    """One connection that is up.

    Args:
        connection: the connection.
        live: what is up on it.
        users: who uses it.
        wake: set where there may be something to do.
        renewal: takes snapshots on it; None where none are taken.
        on_change: called where the upstream tells of changes, if no snapshots are taken on it.
        troubles: makes the upstream's errors, and knows its config.
        policy: how long things may take.
    """

    def __init__(
        self,
        connection: Connection,
        live: Live,
        *,
        users: Users,
        wake: asyncio.Event,
        renewal: Renewal | None,
        on_change: Callable[[], None],
        troubles: Troubles,
        policy: Policy,
    ) -> None:
        self.live = live
        self._connection, self._users, self._wake = connection, users, wake
        self._renewal, self._on_change, self._troubles, self._policy = renewal, on_change, troubles, policy
        self._since_s = asyncio.get_running_loop().time()
        self._is_listed = renewal is None
        self._is_over = self._is_lost = self._is_doubted = False
        self._n_doubts = self._n_unreachable = 0

    @property
    def is_usable(self) -> bool:
        """Whether calls may be sent on it."""
        return not self._is_over and not self._is_lost and not self.live.ended.is_set()

    @property
    def up_s(self) -> float:
        """Seconds that it has been up."""
        return asyncio.get_running_loop().time() - self._since_s

    def lose(self) -> None:
        """Give it up, since the upstream has forgotten its session."""
        self._is_lost = True
        self._wake.set()

    def doubt(self) -> None:
        """Find out whether it still answers: a call on it did not."""
        self._is_doubted = True
        self._n_doubts += 1
        self._wake.set()

    def reached(self, is_reached: bool) -> None:
        """Take note of whether a message got through."""
        if is_reached:
            self._n_unreachable = self._n_doubts = 0
            return
        self._n_unreachable += 1
        if self._n_unreachable >= self._policy.n_unreachable:
            self._wake.set()

    async def until_over(self) -> Trouble | None:
        """Serve until nobody has used it for long, or until something is wrong: then return what says so."""
        if self._renewal is not None:
            self._renewal.trouble = None
        async with _beside(self._take_snapshots(), self._wake), _beside(self.live.ended.wait(), self._wake):
            while True:
                trouble = await self._what_is_wrong()
                if trouble is not None or not self.is_usable or self._unused_in_s() == 0:
                    self._is_over = True  # At once: a call that comes while all ends is given the next connection.
                    return trouble
                self._wake.clear()
                try:
                    async with asyncio.timeout(self._unused_in_s()):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    async def _what_is_wrong(self) -> Trouble | None:
        troubles, limit = self._troubles, self._policy.n_unreachable
        if self.live.ended.is_set():
            if not self._users.n and self.up_s >= self._policy.backoff.sustained_s:
                return None  # it went by itself, as some do that nobody uses
            return lambda: troubles.died(exit_text_of(self._connection), in_call=False)
        if self._n_unreachable >= limit:
            return lambda: troubles.error("unreachable", f"{limit} calls in a row did not get through")
        # Others' calls may be why it does not answer: it is ended under them only where it answers none of many.
        if self._is_doubted and (not self._users.n or self._n_doubts >= limit):
            self._is_doubted = False
            if not await _answers(self.live, self._policy.ping_s):
                return troubles.no_progress
        trouble = self._renewal.trouble if self._renewal is not None else None
        if trouble is not None and not self._users.are_any_since:
            return lambda: trouble
        return None

    async def _take_snapshots(self) -> None:
        if self._renewal is not None:
            await self._renewal.run(self.live, self._listed)
        settle_s = self._policy.settle_s
        while True:
            await self.live.changed.wait()
            await asyncio.sleep(settle_s)
            settle_s = min(2 * settle_s, self._policy.settle_limit_s)
            self.live.changed.clear()
            self._on_change()

    def _listed(self) -> None:
        self._is_listed = True
        if self._renewal is not None and (self._renewal.trouble is None or self._users.are_any_since):
            self._renewal.was_listed()
        self._wake.set()

    def _unused_in_s(self) -> float | None:
        """Seconds until it counts as unused; None where that is for a listing to say, for which alone it was made."""
        idle_s = self._troubles.config.idle_s
        if self._users.n:
            return idle_s
        if self._users.is_leaving:
            return 0.0
        if self._users.used_s is None:
            return 0.0 if self._is_listed else None
        return max(0.0, self._users.used_s + idle_s - asyncio.get_running_loop().time())


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
