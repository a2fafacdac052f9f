"""Logins: upstreams that each caller logs in at with an account of their own, and what one person has of these."""

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
from agent_utilities.gateway.feature import Upstreams, UpstreamsRenewed
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
from agent_utilities.runtime.waiting import finish_in_turns, in_daemon_thread, is_set
from agent_utilities.server.agent_server import AgentServer
from agent_utilities.server.events import Event
from agent_utilities.server.feature import Feature, OwnTool
from agent_utilities.server.request import Request
from agent_utilities.server.stopping import guarded
from agent_utilities.server.surface.catalogs import is_introspecting


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
"""How many people's upstreams are kept up at once; of more, those go that were used least recently."""
_BRING_S = 5.0
"""Seconds that a request waits for what its caller has, which is on a disk, and for what is listed to them first."""


class Logins(Feature):
    """Serves to each person what they have at upstreams by a login of their own, and nothing of it to anybody else.

    Over stdio there is one caller, the user who launched it: there their login is the gateway's, which
    `agent-utilities gateway login NAME` makes.

    Args:
        upstreams: all upstreams, those that callers log in at among them.
    """

    name = "logins"
    hears = (UpstreamsRenewed,)

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams
        self.store, self.elsewhere = LoginStore(), Elsewhere()
        """What keeps logins, and serves links that other replicas made; what shares them puts others in their place."""
        self._configs: Sequence[UpstreamConfig] = ()
        """Of the upstreams that callers log in at, while it runs."""
        self._held: dict[Person | None, Held] = {}
        """What people have; the last is the one used most recently."""
        self._group: asyncio.TaskGroup | None = None
        self._context = contextvars.Context()

    def attach(self, host: AgentServer) -> None:
        """List to each caller what is theirs, from the start on."""
        super().attach(host)
        self._upstreams.provider.of_caller = self._of_caller

    def _of_caller(self) -> Union | None:
        # What is listed for graph and ranker, past every check, is everybody's: neither may hold what is one person's.
        if not self._held or is_over_stdio() or is_introspecting():
            return None
        held = self._held.get(present_person())
        return held.union if held is not None else None

    @cached_property
    def _prepared(self) -> Links:
        """What leads people to their logins; what keeps them is ready with it.

        Raises:
            SettingsError: the operator's key, or the server's own address, is missing or none.
        """
        settings = self.host.surface.operator.settings
        key = read_key(settings.secret_key.get_secret_value(), settings.secret_key_file)
        if not (base_url := settings.auth_base_url.rstrip("/")):
            hint = "give the address that browsers reach this server by, such as https://gateway.example"
            raise SettingsError("no address for the links of callers' logins", "", "env MCP_AUTH_BASE_URL", hint)
        self.store.folder = SealedStore(gateway_folder("logins", settings.gateway_folder), key)
        return Links(self.host, base_url, self.elsewhere)

    def check(self) -> None:
        """Refuse to serve callers' logins that can't be kept, or that no link leads to.

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
        """Hold what people have until cancelled; nothing over stdio."""
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
        """Have everybody's lists made anew: what all are listed has changed, or where they log in themselves."""
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
        """Bring in what the caller has, before anything is listed or looked up; it takes nothing away."""
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
        operator = self.host.surface.operator
        held = Held(person, self._configs, self._upstreams.provider, self.store, self._prepared, self._start)
        run = partial(
            held.run,
            environ=with_folder(operator.environ, operator.settings.gateway_folder),
            before_import=import_state,
        )
        held.task = self._start(lambda: guarded(run()))
        held.task.add_done_callback(lambda _: self._held.get(person) is held and self._held.pop(person))
        return held

    # -- what is told ------------------------------------------------------------------------------------------------

    def _logins(self, request: Request) -> list[OwnLogin]:
        """Return the caller's logins at the upstreams that they may learn of."""
        held = self._held.get(present_person())
        logins, bounds = held.logins if held is not None else (), request.verdict.bounds
        return [each for each in logins if self._upstreams.may_learn_of(each.upstream, bounds)]

    def _tool(self, login: OwnLogin) -> OwnTool:
        """Return the tool to log in by."""
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
        """Return tools to log in by, where nothing was ever listed to the caller."""
        return [self._tool(each) for each in self._logins(request) if each.upstream.snapshot is None]

    async def tool(self, name: str, request: Request) -> Tool | None:
        return next((tool for tool in map(self._tool, self._logins(request)) if tool.name == name), None)

    async def summary(self, request: Request, kind: ComponentKind, decision: Decision) -> Mapping[str, Any]:
        """Return which upstreams want the caller's login, under `wants_login`."""
        wanted = [each.upstream.config.name for each in self._logins(request) if not each.is_made]
        return {"wants_login": wanted} if wanted else {}

    def keeping_ms(self, request: Request, kind: ComponentKind) -> int | None:
        """Return 0 where a login would change the list."""
        return None if all(each.is_made for each in self._logins(request)) else 0

    def routes(self) -> Sequence[BaseRoute]:
        """Return the pages that links lead to; none where they could not be served."""
        try:
            return self._prepared.routes()
        except InputError:  # told where it runs
            return ()
