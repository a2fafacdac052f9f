"""Keeps one connection for all who call: started when it is wanted, ended when nobody uses it, never two at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from agent_utilities.upstream.errors import UpstreamError
from agent_utilities.upstream.supervision.opening import Opener
from agent_utilities.upstream.supervision.serving import Serving
from agent_utilities.upstream.supervision.users import Users

if TYPE_CHECKING:
    from mcp_types import ClientCapabilities

    from agent_utilities.upstream.connections.connection import Connection, Live
    from agent_utilities.upstream.supervision.health import Health
    from agent_utilities.upstream.supervision.policy import Policy
    from agent_utilities.upstream.supervision.renewal import Renewal

logger = logging.getLogger(__name__)


class Keeper:
    """Keeps one connection of an upstream.

    Args:
        opener: opens it.
        health: the upstream's, which all of its connections share.
        renewal: keeps its snapshot up to date.
        policy: how long things may take.
        is_for_all: whether snapshots are taken on it, for callers of any kind. Another ends when it is not used.
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
        self.is_starting = False
        self.is_up = False
        """Whether there is a connection, until all of it is gone."""
        self.is_over = False
        """Whether it serves no more, and never will."""
        self.is_stopping = False
        """Whether it is ended whoever uses it."""
        self._wake = asyncio.Event()
        self.users = Users(self._wake)
        self._serving: Serving | None = None
        self._outcome: asyncio.Future[Live] | None = None
        self._is_retried = False

    @property
    def live(self) -> Live | None:
        """The connection, where calls may be sent on it."""
        return self._serving.live if self._serving is not None and self._serving.is_usable else None

    def using(self) -> AbstractContextManager[None]:
        """Keep it for as long as the block takes."""
        return self.users.one_more()

    async def connected(self, *, is_retry: bool = False) -> Live:
        """Return the connection that is up, once there is one.

        Args:
            is_retry: whether it is for a call that found its connection ended before it was sent: such a one waits for
                no backoff, where it is the first failure.

        Raises:
            UpstreamError: the last try has failed and the next is not due, or the one that is under way fails.
        """
        if self.users.is_leaving or self.is_over:
            raise self._opener.troubles.error("stopping", "it is being ended, or has been")
        if (live := self.live) is not None:
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
        self._opener.hurry()
        return await asyncio.shield(self._outcome)

    def serving(self, live: Live) -> Serving | None:
        """Return what serves a connection; None where that has ended."""
        return self._serving if self._serving is not None and self._serving.live is live else None

    def wake(self) -> None:
        """Have it look again whether there is anything to do."""
        self._wake.set()

    def leave(self) -> None:
        """Take no new users, and end once the present ones have gone."""
        self.users.is_leaving = True
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
            self._was_tried()
            self._answer(self._opener.troubles.error("stopping", "it is being ended"))

    async def _is_wanted(self) -> bool:
        """Wait until a connection is wanted; False where none will be."""
        while not self.users.is_leaving:
            if self._outcome is not None:
                return True
            if not self._is_for_all and self.users.used_s is not None and not self.users.n:
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
        self.is_starting, self._is_retried = True, False
        self.users.begin()
        known = self._renewal.snapshot.protocol_version if self._renewal.snapshot is not None else None
        try:
            connection, live = await self._opener.open(known, lambda: self.users.n > 0, self._offered)
        except UpstreamError as error:
            self._fail(error, 0.0)
            return
        finally:
            self.is_starting = False
        counts.starts_s += loop.time() - started_s
        await self._serve(connection, live)

    async def _serve(self, connection: Connection, live: Live) -> None:
        self.is_up = True
        serving = self._serving = Serving(
            connection,
            live,
            users=self.users,
            wake=self._wake,
            renewal=self._renewal if self._is_for_all else None,
            on_change=self._on_change,
            troubles=self._opener.troubles,
            policy=self._policy,
        )
        self._answer(live)
        try:
            trouble = await serving.until_over()
        except asyncio.CancelledError:
            self.users.is_leaving = self.is_stopping = True
            raise
        finally:
            self._serving, up_s = None, serving.up_s
            try:
                await connection.close()
            finally:
                self.is_up = False
        if trouble is None:
            self._health.is_well()
        else:
            self._fail(trouble(), up_s)

    def _fail(self, trouble: UpstreamError, up_s: float) -> None:
        is_news = self._health.trouble is None or self._health.trouble.cause != trouble.cause
        self._health.failed(trouble, up_s)
        if up_s and self._is_retried:
            self._health.allow_one()
        refusal = self._health.refusal()
        is_told = is_news and not self._policy.is_once
        logger.log(logging.WARNING if is_told else logging.INFO, "%s", refusal or trouble)
        self._was_tried()
        if not up_s or refusal is not None:
            self._answer(refusal or trouble)

    def _was_tried(self) -> None:
        if self._is_for_all:
            self._renewal.tried()

    def _answer(self, outcome: Live | UpstreamError) -> None:
        waiting, self._outcome = self._outcome, None
        if waiting is None or waiting.done():
            return
        if isinstance(outcome, UpstreamError):
            waiting.set_exception(outcome)
        else:
            waiting.set_result(outcome)
