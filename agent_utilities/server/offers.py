"""A registry of what features offer a server and one another, by type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from fastmcp.server.auth import AuthProvider
from fastmcp.server.providers import Provider

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.compat.fastmcp_server import low_level_server
from agent_utilities.policy.bounds import Bounds
from agent_utilities.runtime.waiting import left_out
from agent_utilities.seam.host import CallRecord, Completions, Host, Pending, QuotaSource, RequestStates, WireMiddleware
from agent_utilities.seam.session import Share
from agent_utilities.selection.model import Selection

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer

_T = TypeVar("_T")
_NEVER_LEFT_OUT = (AuthProvider, CallRecord, QuotaSource)
"""Kinds of offers without which more would be permitted or less recorded: where one fails, so does what asks for it."""


class Offers:
    """Stores offers by type; the server takes some kinds at once, and looks the others up when it needs them."""

    def __init__(self, server: AgentServer) -> None:
        self._server = server
        self._makers: dict[type, list[Callable[[], Any]]] = defaultdict(list)
        self.offer(AuthProvider, lambda: server.author_auth)

    def offer(self, kind: type[_T], make: Callable[[], _T | None]) -> None:
        self._makers[kind].append(make)
        self._take(kind, make)

    def offered(self, kind: type[_T]) -> Sequence[_T]:
        found: list[_T] = []
        for make in self._makers.get(kind, ()):
            with nullcontext() if kind in _NEVER_LEFT_OUT else left_out(make):
                if (offered := make()) is not None:
                    found.append(offered)
        return found

    def _take(self, kind: type, make: Callable[[], Any]) -> None:
        server = self._server
        if kind is Provider:
            server.add_provider(make())
        elif kind is Completions:
            server.add_completion_handler(make().complete)
        elif kind is WireMiddleware:
            low_level_server(server).middleware.append(make())
        elif kind is CallRecord:
            middleware = low_level_server(server).middleware
            middleware.insert(middleware.index(server.stopping), make())  # around all that may refuse a call
        elif kind is RequestStates:
            server.replicated.share(server, make().key, make().values)
        elif kind is Share:
            server.sessions.share = share = make()
            share.kinds = {each.name: each.keeps for each in server.features if each.keeps is not None}


class AllPending:
    """Combines all offers of `Pending`; see there."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def absent(self, bounds: Bounds) -> Sequence[str]:
        names: list[str] = []
        for each in self._host.offered(Pending):
            with left_out(each):
                names += each.absent(bounds)
        return names

    def toolsets_to_come(self) -> Sequence[str]:
        names: list[str] = []
        for each in self._host.offered(Pending):
            with left_out(each):
                names += each.toolsets_to_come()
        return names

    async def wait_for_first(self, caller: Selection, kind: ComponentKind, name: str | None = None) -> None:
        for each in self._host.offered(Pending):
            with left_out(each):
                await each.wait_for_first(caller, kind, name)

    async def know_everything(self) -> None:
        for each in self._host.offered(Pending):
            await each.know_everything()
