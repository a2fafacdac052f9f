"""What each person has of the upstreams that they log in at themselves: logins, connections, snapshots and lists."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pydantic import ValidationError

from agent_utilities.features.logins.asking import LoginCaller
from agent_utilities.features.logins.links import Links, Person
from agent_utilities.features.upstreams.calls import Caller
from agent_utilities.features.upstreams.provider import Union, UpstreamProvider
from agent_utilities.features.upstreams.waiting import WaitingCalls
from agent_utilities.mcp.lifespan import guarded
from agent_utilities.runtime.waiting import finish_in_turns, in_daemon_thread
from agent_utilities.upstream.config import GatewayConfig, UpstreamConfig
from agent_utilities.upstream.errors import UpstreamError
from agent_utilities.upstream.http.account import Account, OwnLoginNeededError, Start
from agent_utilities.upstream.names import Namespace
from agent_utilities.upstream.sealed_store import SealedStore
from agent_utilities.upstream.snapshot import Snapshot
from agent_utilities.upstream.supervision.upstream import Upstream
from agent_utilities.upstream.supervision.upstreams import Upstreams

logger = logging.getLogger("agent_utilities.logins")

N_PEOPLE = 256
"""How many people's upstreams are kept up at once; of more, those go that were used least recently."""


class OwnSnapshots:
    """What upstreams listed to one person, sealed like their logins."""

    def __init__(self, store: SealedStore, person: Person) -> None:
        self._store, self._person = store, person

    def load(self, config: UpstreamConfig) -> Snapshot | None:
        """Return what an upstream listed last; None where that is not known."""
        content = self._store.load(*self._name(config.name, config.digest))
        try:
            return Snapshot.model_validate_json(content) if content is not None else None
        except ValidationError:
            return None

    def save(self, snapshot: Snapshot) -> None:
        """Keep it; a disk that takes nothing is told of by whoever calls this."""
        body = snapshot.model_dump_json(by_alias=True, exclude_unset=True).encode()
        self._store.save(body, *self._name(snapshot.upstream, snapshot.config_digest))

    def _name(self, upstream: str, digest: str) -> tuple[str, ...]:
        return "snapshot", *self._person, upstream, digest


@dataclass(eq=False)
class Held:
    """What is held for one person, or for those of whom it is not known who they are.

    Args:
        person: issuer and subject; None where it is not known who they are.
        upstreams: theirs, each by a connection of its own.
        accounts: their logins, by upstream; none for nobody.
        union: what they are listed, everybody's upstreams with it.
        is_outdated: whether that is to be made anew.
        task: what supervises the upstreams; None for nobody's, which are never reached.
    """

    person: Person | None
    upstreams: Upstreams
    accounts: dict[str, Account]
    union: Union = field(default_factory=Union)
    is_outdated: bool = False
    task: asyncio.Task[Any] | None = None

    @property
    def is_in_use(self) -> bool:
        """Whether a call of theirs is under way."""
        return any(upstream.is_busy for upstream in self.upstreams)


class People:
    """Holds what people have while they use it.

    Args:
        provider: lists everybody's upstreams, and these to their people.
        store: keeps logins and snapshots.
        links: makes links to log in by.
        start: starts a task that ends with the server.
        options: of `Upstreams` besides.
    """

    def __init__(
        self, provider: UpstreamProvider, store: SealedStore, links: Links, start: Start, **options: Any
    ) -> None:
        self._provider, self._store, self._links, self._start = provider, store, links, start
        self._options = options
        self._configs: Sequence[UpstreamConfig] = ()
        self._held: dict[Person | None, Held] = {}
        self._coming: dict[Person | None, asyncio.Task[Any]] = {}
        self._wake = asyncio.Event()

    @property
    def is_needed(self) -> bool:
        """Whether there is anything that people log in at themselves."""
        return bool(self._configs)

    def union_of(self, person: Person | None) -> Union:
        """Return what a person is listed; everybody's upstreams alone where nothing is held for them."""
        held = self._held.get(person)
        return self._provider.everybodys if held is None else held.union

    def held(self, person: Person | None) -> Held | None:
        """Return what is held for a person, if anything is."""
        return self._held.get(person)

    async def bring(self, person: Person | None) -> None:
        """Have what a person has held, from now until others use theirs more recently."""
        if (held := self._held.pop(person, None)) is not None:
            self._held[person] = held  # the last is the one used most recently
            return
        if (coming := self._coming.get(person)) is None:
            coming = self._coming[person] = self._start(self._begin(person))
            coming.add_done_callback(lambda _: self._coming.pop(person, None))
        await asyncio.wait([coming])

    async def _bring(self, person: Person | None) -> None:
        configs = self._configs
        accounts = {
            each.name: Account(each, person, self._store, self._start) for each in configs if person is not None
        }
        held = Held(person, await in_daemon_thread(partial(self._made, person, configs, accounts)), accounts)
        for name, account in accounts.items():
            await account.load()
            account.on_change = partial(self._login_changed, held, name)
        held.union = await self._listed(held)
        if configs != self._configs:
            return await self._bring(person)
        if person is not None:
            held.task = self._start(self._supervise(held))
        self._held[person] = held
        unused = [each for each in self._held.values() if each is not held and not each.is_in_use]
        for each in unused[: max(0, len(self._held) - N_PEOPLE)]:
            self._let_go(each)
        return None

    async def _begin(self, person: Person | None) -> None:
        await guarded(self._bring(person))

    async def _supervise(self, held: Held) -> None:
        await guarded(held.upstreams.run())

    def _made(
        self, person: Person | None, configs: Sequence[UpstreamConfig], accounts: Mapping[str, Account]
    ) -> Upstreams:
        def auth_of(config: UpstreamConfig) -> Account:
            if not accounts[config.name].has_login.is_set():
                raise UpstreamError(config.name, "refused", str(OwnLoginNeededError()))
            return accounts[config.name]

        return Upstreams(
            GatewayConfig(upstreams=tuple(configs)),
            store=OwnSnapshots(self._store, person or ("", "")),
            on_change=lambda _: self._outdate(person),
            auth_of=auth_of,
            may_list=lambda config: accounts[config.name].has_login.is_set(),
            **self._options,
        )

    def _let_go(self, held: Held) -> None:
        del self._held[held.person]
        if held.task is not None:
            held.task.cancel()

    def _login_changed(self, held: Held, name: str) -> None:
        upstream = held.upstreams.get(name)
        if upstream is not None and held.accounts[name].has_login.is_set():
            upstream.retry()

    # -- lists -------------------------------------------------------------------------------------------------------

    def _outdate(self, person: Person | None) -> None:
        if (held := self._held.get(person)) is not None:
            held.is_outdated = True
            self._wake.set()

    def outdate(self, configs: Sequence[UpstreamConfig]) -> None:
        """Have everybody's lists made anew: what all are listed has changed, or where they log in themselves."""
        if self._configs != (configs := tuple(configs)):
            self._configs = configs
            for held in list(self._held.values()):
                self._let_go(held)  # it is brought anew with their next request
        for held in self._held.values():
            held.is_outdated = True
        self._wake.set()

    async def _listed(self, held: Held) -> Union:
        own: dict[str, Upstream] = {each.config.name: each for each in held.upstreams}

        def caller_of(
            upstream: Upstream, config: UpstreamConfig, names: Namespace, tags: frozenset[str], waiting: WaitingCalls
        ) -> Caller:
            if own.get(config.name) is not upstream:
                return Caller(upstream, config, names, tags, waiting)
            account = held.accounts.get(config.name)
            return LoginCaller(upstream, config, names, tags, waiting, account, self._links, held.person)

        return await finish_in_turns(self._provider.with_own(own, held.union, caller_of))

    async def renew(self) -> None:
        """Bring up to date what is outdated, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            for held in [each for each in self._held.values() if each.is_outdated]:
                held.is_outdated = False
                try:
                    before, held.union = held.union, await self._listed(held)
                except Exception:
                    logger.exception("what somebody has could not be brought up to date; it is as it was before")
                else:
                    self._provider.notify_difference(before, held.union)
