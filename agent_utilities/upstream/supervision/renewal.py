"""Keeps what an upstream lists up to date, behind the lists that are answered from it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from mcp import MCPError

from agent_utilities.runtime.threads import in_daemon_thread
from agent_utilities.upstream.connections.client_internals import learn_tools
from agent_utilities.upstream.connections.negotiation import is_closed
from agent_utilities.upstream.errors import UpstreamError
from agent_utilities.upstream.secrets import secrets_of, without_secrets
from agent_utilities.upstream.supervision.listing import take_snapshot

if TYPE_CHECKING:
    from agent_utilities.upstream.connections.connection import Live
    from agent_utilities.upstream.snapshot import Snapshot
    from agent_utilities.upstream.supervision.policy import Policy
    from agent_utilities.upstream.supervision.troubles import Troubles

logger = logging.getLogger(__name__)


class Renewal:
    """The snapshot of one upstream: when it is taken, and what happens where it can't be.

    Args:
        snapshot: what it listed the last time; None where it was never reached.
        policy: how often.
        troubles: makes its errors, and knows its config.
        save: keeps a snapshot; called in a thread.
        on_change: called where what it lists has changed.
    """

    def __init__(
        self,
        snapshot: Snapshot | None,
        *,
        policy: Policy,
        troubles: Troubles,
        save: Callable[[Snapshot], None],
        on_change: Callable[[], None],
    ) -> None:
        self.snapshot = snapshot
        self.trouble: UpstreamError | None = None
        """Why the last listing failed; None after one that did not."""
        self._policy, self._troubles, self._save, self._on_change = policy, troubles, save, on_change
        self._is_wanted = snapshot is not None and snapshot.n_absent > 0
        self._first: asyncio.Future[None] | None = None
        self._tries: list[asyncio.Future[None]] = []
        self._begun: list[asyncio.Future[None]] = []

    def first_try(self) -> asyncio.Future[None]:
        """Return what is done once it was taken from now on, or could not be; unlike `next_try`, before it is kept."""
        self._first = asyncio.get_running_loop().create_future()
        return self._first

    def next_try(self) -> asyncio.Future[None]:
        """Return what is done once it has been taken anew, or could not be."""
        self._tries.append(tried := asyncio.get_running_loop().create_future())
        return tried

    def tried(self) -> None:
        """Take note that it could not be taken."""
        self._begun, self._tries = [*self._begun, *self._tries], []
        self._was_tried()
        self.was_listed()

    def was_listed(self) -> None:
        """Tell those who waited for the listing that has just ended; who asked while it ran waits for the next."""
        for tried in self._begun:
            if not tried.done():
                tried.set_result(None)
        self._begun = []

    def _was_tried(self) -> None:
        if self._first is not None and not self._first.done():
            self._first.set_result(None)

    def want(self) -> None:
        """Have it taken anew, however young it is."""
        self._is_wanted = True

    @property
    def due_in_s(self) -> float:
        """Seconds until it is to be taken anew; 0 where it is now."""
        if self.snapshot is None or self._is_wanted:
            return 0.0
        age_s = time.time() - self.snapshot.taken_at_s
        return max(0.0, self._policy.max_age_s - age_s) if age_s >= 0 else 0.0

    async def run(self, live: Live, listed: Callable[[], None]) -> None:
        """Take it now, and again whenever it has changed or grown old, until cancelled.

        Args:
            live: a connection that has just been made.
            listed: called after each listing, however it ended.
        """
        began_s, settle_s = asyncio.get_running_loop().time(), self._policy.settle_s
        if live.is_modern and self.snapshot is not None:
            await learn_tools(live.session, self.snapshot.tools)
        async with _told_of_changes(live):
            while True:
                live.changed.clear()
                self._begun, self._tries = [*self._begun, *self._tries], []
                await self._take(live)
                if live.ended.is_set():
                    return
                since_s = asyncio.get_running_loop().time()
                wait_s = self._waited_for(since_s - began_s, listed)
                if not await _is_set(live.changed, within_s=wait_s):
                    continue
                is_busy = asyncio.get_running_loop().time() - since_s < settle_s
                settle_s = min(self._policy.settle_limit_s, settle_s * 2) if is_busy else self._policy.settle_s
                await asyncio.sleep(settle_s)

    def _waited_for(self, lacking_s: float, listed: Callable[[], None]) -> float:
        """Tell of a listing that has ended, and return the seconds until the next, unless a change is told before.

        A gateway lists what it has, and has the rest as soon as its own servers have answered. Who ended it in between
        would end them too. So it is not done with while it lacks something, for as long as an unused connection lasts.

        Args:
            lacking_s: seconds since the connection was made.
            listed: called where it is done with for now.
        """
        config, policy = self._troubles.config, self._policy
        if self.trouble is not None or self.snapshot is None or not self.snapshot.n_absent:
            listed()
            return max(self.due_in_s, policy.settle_s if self.trouble is None else policy.backoff.limit_s)
        if lacking_s >= config.idle_s:
            listed()
        elif lacking_s >= config.list_timeout_s:
            self.was_listed()
        return max(policy.settle_s, lacking_s)

    async def _take(self, live: Live) -> None:
        config = self._troubles.config
        try:
            snapshot = await take_snapshot(live, config, self._policy.bounds, self.snapshot)
        except Exception as error:
            if is_closed(error):  # why is for the connection's keeper to say
                await live.ended.wait()
                return
            is_news, self.trouble = self.trouble is None, self._troubles.of_listing(error)
            logger.log(logging.WARNING if is_news else logging.INFO, "%s", self.trouble)
            self._was_tried()
            return
        self.trouble, self._is_wanted = None, False
        try:
            await self._keep(await asyncio.to_thread(without_secrets, snapshot, secrets_of(config)))
        except Exception:  # a fault of whoever is told of a change, or of the store, ends no renewal
            logger.exception("upstream %r: its snapshot could not be kept", config.name)

    async def _keep(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, and list by it; a stop waits for the disk, but not for one that hangs."""
        saving = asyncio.ensure_future(in_daemon_thread(partial(self._save, snapshot)))
        try:
            await self._list_by(snapshot)
            await asyncio.shield(saving)
        except BaseException:
            await asyncio.wait([saving], timeout=self._policy.disk_s)
            raise

    async def _list_by(self, snapshot: Snapshot) -> None:
        before, self.snapshot = self.snapshot, snapshot
        if before is None or await asyncio.to_thread(_differs, before, snapshot):
            self._on_change()
        self._was_tried()
        for problem in snapshot.problems if before is None or before.problems != snapshot.problems else ():
            logger.warning("upstream %r: %s", snapshot.upstream, problem)


async def _is_set(event: asyncio.Event, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _differs(one: Snapshot, other: Snapshot) -> bool:
    return one.digest != other.digest


@asynccontextmanager
async def _told_of_changes(live: Live) -> AsyncIterator[None]:
    """Have an upstream of the newer era tell of changes, which it does only where it is asked to."""
    has = live.server_capabilities
    kinds = (has.tools, has.prompts, has.resources)
    if not live.is_modern or not any(kind is not None and kind.list_changed for kind in kinds):
        yield
        return
    hearing = asyncio.create_task(_hear(live))
    try:
        yield
    finally:
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)


async def _hear(live: Live) -> None:
    from mcp.client.subscriptions import SubscriptionLost, listen

    has = live.server_capabilities
    while not live.ended.is_set():
        try:
            async with listen(
                live.session,
                tools_list_changed=bool(has.tools and has.tools.list_changed),
                prompts_list_changed=bool(has.prompts and has.prompts.list_changed),
                resources_list_changed=bool(has.resources and has.resources.list_changed),
            ) as changes:
                async for _ in changes:
                    live.changed.set()
        except SubscriptionLost:
            live.changed.set()  # what was missed meanwhile is not known
        except (MCPError, RuntimeError):
            return
        await asyncio.sleep(1)
