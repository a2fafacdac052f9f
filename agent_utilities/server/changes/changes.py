"""Notifies clients that their lists changed: on their session, or on their `subscriptions/listen` stream."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Mapping, Sequence
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING

from fastmcp.server.dependencies import get_access_token
from mcp.server import subscriptions
from mcp.server.connection import Connection
from mcp.server.subscriptions import ListenHandler, ResourceUpdated, ServerEvent

from agent_utilities.catalog.model import KINDS, Catalog, ComponentKind
from agent_utilities.runtime.caches import BoundedCache
from agent_utilities.runtime.waiting import guarded
from agent_utilities.seam.caller import caller_key, of_token
from agent_utilities.seam.events import Event, PolicyChanged, QueryAnswerable, ToolsChanged
from agent_utilities.seam.session import NOTICE_S
from agent_utilities.seam.verdict import UnderVerdict, Verdict, verdict_in_force
from agent_utilities.seam.whole_catalog import is_introspecting
from agent_utilities.selection.merge import Effective, Narrowings, merge
from agent_utilities.selection.model import NOTHING, Selection
from agent_utilities.server.answers import may_read
from agent_utilities.server.changes.watching import Watch
from agent_utilities.server.surface.catalogs import CATALOGS_BYTES, weigh_catalog
from agent_utilities.server.surface.surface import Surface

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer

logger = logging.getLogger("agent_utilities.changes")

_KINDS: Mapping[str, Sequence[ComponentKind]] = {
    "tools": ("tool",),
    "prompts": ("prompt",),
    "resources": ("resource", "template"),
}
_EVENTS: Mapping[str, Callable[[], ServerEvent]] = {
    "tools": subscriptions.ToolsListChanged,
    "prompts": subscriptions.PromptsListChanged,
    "resources": subscriptions.ResourcesListChanged,
}
_N_BOUNDS = 4
MOST_WORK, MOST_WORK_OF_ALL = 100, 1_000
"""The most pieces of work beside requests that are under way at once for one caller, and for all of them."""

_Listed = tuple[Catalog, ...]
"""The catalogs of a kind that a caller was listed: at the last notice, and the last one that they listed since."""


def _weigh(key: tuple[str, ComponentKind], listed: _Listed) -> int:
    return sum(weigh_catalog(key, catalog) for catalog in listed)


_Request = tuple[Selection, Narrowings | None]
"""A caller's own selection, and the bounds that features put on their request."""


def _bounds(surface: Surface, request: _Request, granted: Selection) -> Effective:
    return surface.merged(merge(request[0], granted), request[1]).effective.bounds_only


_is_comparing: ContextVar[bool] = ContextVar("agent_utilities_is_comparing", default=False)


class _Client:
    """One client: the last selection of its caller, and how it is notified.

    Created and updated while a request of the client is served.

    Args:
        tell: notifies it that a list (`tools`, `prompts`, `resources`) changed.
        takes: receives the events of its stream; None on a session.
    """

    def __init__(
        self,
        verdict: Verdict,
        tell: Callable[[str], Awaitable[None]],
        takes: Callable[[ServerEvent], None] | None = None,
    ) -> None:
        self.tell, self.takes = tell, takes
        self.untold: set[str] = set()
        self.is_being_told = False
        self._listed: dict[ComponentKind, dict[Effective, _Request]] = {}
        self.heard(verdict)

    def heard(self, verdict: Verdict, listed: ComponentKind | None = None) -> None:
        """Record a request of the client, and what it listed.

        The request's context is kept, since it has the token that `auth` checks need.
        """
        self.context = copy_context()
        self.caller = caller_key()
        self.granted, self.query = verdict.granted, verdict.effective.query_text
        self._latest = {verdict.effective.bounds_only: (verdict.selection.asked, verdict.narrowings)}
        if listed is not None and len(bounds := self._listed.setdefault(listed, {})) < _N_BOUNDS:
            bounds.update(self._latest)

    def regranted(self, granted: Selection, surface: Surface) -> None:
        """Set the grant of its caller; all else that their lists were made under stays."""

        def again(bounds: Mapping[Effective, _Request]) -> dict[Effective, _Request]:
            return {_bounds(surface, request, granted): request for request in bounds.values()}

        self.granted, self._latest = granted, again(self._latest)
        # Where there are too many they stay: some may have been left out.
        self._listed = {k: again(each) if len(each) < _N_BOUNDS else each for k, each in self._listed.items()}
        self.context.run(UnderVerdict(surface.verdict(granted, shapes_lists=False)).__enter__)

    def made_under(self, kind: ComponentKind) -> Mapping[Effective, _Request]:
        """Return the bounds of the client's lists of a kind, each with its request; empty if there are too many."""
        bounds = self._listed.get(kind, self._latest)
        return bounds if len(bounds) < _N_BOUNDS else {}


class Changes:
    """Collects changes from any thread, and notifies the clients whose lists they changed from one task of the server.

    For each caller the present lists are compared with the last ones, under the bounds that those were made under, so
    that nobody is notified of a change to a denied tool (law L1). Changes that come together make one notice. Before
    the server runs nobody listens, and nothing is kept. It is also the bus behind `subscriptions/listen`.
    """

    def __init__(self, server: AgentServer) -> None:
        self.limit_s = NOTICE_S
        """Seconds that a client may take to read a notice, and a check of its caller's rights may take."""
        self.listen = ListenHandler(self, max_subscriptions=10_000)  # of which each caller has a share: see `Places`
        self.watch = Watch(self.note)
        self._server, self._surface = server, server.surface
        self._clients: dict[object, _Client] = {}
        """By connection, or by stream."""
        self._listed: BoundedCache[tuple[str, ComponentKind], _Listed] = BoundedCache(CATALOGS_BYTES, _weigh)
        self._learning: set[str] = set()
        self._work: dict[asyncio.Task[None], str] = {}
        self._pending: set[str] = set()
        self._has_new_tools = False
        self._wake: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._group: asyncio.TaskGroup | None = None

    # -- clients and streams -------------------------------------------------------------------------------------------

    def heard(self, connection: Connection, verdict: Verdict, listed: ComponentKind | None) -> None:
        """Record a request on a connection: its client is notified there of changes, for as long as it reads them."""
        if (client := self._clients.get(connection)) is None:
            client = _Client(verdict, lambda name: connection.notify(f"notifications/{name}/list_changed", None))
            self._clients[connection] = client
            connection.exit_stack.callback(self._clients.pop, connection, None)
        client.heard(verdict, listed)
        self._learn(client.caller, client.context)

    def hears(self, connection: Connection, uris: Container[str]) -> None:
        async def tell(uri: str) -> None:
            async with asyncio.timeout(self.limit_s):
                await connection.notify("notifications/resources/updated", {"uri": uri})

        def takes(event: ServerEvent) -> None:
            if isinstance(event, ResourceUpdated) and event.uri in uris:
                self.start(tell(event.uri))

        if (client := self._clients.get(connection)) is not None:
            client.takes = takes

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Register a stream's listener, in the request that opened it; see `mcp.server.subscriptions`."""

        async def tell(name: str) -> None:
            listener(_EVENTS[name]())

        stream, verdict = object(), verdict_in_force() or self._surface.verdict(NOTHING, shapes_lists=False)
        self._clients[stream] = client = _Client(verdict, tell, listener)
        self._learn(client.caller, client.context)

        def unsubscribe() -> None:
            self._clients.pop(stream, None)

        return unsubscribe

    async def publish(self, event: ServerEvent) -> None:
        """Send a resource's update to the streams whose callers may read it now (law L1); all are judged at once."""
        if isinstance(event, ResourceUpdated):
            async with asyncio.TaskGroup() as group:
                for client in self._clients.values():
                    if client.takes is not None:
                        group.create_task(self._update(event, client.takes), context=client.context.copy())
        await asyncio.sleep(0)

    async def _update(self, event: ResourceUpdated, takes: Callable[[ServerEvent], None]) -> None:
        try:
            async with asyncio.timeout(self.limit_s):
                if await may_read(self._server, event.uri):
                    takes(event)
        except Exception:
            logger.warning("no telling whether a caller may read %r: not told of its update", event.uri, exc_info=True)

    def note_listed(self, kind: ComponentKind, catalog: Catalog) -> None:
        """Record what the present caller is listed, so that they are notified where it has changed again by now."""
        key = caller_key(), kind
        listed = self._listed.get(key) or ()
        if (not listed or listed[-1] is not catalog) and not _is_comparing.get():
            self._listed.keep(key, (*listed[:1], catalog))

    def _learn(self, caller: str, context: Context) -> None:
        """Record what a caller would be listed before anything changes, where they were listed nothing here.

        They may have listed at another replica. Not done over stdio where it would start or call other servers.
        """
        would_ask_others = self._server.transport in (None, "stdio") and not self.watch.is_in_process
        if self._group is None or caller in self._learning or would_ask_others:
            return
        if unknown := [kind for kind in KINDS if self._listed.get((caller, kind)) is None]:
            self._learning.add(caller)
            self._group.create_task(self._learn_lists(caller, unknown), context=context.copy())

    async def _learn_lists(self, caller: str, kinds: Sequence[ComponentKind]) -> None:
        await asyncio.gather(*(self._compared(caller, kind) for kind in kinds))
        self._learning.discard(caller)

    def tell_tools(self, connection: Connection) -> None:
        """Notify the client of a connection that its list of tools changed."""
        self._tell(connection, ["tools"])

    def hear(self, event: Event) -> None:
        """Notify the clients whose lists an event changes: by their rights, or as their query can be answered."""
        match event:
            case PolicyChanged("rules" | "tokens") if self._group is not None:
                self._group.create_task(guarded(self._regrant()))
            case QueryAnswerable(query):  # of its caller; over stdio nobody else is there
                caller, is_http = caller_key(), self._server.transport not in (None, "stdio")
                for key, client in self._clients.items():
                    if client.caller == caller and not (is_http and client.query != query):
                        self._tell(key, ["tools"])

    # -- what changed ------------------------------------------------------------------------------------------------

    def note(self, lists: Iterable[str] = _KINDS) -> None:
        """Note that lists (`tools`, `prompts`, `resources`) changed; safe to call from any thread.

        A provider that registers its components anew with each listing notes that too. A change by a listing for graph
        and ranker is notified to clients, and starts no other such listing. A change by a listing for a comparison is
        in the list that is compared.
        """
        if self._loop is not None and not self._loop.is_closed() and not _is_comparing.get():
            self._loop.call_soon_threadsafe(self._note, frozenset(lists), not is_introspecting())

    def _note(self, lists: frozenset[str], is_news: bool) -> None:
        self._surface.catalogs.forget()
        self._pending |= lists
        self._has_new_tools |= is_news and "tools" in lists
        if self._wake is not None:
            self._wake.set()

    async def run(self) -> None:
        """Send notices until cancelled; one task of the server's lifespan."""
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                try:
                    self._group = group
                    if self._server.auth is None:  # else nobody is served without a token
                        self._learn(caller_key(), copy_context())
                    while True:
                        await self._wake.wait()
                        self._wake.clear()
                        lists, self._pending = sorted(self._pending), set()
                        if self._has_new_tools:
                            self._has_new_tools = False
                            self._server.notify(ToolsChanged())
                        self._tell_all(lists, group)
                finally:
                    self._group = None  # from here on it takes no more tasks
        finally:
            self._loop = self._wake = None
            self._listed.clear()
            self._learning.clear()
            self.listen.close()

    async def _regrant(self) -> None:
        for key, client in list(self._clients.items()):
            token = client.context.run(get_access_token)
            grant = self._server.callers.grant_of(None if token is None else of_token(token))
            granted = NOTHING if grant is None else grant.bounds
            if granted == client.granted or key not in self._clients:
                continue
            before = client.granted
            client.regranted(granted, self._surface)
            self._tell(key, [name for name in _KINDS if await self._differs(client, name, before, granted)])

    async def _differs(self, client: _Client, name: str, before: Selection, after: Selection) -> bool:
        """Whether two grants differ in what they permit of the lists that a client's caller last had."""
        for kind in _KINDS[name]:
            if not (listed := self._listed.get((client.caller, kind))):
                return True
            for request in client.made_under(kind).values() or ((NOTHING, None),):
                each = [_bounds(self._surface, request, grant) for grant in (before, after)]
                if len({await self._surface.permitted_digest(kind, listed[-1], bounds) for bounds in each}) != 1:
                    return True
        return False

    def start(self, work: Coroutine[None, None, None]) -> bool:
        """Start work that no request waits for; a failure of it is logged, and fails nothing else.

        Returns:
            Whether it was started: not where its caller has 100 under way, all have 1,000, or no server runs.
        """
        under_way, caller = [*self._work.values()], caller_key()
        if self._group is None or len(under_way) >= MOST_WORK_OF_ALL or under_way.count(caller) >= MOST_WORK:
            work.close()
            return False
        self._work[task := self._group.create_task(guarded(work))] = caller
        task.add_done_callback(self._work.pop)
        return True

    def _tell_all(self, lists: Sequence[str], group: asyncio.TaskGroup) -> None:
        """Notify each client of what changed for it; no caller waits for another's lists."""
        by_caller: dict[str, list[object]] = defaultdict(list)
        for key, client in self._clients.items():
            by_caller[client.caller].append(key)
        kept = [((caller, kind), self._listed.get((caller, kind))) for caller in by_caller for kind in KINDS]
        self._listed.clear()  # of callers without a client: they are compared with what they list from now on
        for caller_and_kind, listed in kept:
            if listed is not None:
                self._listed.keep(caller_and_kind, listed)
        for caller, keys in by_caller.items():
            context = self._clients[keys[0]].context.copy()
            group.create_task(guarded(self._tell_caller(caller, keys, lists)), context=context)

    async def _tell_caller(self, caller: str, keys: Sequence[object], lists: Sequence[str]) -> None:
        """Notify the clients of the caller in whose context this runs."""
        compared = {kind: await self._compared(caller, kind) for name in lists for kind in _KINDS[name]}
        for key in keys:
            if (client := self._clients.get(key)) is not None:
                operator = self._surface.verdict(client.granted, shapes_lists=False).effective.bounds_only
                self._tell(key, [name for name in lists if await self._has_changed(client, name, compared, operator)])

    async def _has_changed(
        self, client: _Client, name: str, compared: Mapping[ComponentKind, _Listed], operator: Effective
    ) -> bool:
        for kind in _KINDS[name]:
            for bounds in client.made_under(kind) or (operator,):
                digests = [await self._surface.permitted_digest(kind, each, bounds) for each in compared[kind]]
                if len(set(digests)) != 1:
                    return True
        return False

    async def _compared(self, caller: str, kind: ComponentKind) -> _Listed:
        """List a kind to the caller of the context that this runs in; from now on they are compared with that.

        Returns:
            What they were listed before, what they listed themselves meanwhile, and what they are listed now; empty
            where either is not known.
        """
        was_known = self._listed.get((caller, kind)) is not None
        _is_comparing.set(True)
        try:
            async with asyncio.timeout(self.limit_s):
                with self._surface.under_verdict(self._surface.verdict(NOTHING, shapes_lists=False)):
                    await self._server.components(kind)
            now = self._surface.catalogs.of_caller(kind)
        except Exception:
            logger.warning("not known whether a caller's list of %ss changed; they are told so", kind, exc_info=True)
            now = None
        if now is None:
            return ()
        listed = self._listed.get((caller, kind)) or ()  # with what they listed themselves meanwhile
        # On the first comparison it stays the base: they were notified of nothing yet.
        self._listed.keep((caller, kind), (now,) if was_known else (now, *listed[-1:]))
        return (*listed, now) if was_known else ()

    def _tell(self, key: object, lists: Iterable[str]) -> None:
        """Send a client a notice for each list, without waiting; a notice that waits to be sent is not added again."""
        if (client := self._clients.get(key)) is None or self._group is None:
            return
        client.untold.update(lists)
        if client.untold and not client.is_being_told:
            client.is_being_told = True
            self._group.create_task(guarded(self._send(key, client)))

    async def _send(self, key: object, client: _Client) -> None:
        try:
            async with asyncio.timeout(self.limit_s):
                while client.untold:
                    name = min(client.untold)
                    client.untold.discard(name)
                    await client.tell(name)
        except TimeoutError:
            if self._clients.pop(key, None) is not None:
                logger.warning("a client read no notice for %s s; it is told no more until heard of", self.limit_s)
        finally:
            client.is_being_told = False
