"""The bus behind `subscriptions/listen`: whose stream hears of what."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import Protocol

from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from agent_utilities.mcp.surface.surface import Surface
from agent_utilities.mcp.surface.verdict import verdict_in_force
from agent_utilities.mcp.wire.audience import Member
from agent_utilities.selection.model import NOTHING

logger = logging.getLogger("agent_utilities.changes")

LIMIT_S = 10.0
"""How long one client may take to read a notice, and one caller's rights to be judged for it."""

Stream = tuple[Callable[[ServerEvent], None], Context]
"""The listener of a stream, and the context of the request that opened it."""

_EVENTS: dict[str, Callable[[], ServerEvent]] = {
    "tools": ToolsListChanged,
    "prompts": PromptsListChanged,
    "resources": ResourcesListChanged,
}


class BusHost(Protocol):
    """What the bus asks of the server."""

    surface: Surface

    async def may_read(self, uri: str) -> bool:
        """Whether the present caller may read a resource now."""
        ...


class Bus(InMemorySubscriptionBus):
    """Delivers a resource's updates only to streams whose caller may read it at that moment (law L1)."""

    def __init__(self, host: BusHost, on_stream: Callable[[Member], Callable[[], None]]) -> None:
        super().__init__()
        self._host = host
        self._on_stream = on_stream
        self._streams: dict[object, Stream] = {}

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Register a stream's listener, in the request that opened it."""

        def tell(lists: Iterable[str]) -> None:
            for name in sorted(lists):
                listener(_EVENTS[name]())

        verdict = verdict_in_force() or self._host.surface.verdict(NOTHING, shapes_lists=False)
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
                if await self._host.may_read(event.uri):
                    listener(event)
        except Exception:
            logger.warning("no telling whether a caller may read %r: not told of its update", event.uri, exc_info=True)
