"""Logins: upstreams that each caller logs in at with an account of their own, `"credentials": "caller"`."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Coroutine, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import fastmcp
from fastmcp.tools.base import Tool
from starlette.routing import BaseRoute

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.errors import InputError, SettingsError
from agent_utilities.features.logins.asking import LoginCaller
from agent_utilities.features.logins.links import Link, Links, Person, present_person
from agent_utilities.features.logins.people import People
from agent_utilities.features.upstreams.feature import Upstreams, UpstreamsRenewed
from agent_utilities.features.upstreams.provider import Union
from agent_utilities.mcp.agent_server import AgentServer
from agent_utilities.mcp.events import Event, LoggedIn
from agent_utilities.mcp.fastmcp_internals import is_over_stdio, make_session_state
from agent_utilities.mcp.feature import Feature, OwnTool
from agent_utilities.mcp.request import Request
from agent_utilities.mcp.surface.introspecting import is_introspecting
from agent_utilities.upstream.config import OAuthClient
from agent_utilities.upstream.folders import gateway_folder, with_folder
from agent_utilities.upstream.sealed_store import SealedStore, read_key
from agent_utilities.visibility.decision import Decision

logger = logging.getLogger("agent_utilities.logins")

_BRING_S = 5.0
"""Seconds that a request waits for what its caller has, which is on a disk."""


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
        self._people: People | None = None
        self._group: asyncio.TaskGroup | None = None
        self._context = contextvars.Context()

    def attach(self, host: AgentServer) -> None:
        """List to each caller what is theirs, from the start on."""
        super().attach(host)
        self._upstreams.provider.of_caller = self._of_caller

    def _of_caller(self) -> tuple[Person | None, Union] | None:
        # What is listed for graph and ranker, past every check, is everybody's: neither may hold what is one person's.
        if self._people is None or not self._people.is_needed or is_over_stdio() or is_introspecting():
            return None
        person = present_person()
        return person, self._people.union_of(person)

    @cached_property
    def _prepared(self) -> tuple[People, Links]:
        """What holds people's upstreams, and what leads them to their logins.

        Raises:
            SettingsError: the operator's key, or the server's own address, is missing or none.
        """
        settings, operator = self.host.surface.operator.settings, self.host.surface.operator
        key = read_key(settings.secret_key.get_secret_value(), settings.secret_key_file)
        if not (base_url := settings.auth_base_url.rstrip("/")):
            hint = "give the address that browsers reach this server by, such as https://gateway.example"
            raise SettingsError("no address for the links of callers' logins", "", "env MCP_AUTH_BASE_URL", hint)
        secret = settings.auth_client_secret
        client = OAuthClient(
            client_id=settings.auth_client_id or None, client_secret=secret if secret.get_secret_value() else None
        )
        mcp_url = base_url + fastmcp.settings.streamable_http_path
        links = Links(base_url, mcp_url, lambda: self.host.auth, client, self._start, self._on_login)
        people = People(
            self._upstreams.provider,
            SealedStore(gateway_folder("logins", settings.gateway_folder), key),
            links,
            self._start,
            environ=with_folder(operator.environ, settings.gateway_folder),
            before_import=partial(make_session_state, self.host),
        )
        return people, links

    def _on_login(self, link: Link) -> None:
        self.host.notify(LoggedIn(*link.person, link.upstream))

    @property
    def links(self) -> Links:
        """What makes links to log in by."""
        return self._prepared[1]

    def check(self) -> None:
        """Refuse to serve callers' logins that can't be kept, or that no link leads to.

        Raises:
            SettingsError: the operator's key, or the server's own address, is missing or none.
        """
        if self._upstreams.of_callers() and self.host.transport != "stdio":
            _ = self._prepared

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task that ends with the server, and knows nothing of the request that it is started in."""
        if self._group is None:
            work.close()
            raise RuntimeError("the gateway is not running")
        return self._group.create_task(work, context=self._context.copy())

    # -- while it runs -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Hold what people have until cancelled; nothing over stdio."""
        if self.host.transport == "stdio":
            return
        try:
            people, _ = self._prepared
        except InputError as error:
            logger.error("nobody is served what callers log in at themselves: %s", error)
            return
        self._context = contextvars.copy_context()
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                people.outdate(self._upstreams.of_callers())
                self._people = people
                await people.renew()
        finally:
            self._group = self._people = None

    def notify(self, event: Event) -> None:
        """Take what has changed for everybody: what upstreams list, or which there are."""
        if self._people is not None:
            self._people.outdate(self._upstreams.of_callers())

    async def narrow(self, request: Request) -> None:
        """Bring in what the caller has, before anything is listed or looked up; it takes nothing away."""
        if self._people is None or request.is_dry or not self._people.is_needed:
            return
        try:
            async with asyncio.timeout(_BRING_S):
                await self._people.bring(present_person())
        except Exception:  # a disk that hangs, too
            logger.exception("what a caller has at upstreams by logins of their own is not served for a request")

    async def tool(self, name: str, request: Request) -> Tool | None:
        """Return the tool to log in by, which is not listed any more once there is something else."""
        held = self._people.held(present_person()) if self._people is not None else None
        for caller, _, _ in held.union.reached.values() if held is not None else ():
            if not isinstance(caller, LoginCaller) or caller.login_name != name:
                continue
            if self._upstreams.may_learn(caller.config.name, request.verdict.bounds):
                return OwnTool(name=name, parameters={"type": "object"}, answer=caller.log_in)
        return None

    # -- what is told ------------------------------------------------------------------------------------------------

    def _wanted(self, request: Request) -> list[str]:
        """Return the upstreams that want the caller's login, of those that they may learn of."""
        if self._people is None or (held := self._people.held(present_person())) is None:
            return []
        accounts = held.accounts
        names = [each.config.name for each in held.upstreams]
        bounds = request.verdict.bounds
        return [
            name
            for name in names
            if not (name in accounts and accounts[name].has_login.is_set()) and self._upstreams.may_learn(name, bounds)
        ]

    async def summary(self, request: Request, kind: ComponentKind, decision: Decision) -> Mapping[str, Any]:
        """Return which upstreams want the caller's login, under `wants_login`."""
        return {"wants_login": wanted} if (wanted := self._wanted(request)) else {}

    def keeping_ms(self, request: Request, kind: ComponentKind) -> int | None:
        """Return 0 where a login would change the list."""
        return 0 if self._wanted(request) else None

    def routes(self) -> Sequence[BaseRoute]:
        """Return the pages that links lead to; none where they could not be served."""
        try:
            return self.links.routes()
        except InputError:  # told where it runs
            return ()
