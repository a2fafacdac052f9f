"""Telling clients that their lists changed: on their session, or on their `subscriptions/listen` stream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import Context, ContextVar, copy_context

from fastmcp.prompts.base import Prompt
from fastmcp.tools.base import Tool
from mcp.server.connection import Connection
from mcp.server.subscriptions import ListenHandler

from agent_utilities.catalog.model import KINDS, Catalog, ComponentKind
from agent_utilities.mcp.changes.bus import LIMIT_S, Bus, Member, Sender
from agent_utilities.mcp.lifespan import BackgroundWork
from agent_utilities.mcp.surface.catalogs import CATALOGS_BYTES, caller_key, weigh_catalog
from agent_utilities.mcp.surface.introspecting import is_introspecting
from agent_utilities.mcp.surface.surface import Surface, Verdict
from agent_utilities.runtime.caches import BoundedCache
from agent_utilities.selection.model import NOTHING

logger = logging.getLogger("agent_utilities.changes")

_KINDS: Mapping[str, Sequence[ComponentKind]] = {
    "tools": ("tool",),
    "prompts": ("prompt",),
    "resources": ("resource", "template"),
}
ALL = frozenset(_KINDS)


def _weigh(key: tuple[str, ComponentKind], listed: _Listed) -> int:
    return sum(weigh_catalog(key, catalog) for catalog in listed)


_is_comparing: ContextVar[bool] = ContextVar("agent_utilities_is_comparing", default=False)


_Listed = tuple[Catalog, ...]
"""What a caller was listed of a kind: when they were last told, and what they listed themselves last since then."""
_Compared = tuple[_Listed, Catalog | None]
"""What a caller was listed of a kind, and is listed now; None where that could not be learnt."""
_Burst = dict[tuple[str, ComponentKind], asyncio.Task[_Compared]]
"""In one burst of changes each caller's lists are compared once, for all of their clients."""


class Changes:
    """Collects changes from any thread, and tells those clients whose lists they changed from the server's own task.

    What changed for a caller is learnt by comparing what they are listed now with what they were before, under the
    bounds that their lists were made under: a change to a denied tool is told to nobody (law L1). Changes that come
    together are told as one. Before the server runs nobody listens, and nothing is kept.

    Args:
        surface: what decides.
        components: lists a kind under the verdict in force, without middleware.
        may_read: whether the present caller may read a resource.
        on_tools: called when tools changed, whoever may use them, before clients are told.
        knows_lists: whether what a caller without a token is listed is to be learnt at the start; asked then.
    """

    def __init__(
        self,
        surface: Surface,
        components: Callable[[ComponentKind], Awaitable[object]],
        may_read: Callable[[str], Awaitable[bool]],
        *,
        on_tools: Callable[[], None],
        knows_lists: Callable[[], bool],
    ) -> None:
        self.on_tools = on_tools
        self.limit_s = LIMIT_S
        self.bus = Bus(surface, may_read, self._join)
        self.listen = ListenHandler(self.bus)
        self._surface, self._components = surface, components
        self._knows_lists = knows_lists
        self._connections: dict[Connection, Member] = {}
        self._streams: dict[Member, None] = {}
        self._listed: BoundedCache[tuple[str, ComponentKind], _Listed] = BoundedCache(CATALOGS_BYTES, _weigh)
        self._learning: set[str] = set()
        self._everybody = ""
        self._first_lists: asyncio.Task[None] | None = None
        self.work = BackgroundWork(lambda: self._group)
        self._pending: set[str] = set()
        self._has_new_tools = False
        self._wake: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._group: asyncio.TaskGroup | None = None

    @property
    def pending(self) -> frozenset[str]:
        """The lists whose changes wait to be told."""
        return frozenset(self._pending)

    # -- who is told -------------------------------------------------------------------------------------------------

    def heard(self, connection: Connection, verdict: Verdict, listed: ComponentKind | None) -> None:
        """Take note of a request on a connection whose client is told of changes on it.

        Args:
            connection: the connection; it is forgotten when it closes, or when its client does not read.
            verdict: what holds for the request.
            listed: the kind of component that it was listed, if any.
        """
        member = self._connections.get(connection)
        if member is None:
            sender = Sender(connection, lambda: self._group, self.limit_s, self._stalled)
            self._connections[connection] = member = Member(verdict, sender.notify)
            connection.exit_stack.callback(self._connections.pop, connection, None)
        member.heard(verdict, listed)
        self._learn(member)

    def _stalled(self, connection: Connection) -> None:
        if self._connections.pop(connection, None) is not None:
            logger.warning("a client read no notice for %s s; it is told no more until it is heard of", self.limit_s)

    def _join(self, member: Member) -> Callable[[], None]:
        self._streams[member] = None
        self._learn(member)
        return lambda: self._streams.pop(member, None)

    def note_listed(self, kind: ComponentKind, catalog: Catalog) -> None:
        """Take note of what the present caller is listed: where it is gone again by now, they must be told."""
        key = caller_key(), kind
        listed = self._listed.get(key) or ()
        if (not listed or listed[-1] is not catalog) and not _is_comparing.get():
            self._listed.keep(key, (*listed[:1], catalog))

    def _learn(self, member: Member) -> None:
        """Learn what a caller would be listed before anything changes, where they were listed nothing here.

        Such as by a server beside this one.
        """
        caller = member.caller
        if caller == self._everybody or caller in self._learning or self._group is None:
            return
        if any(self._listed.get((caller, kind)) is None for kind in KINDS):
            self._learning.add(caller)
            self._group.create_task(self._know(member.context, caller))

    def tell_tools(self, connection: Connection) -> None:
        """Tell the client of a connection that its list of tools changed, whatever it is listed by."""
        if (member := self._connections.get(connection)) is not None:
            member.notify(["tools"])

    # -- what changed ------------------------------------------------------------------------------------------------

    def note(self, lists: Iterable[str] = ALL) -> None:
        """Note that lists (`tools`, `prompts`, `resources`) changed; safe to call from any thread.

        A provider that registers its components anew with each listing tells of that too. What a listing for graph and
        ranker brought about is told to clients, and starts no other such listing; what one for a comparison brought
        about is in the list that is compared.
        """
        if self._loop is not None and not self._loop.is_closed() and not _is_comparing.get():
            self._loop.call_soon_threadsafe(self._note, frozenset(lists), not is_introspecting())

    def note_component(self, component: object) -> None:
        """Note that the list of a component that was added or removed changed."""
        kinds: dict[type, str] = {Tool: "tools", Prompt: "prompts"}
        self.note({next((name for kind, name in kinds.items() if isinstance(component, kind)), "resources")})

    def _note(self, lists: frozenset[str], is_news: bool = True) -> None:
        self._surface.catalogs.forget()
        self._pending |= lists
        self._has_new_tools |= is_news and "tools" in lists
        if self._wake is not None:
            self._wake.set()

    async def run(self) -> None:
        """Send notices until cancelled; one task of the server's lifespan."""
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        self._everybody = caller_key()
        try:
            async with asyncio.TaskGroup() as self._group:
                if self._knows_lists():
                    self._first_lists = self._group.create_task(self._know(copy_context(), self._everybody))
                while True:
                    await self._wake.wait()
                    self._wake.clear()
                    lists, self._pending = frozenset(self._pending), set()
                    if self._has_new_tools:
                        self._has_new_tools = False
                        self.on_tools()
                    self._tell(lists, self._group)
        finally:
            self._loop = self._wake = self._group = self._first_lists = None
            self._listed.clear()
            self.listen.close()

    def _tell(self, lists: frozenset[str], group: asyncio.TaskGroup) -> None:
        """Tell each client of what changed for it, no client waiting for another's lists."""
        members = [*self._connections.values(), *self._streams]
        callers = {self._everybody, *(member.caller for member in members)}
        keys = [(caller, kind) for caller in callers for kind in KINDS]
        kept = [(key, listed) for key in keys if (listed := self._listed.get(key)) is not None]
        self._listed.clear()  # of who is not told: what they list from now on is what they will be compared with
        for key, listed in kept:
            self._listed.keep(key, listed)
        burst: _Burst = {}
        for member in members:
            group.create_task(self._tell_one(member, lists, burst))

    async def _tell_one(self, member: Member, lists: frozenset[str], burst: _Burst) -> None:
        try:
            if self._first_lists is not None:
                await asyncio.wait({self._first_lists})
            changed = [name for name in sorted(lists) if await self._has_changed(member, name, burst)]
            member.notify(changed)
        except Exception:
            logger.exception("a client could not be told of a change")

    async def _has_changed(self, member: Member, name: str, burst: _Burst) -> bool:
        surface = self._surface
        operator = surface.verdict(NOTHING, shapes_lists=False).effective.bounds_only
        for kind in _KINDS[name]:
            listed, now = await self._compared(burst, member.caller, kind, member.context)
            if not listed:  # they were listed none here; what everybody is listed has changed for them too
                listed, now = await self._compared(burst, self._everybody, kind, copy_context())
            if not listed or now is None:
                return True
            for bounds in member.bounds(kind, operator):
                if len({await surface.permitted_digest(kind, catalog, bounds) for catalog in (*listed, now)}) > 1:
                    return True
        return False

    async def _compared(self, burst: _Burst, caller: str, kind: ComponentKind, context: Context) -> _Compared:
        if (caller, kind) not in burst and self._group is not None:
            burst[caller, kind] = self._group.create_task(self._compare(caller, kind), context=context.copy())
        return await burst[caller, kind]

    async def _compare(self, caller: str, kind: ComponentKind, *, is_first: bool = False) -> _Compared:
        """List a kind to the caller of the context that this runs in; from now on they are compared with that.

        The first time what they listed themselves meanwhile counts on: they were told of nothing yet.
        """
        is_known = self._listed.get((caller, kind)) is not None
        _is_comparing.set(True)
        after: Catalog | None = None
        try:
            surface = self._surface
            async with asyncio.timeout(self.limit_s):
                with surface.under_verdict(surface.verdict(NOTHING, shapes_lists=False)):
                    await self._components(kind)
            after = surface.catalogs.of_caller(kind)
        except Exception:
            logger.warning("not known whether a caller's list of %ss changed; they are told so", kind, exc_info=True)
        listed = self._listed.get((caller, kind)) or ()  # with what they listed themselves meanwhile
        if after is not None:
            self._listed.keep((caller, kind), (after, *listed[-1:]) if is_first else (after,))
        return listed if is_known else (), after

    async def _know(self, context: Context, caller: str) -> None:
        """Learn what a caller is listed of each kind that is not known."""
        try:
            async with asyncio.TaskGroup() as group:
                for kind in KINDS:
                    if self._listed.get((caller, kind)) is None:
                        group.create_task(self._compare(caller, kind, is_first=True), context=context.copy())
        finally:
            self._learning.discard(caller)
