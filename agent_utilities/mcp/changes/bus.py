"""The bus behind `subscriptions/listen`: whose stream hears of what."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextvars import Context, copy_context

from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from agent_utilities.mcp.changes.audience import Member
from agent_utilities.mcp.sessions import NOTICE_S
from agent_utilities.mcp.surface.surface import Surface
from agent_utilities.mcp.surface.verdict import verdict_in_force
from agent_utilities.selection.model import NOTHING

logger = logging.getLogger("agent_utilities.changes")

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

        def tell(lists: Iterable[str]) -> None:
            for name in sorted(lists):
                listener(_EVENTS[name]())

        verdict = verdict_in_force() or self._surface.verdict(NOTHING, shapes_lists=False)
        leave = self._on_stream(Member(verdict, tell))
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
