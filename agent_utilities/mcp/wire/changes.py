"""Telling clients that the catalog changed: on their session, or on their `subscriptions/listen` stream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from weakref import WeakSet

from fastmcp.prompts.base import Prompt
from fastmcp.server.providers import Provider
from fastmcp.server.providers.aggregate import AggregateProvider
from fastmcp.server.providers.fastmcp_provider import FastMCPProvider
from fastmcp.server.providers.local_provider import LocalProvider
from fastmcp.tools.base import Tool
from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from agent_utilities.mcp.fastmcp_internals import inner_provider, watch_components
from agent_utilities.mcp.surface.introspecting import is_introspecting
from agent_utilities.mcp.surface.surface import Surface

logger = logging.getLogger("agent_utilities.changes")

_EVENTS: dict[str, Callable[[], ServerEvent]] = {
    "tools": ToolsListChanged,
    "prompts": PromptsListChanged,
    "resources": ResourcesListChanged,
}
ALL = frozenset(_EVENTS)


class _BoundedBus(InMemorySubscriptionBus):
    """Delivers a resource's updates only to streams whose caller may read it (law L1)."""

    def __init__(self, surface: Surface) -> None:
        super().__init__()
        self._surface = surface

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        with self._surface.under_verdict() as verdict:

            def bounded(event: ServerEvent) -> None:
                if not isinstance(event, ResourceUpdated) or self._surface.permits_uri(event.uri, verdict):
                    listener(event)

            return super().subscribe(bounded)


class Changes:
    """Collects changes from any thread and sends `list_changed` from the server's own task.

    Changes that come together are sent as one notice a list. Before the server runs nobody listens, and nothing
    is kept.

    Args:
        surface: the surface whose verdict holds on what a stream is told.
        on_tools: called when tools changed, before clients are told.
    """

    def __init__(self, surface: Surface, on_tools: Callable[[], None]) -> None:
        self.on_tools = on_tools
        self.connections: WeakSet[Connection] = WeakSet()
        self.bus = _BoundedBus(surface)
        self.listen = ListenHandler(self.bus)
        self._pending: set[str] = set()
        self._has_new_tools = False
        self._wake: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def pending(self) -> frozenset[str]:
        """The lists whose changes wait to be told."""
        return frozenset(self._pending)

    def note(self, lists: Iterable[str] = ALL) -> None:
        """Note that lists (`tools`, `prompts`, `resources`) changed; safe to call from any thread.

        A provider that registers its components anew with each listing tells of that too. What a listing for graph and
        ranker brought about is told to clients, and starts no other such listing.
        """
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._note, frozenset(lists), not is_introspecting())

    def _note(self, lists: frozenset[str], is_news: bool = True) -> None:
        self._pending |= lists
        self._has_new_tools |= is_news and "tools" in lists
        if self._wake is not None:
            self._wake.set()

    async def run(self) -> None:
        """Send notices until cancelled; one task of the server's lifespan."""
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                lists, self._pending = sorted(self._pending), set()
                if self._has_new_tools:
                    self._has_new_tools = False
                    self.on_tools()
                for name in lists:
                    await self.bus.publish(_EVENTS[name]())
                    for connection in list(self.connections):
                        await connection.notify(f"notifications/{name}/list_changed", None)
        finally:
            self._loop = self._wake = None
            self.listen.close()

    def watch(self, provider: Provider) -> None:
        """Note every component that is added to or removed from a provider, or a server mounted through it."""
        match provider:
            case LocalProvider():
                watch_components(provider, lambda component: self.note({_list_of(component)}))
            case FastMCPProvider():
                self.watch(provider.server)
            case AggregateProvider():
                for inner in provider.providers:
                    self.watch(inner)
            case _:
                if (wrapped := inner_provider(provider)) is not None:
                    self.watch(wrapped)


def _list_of(component: object) -> str:
    if isinstance(component, Tool):
        return "tools"
    return "prompts" if isinstance(component, Prompt) else "resources"
