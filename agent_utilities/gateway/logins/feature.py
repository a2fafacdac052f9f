"""The logins feature: upstreams that each caller logs in at with an account of their own."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

from fastmcp.tools.base import Tool
from mcp_types import ToolAnnotations
from starlette.routing import BaseRoute

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.compat.fastmcp_server import import_state, is_over_stdio
from agent_utilities.errors import InputError, SettingsError
from agent_utilities.gateway.feature import CallersOwn, Upstreams
from agent_utilities.gateway.logins.asking import LoginCaller, OwnLogin
from agent_utilities.gateway.logins.links import Elsewhere, Links, Person, present_person
from agent_utilities.gateway.provider import Union, UpstreamProvider
from agent_utilities.gateway.upstreams.config import GatewayConfig, UpstreamConfig
from agent_utilities.gateway.upstreams.folders import gateway_folder, with_folder
from agent_utilities.gateway.upstreams.http.account import Account, LoginStore, Start
from agent_utilities.gateway.upstreams.sealed_store import SealedStore, read_key
from agent_utilities.gateway.upstreams.snapshot import Snapshot
from agent_utilities.gateway.upstreams.supervision.upstreams import Upstreams as Supervised
from agent_utilities.policy.decision import Decision
from agent_utilities.runtime.waiting import finish_in_turns, guarded, in_daemon_thread, is_set
from agent_utilities.seam.events import Event, UpstreamsRenewed
from agent_utilities.seam.feature import Feature, OwnTool
from agent_utilities.seam.host import Host, find
from agent_utilities.seam.request import Request
from agent_utilities.seam.whole_catalog import is_introspecting


class OwnSnapshots:
    """Stores what upstreams listed to one person, sealed like their logins."""

    def __init__(self, store: SealedStore, person: Person) -> None:
        self._store, self._person = store, person

    def load(self, config: UpstreamConfig) -> Snapshot | None:
        """Return the last snapshot of an upstream, or None."""
        return self._store.load(Snapshot, "snapshot", *self._person, config.name, config.digest)

    def save(self, snapshot: Snapshot) -> None:
        """Store a snapshot; the caller reports a disk that fails."""
        self._store.save(snapshot, "snapshot", *self._person, snapshot.upstream, snapshot.config_digest)


class Held:
    """The upstreams and lists of one person, or of all unidentified callers, who have no logins.

    Args:
        person: issuer and subject; None for unidentified callers.
        configs: the configurations of the upstreams that callers log in at, each with a connection of its own.
        provider: lists everybody's upstreams.
        store: stores logins, and in its folder snapshots.
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
        """The task of `run`."""
        self.logins: Sequence[OwnLogin] = ()
        """The logins of the person, one for each upstream."""
        self.union: Union | None = None
        """The lists of the person, with everybody's upstreams; None until they are known."""
        self.was_tried = asyncio.Event()
        """Set once `union` is known, or can't be."""
        self._outdated, self._is_current = asyncio.Event(), asyncio.Event()

    def outdate(self) -> None:
        """Mark the person's lists as outdated, so that they are made anew."""
        self._is_current.clear()
        self._outdated.set()

    async def first_lists(self, within_s: float) -> None:
        """Wait until every upstream that they are logged in at, maybe by another replica, was listed or has failed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                for each in self.logins:
                    if each.is_made and each.upstream.snapshot is None:
                        await each.upstream.was_tried.wait()
                        await self._is_current.wait()

    async def run(self, **options: Any) -> None:
        """Run the person's upstreams, and keep their lists up to date, until cancelled.

        Args:
            options: further options of `Upstreams`.
        """
        made = partial(
            Supervised,
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


logger = logging.getLogger("agent_utilities.logins")

N_PEOPLE = 256
"""The most people whose upstreams run at once; the least recently used are evicted."""
_BRING_S = 5.0
"""Seconds that a request waits for its caller's logins, which are on a disk, and for their first lists."""


class Logins(Feature):
    """Serves each person the upstreams that they logged in at themselves, and nobody else's.

    Over stdio there is one caller, the user who launched it: there their login is the gateway's, which
    `agent-utilities gateway login NAME` makes.
    """

    name = "logins"
    hears = (UpstreamsRenewed,)
    needs = (Upstreams,)
    after = ("fleet", "upstreams")

    def __init__(self) -> None:
        self.store = LoginStore()
        """The store of logins; the one that replicas share, if any."""
        self._configs: Sequence[UpstreamConfig] = ()
        """The configurations of the upstreams that callers log in at, while the server runs."""
        self._held: dict[Person | None, Held] = {}
        """What is held for each person; the last is the most recently used."""
        self._group: asyncio.TaskGroup | None = None
        self._context = contextvars.Context()

    def attach(self, host: Host) -> None:
        super().attach(host)
        self._upstreams, self.store = self.needed(Upstreams), find(host, LoginStore) or self.store
        host.offer(CallersOwn, lambda: self)

    def union(self) -> Union | None:
        # Listings for graph and ranker pass every check, so they must not have what is one person's.
        if not self._held or is_over_stdio() or is_introspecting():
            return None
        held = self._held.get(present_person())
        return held.union if held is not None else None

    @cached_property
    def _prepared(self) -> Links:
        """The links to logins; the store of logins is ready once they are made.

        Raises:
            SettingsError: the operator's key, or the server's own address, is missing or none.
        """
        settings = self.host.operator.settings
        key = read_key(settings.secret_key.get_secret_value(), settings.secret_key_file)
        if not (base_url := settings.auth_base_url.rstrip("/")):
            hint = "give the address that browsers reach this server by, such as https://gateway.example"
            raise SettingsError("no address for the links of callers' logins", "", "env MCP_AUTH_BASE_URL", hint)
        self.store.folder = SealedStore(gateway_folder("logins", settings.gateway_folder), key)
        return Links(self.host, base_url, find(self.host, Elsewhere) or Elsewhere())

    def check(self) -> None:
        """Refuse to serve callers' logins that can't be stored, or that no link could lead to.

        Raises:
            SettingsError: the operator's key, or the server's own address, is missing or none.
        """
        if self._upstreams.of_callers() and self.host.transport != "stdio":
            _ = self._prepared

    def _start(self, work: Callable[[], Awaitable[Any]]) -> asyncio.Task[Any]:
        """Start a task; see `Start`."""
        if self._group is None:
            raise RuntimeError("the gateway is not running")

        async def outcome() -> Any:
            try:
                return await work()
            except Exception as error:
                return error

        return self._group.create_task(outcome(), context=self._context.copy())

    # -- while it runs -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Hold people's upstreams until cancelled; over stdio there are none."""
        if self.host.transport == "stdio":
            return
        try:
            _ = self._prepared
        except InputError as error:
            if self._upstreams.of_callers():  # else the key is there for what replicas share
                logger.error("nobody is served what callers log in at themselves: %s", error)
            return
        self._context = contextvars.copy_context()
        try:
            async with asyncio.TaskGroup() as group:
                self._group, self._configs = group, self._upstreams.of_callers()
                await asyncio.get_running_loop().create_future()
        finally:
            self._group, self._configs = None, ()
            self._held.clear()

    def notify(self, event: Event) -> None:
        """Outdate everybody's lists where the common ones, or the upstreams with own logins, have changed."""
        if self._group is None:
            return
        is_same, self._configs = self._configs == (now := self._upstreams.of_callers()), now
        for held in self._held.values():
            if is_same:
                held.outdate()
            else:
                held.task.cancel()  # it is brought anew with their next request
        if not is_same:
            self._held.clear()

    async def narrow(self, request: Request) -> None:
        """Prepare the caller's upstreams before anything is listed or looked up; this narrows nothing."""
        if not self._configs or request.is_dry:
            return
        person = present_person()
        held = self._held[person] = self._held.pop(person) if person in self._held else self._begun(person)
        if not await is_set(held.was_tried, within_s=_BRING_S):
            logger.error("a disk hangs: what a caller has by logins of their own is not served for a request")
        await held.first_lists(_BRING_S)

    def _begun(self, person: Person | None) -> Held:
        unused = [name for name, each in self._held.items() if not any(one.upstream.is_busy for one in each.logins)]
        for each in unused[: max(0, len(self._held) + 1 - N_PEOPLE)]:
            self._held.pop(each).task.cancel()
        operator = self.host.operator
        held = Held(person, self._configs, self._upstreams.provider, self.store, self._prepared, self._start)
        run = partial(
            held.run,
            environ=with_folder(operator.environ, operator.settings.gateway_folder),
            before_import=import_state,
        )
        held.task = self._start(lambda: guarded(run()))
        held.task.add_done_callback(lambda _: self._held.get(person) is held and self._held.pop(person))
        return held

    # -- lists, summary and routes -------------------------------------------------------------------------------------

    def _logins(self, request: Request) -> list[OwnLogin]:
        """Return the caller's logins at the upstreams that they may learn of."""
        held = self._held.get(present_person())
        logins, bounds = held.logins if held is not None else (), request.verdict.bounds
        return [each for each in logins if self._upstreams.may_learn_of(each.upstream, bounds)]

    def _tool(self, login: OwnLogin) -> OwnTool:
        """Return the tool that starts a login."""
        config = login.upstream.config
        about = f" ({config.description})" if config.description else ""
        return OwnTool(
            name=f"{self._upstreams.provider.prefix_of(config.name)}login",
            title=f"Log in at {config.name}",
            description=f"Log in at {config.name}{about} with your own account: its tools are listed once you have.",
            parameters={"type": "object", "properties": {}},
            annotations=ToolAnnotations(read_only_hint=True),
            answer=login.answer,
        )

    async def tools_at_head(self, request: Request, decision: Decision) -> Sequence[Tool]:
        """Return the login tools of the upstreams that never listed anything to the caller."""
        return [self._tool(each) for each in self._logins(request) if each.upstream.snapshot is None]

    async def tool(self, name: str, request: Request) -> Tool | None:
        return next((tool for tool in map(self._tool, self._logins(request)) if tool.name == name), None)

    async def summary(self, request: Request, kind: ComponentKind, decision: Decision) -> Mapping[str, Any]:
        """Return the upstreams that wait for the caller's login, under `wants_login`."""
        wanted = [each.upstream.config.name for each in self._logins(request) if not each.is_made]
        return {"wants_login": wanted} if wanted else {}

    def keeping_ms(self, request: Request, kind: ComponentKind) -> int | None:
        """Return 0 where a login would change the list, so that it is not cached."""
        return None if all(each.is_made for each in self._logins(request)) else 0

    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes of the links' pages; none where the settings don't allow them."""
        try:
            return self._prepared.routes()
        except InputError:  # logged by `run`
            return ()
