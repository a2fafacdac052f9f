"""What one person has of the upstreams that they log in at themselves: logins, connections, snapshots and a list."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from agent_utilities.features.logins.asking import LoginCaller, OwnLogin
from agent_utilities.features.logins.links import Links, Person
from agent_utilities.features.upstreams.provider import Union, UpstreamProvider
from agent_utilities.runtime.waiting import finish_in_turns, in_daemon_thread
from agent_utilities.upstream.config import GatewayConfig, UpstreamConfig
from agent_utilities.upstream.http.account import Account, LoginStore, Start
from agent_utilities.upstream.sealed_store import SealedStore
from agent_utilities.upstream.snapshot import Snapshot
from agent_utilities.upstream.supervision.upstreams import Upstreams


class OwnSnapshots:
    """What upstreams listed to one person, sealed like their logins."""

    def __init__(self, store: SealedStore, person: Person) -> None:
        self._store, self._person = store, person

    def load(self, config: UpstreamConfig) -> Snapshot | None:
        """Return what an upstream listed last; None where that is not known."""
        return self._store.load(Snapshot, "snapshot", *self._person, config.name, config.digest)

    def save(self, snapshot: Snapshot) -> None:
        """Keep it; a disk that takes nothing is told of by whoever calls this."""
        self._store.save(snapshot, "snapshot", *self._person, snapshot.upstream, snapshot.config_digest)


class Held:
    """What is held for one person, or for all of whom it is not known who they are, who have no logins.

    Args:
        person: issuer and subject; None where it is not known who they are.
        configs: of the upstreams that callers log in at, each reached by a connection of theirs.
        provider: lists everybody's upstreams.
        store: keeps logins, and in its folder snapshots.
        links: makes links to log in by.
        start: starts a task that ends with the server.
    """

    def __init__(
        self,
        person: Person | None,
        configs: Sequence[UpstreamConfig],
        provider: UpstreamProvider,
        store: LoginStore,
        links: Links,
        start: Start,
    ) -> None:
        self._person, self._configs, self._provider, self._store, self._links = person, configs, provider, store, links
        known = configs if person is not None else ()
        self._accounts = {each.name: Account(each, person or ("", ""), store, start) for each in known}
        self.task: asyncio.Task[Any]
        """What runs it."""
        self.logins: Sequence[OwnLogin] = ()
        """What has them log in, by upstream."""
        self.union: Union | None = None
        """What they are listed, everybody's upstreams with it; None where that is not known yet."""
        self.was_tried = asyncio.Event()
        """Set once it is known, or can't be."""
        self._outdated, self._is_current = asyncio.Event(), asyncio.Event()

    def outdate(self) -> None:
        """Have what they are listed made anew."""
        self._is_current.clear()
        self._outdated.set()

    async def first_lists(self, within_s: float) -> None:
        """Return once all that they are logged in at was listed, or could not be; they may have been so elsewhere."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                for each in self.logins:
                    if each.is_made and each.upstream.snapshot is None:
                        await each.upstream.was_tried.wait()
                        await self._is_current.wait()

    async def run(self, **options: Any) -> None:
        """Keep it up, and what they are listed up to date, until cancelled.

        Args:
            options: of `Upstreams` besides.
        """
        made = partial(
            Upstreams,
            GatewayConfig(upstreams=tuple(self._configs)),
            store=OwnSnapshots(self._store.folder, self._person or ("", "")),
            on_change=lambda _: self.outdate(),
            auth_of=lambda config, _: self._accounts[config.name],
            may_list=lambda config: config.name in self._accounts and self._accounts[config.name].has_login.is_set(),
            **options,
        )
        try:
            upstreams = await in_daemon_thread(made)  # it reads snapshots
            for name, account in self._accounts.items():
                await account.load()
                account.on_login = upstreams[name].retry
            logins = {
                each.config.name: OwnLogin(each, self._accounts.get(each.config.name), self._links)
                for each in upstreams
            }
            self.logins = tuple(logins.values())
            own = {name: (each.upstream, partial(LoginCaller, login=each)) for name, each in logins.items()}
            async with asyncio.TaskGroup() as group:
                group.create_task(upstreams.run())
                while True:
                    self._outdated.clear()
                    union = await finish_in_turns(self._provider.with_own(own, self.union or Union()))
                    before, self.union = self.union, union
                    if before is not None:
                        self._provider.notify_difference(before, union)
                    self.was_tried.set()
                    if not self._outdated.is_set():
                        self._is_current.set()
                    await self._outdated.wait()
        finally:
            self.was_tried.set()
            self._is_current.set()
