"""The bus behind `subscriptions/listen`: whose stream hears of what."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextvars import Context, copy_context

from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.mcp.sessions import NOTICE_S
from agent_utilities.mcp.surface.catalogs import caller_key
from agent_utilities.mcp.surface.surface import Surface, Verdict, verdict_in_force
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NOTHING

logger = logging.getLogger("agent_utilities.changes")

_N_BOUNDS = 4


class Member:
    """One client: what its caller asked for last, and how it is told.

    Made, and brought up to date, while a request of the client is served.

    Args:
        verdict: what holds for that request.
        notify: tells the client that lists (`tools`, `prompts`, `resources`) changed; returns at once.
    """

    def __init__(self, verdict: Verdict, notify: Callable[[Iterable[str]], None]) -> None:
        self.notify = notify
        self._listed: dict[ComponentKind, set[Effective]] = {}
        self.heard(verdict)

    def heard(self, verdict: Verdict, listed: ComponentKind | None = None) -> None:
        """Take note of a request of the client, and of what it listed.

        The request's context is kept: it bears the token that `auth` checks ask for.
        """
        self.context: Context = copy_context()
        self.caller = caller_key()
        self._latest = verdict.effective.bounds_only
        if listed is not None and len(bounds := self._listed.setdefault(listed, set())) < _N_BOUNDS:
            bounds.add(self._latest)

    def bounds(self, kind: ComponentKind, operator: Effective) -> Iterable[Effective]:
        """Return the bounds that the client's lists of a kind were made under; the operator's where they are many."""
        bounds = self._listed.get(kind, {self._latest})
        return bounds if len(bounds) < _N_BOUNDS else (operator,)


class Sender:
    """Tells one connection of changes, one notice at a time, beside all others: it waits for nobody but its client.

    Args:
        connection: the connection.
        group: owns the task that sends.
        limit_s: how long a client may take to read what it is told, in seconds.
        on_stalled: called when it took longer.
    """

    def __init__(
        self,
        connection: Connection,
        group: Callable[[], asyncio.TaskGroup | None],
        limit_s: float,
        on_stalled: Callable[[Connection], None],
    ) -> None:
        self._connection = connection
        self._group = group
        self._limit_s = limit_s
        self._on_stalled = on_stalled
        self._untold: set[str] = set()
        self._is_sending = False

    def notify(self, lists: Iterable[str]) -> None:
        """Send a notice for each list; one that waits to be sent already is not sent twice."""
        self._untold.update(lists)
        group = self._group()
        if self._untold and not self._is_sending and group is not None:
            self._is_sending = True
            group.create_task(self._send())

    async def _send(self) -> None:
        try:
            async with asyncio.timeout(self._limit_s):
                while self._untold:
                    name = min(self._untold)
                    self._untold.discard(name)
                    await self._connection.notify(f"notifications/{name}/list_changed", None)
        except TimeoutError:
            self._untold.clear()
            self._on_stalled(self._connection)
        except Exception:
            logger.exception("a client could not be told of a change")
        finally:
            self._is_sending = False


LIMIT_S = NOTICE_S
"""How long one client may take to read a notice, and one caller's rights to be judged for it."""

Stream = tuple[Callable[[ServerEvent], None], Context]
"""The listener of a stream, and the context of the request that opened it."""

_EVENTS: dict[str, Callable[[], ServerEvent]] = {
    "tools": ToolsListChanged,
    "prompts": PromptsListChanged,
    "resources": ResourcesListChanged,
}


class Bus(InMemorySubscriptionBus):
    """Delivers a resource's updates only to streams whose caller may read it at that moment (law L1).

    Args:
        surface: what decides.
        may_read: whether the present caller may read a resource now.
        on_stream: takes the one behind a stream that is opened; returns what is called when it is closed.
    """

    def __init__(
        self,
        surface: Surface,
        may_read: Callable[[str], Awaitable[bool]],
        on_stream: Callable[[Member], Callable[[], None]],
    ) -> None:
        super().__init__()
        self._surface, self._may_read = surface, may_read
        self._on_stream = on_stream
        self._streams: dict[object, Stream] = {}

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Register a stream's listener, in the request that opened it."""

        def notify(lists: Iterable[str]) -> None:
            for name in sorted(lists):
                listener(_EVENTS[name]())

        verdict = verdict_in_force() or self._surface.verdict(NOTHING, shapes_lists=False)
        leave = self._on_stream(Member(verdict, notify))
        stream = object()
        self._streams[stream] = listener, copy_context()

        def unsubscribe() -> None:
            self._streams.pop(stream, None)
            leave()

        return unsubscribe

    async def publish(self, event: ServerEvent) -> None:
        """Deliver an event; a resource's update is awaited until each stream's caller was judged, all at once."""
        streams = list(self._streams.values())
        async with asyncio.TaskGroup() as group:
            for listener, context in streams:
                if isinstance(event, ResourceUpdated):
                    group.create_task(self._deliver_update(event, listener), context=context.copy())
                else:
                    listener(event)
        await asyncio.sleep(0)

    async def _deliver_update(self, event: ResourceUpdated, listener: Callable[[ServerEvent], None]) -> None:
        try:
            async with asyncio.timeout(LIMIT_S):
                if await self._may_read(event.uri):
                    listener(event)
        except Exception:
            logger.warning("no telling whether a caller may read %r: not told of its update", event.uri, exc_info=True)
