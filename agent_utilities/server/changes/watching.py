"""Watches a tree of providers for the changes that FastMCP sends no notice of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial, wraps
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from fastmcp import FastMCP
from fastmcp.server.providers import Provider
from fastmcp.server.providers.aggregate import AggregateProvider
from fastmcp.server.providers.local_provider import LocalProvider
from fastmcp.tools.base import Tool
from fastmcp.utilities.versions import VersionSpec

from agent_utilities.compat.fastmcp_server import parts_of
from agent_utilities.seam.components import KeptProvider

_LISTS = {"tool": "tools", "prompt": "prompts", "resource": "resources", "template": "resources"}
"""The methods of a `LocalProvider` that add and remove components, with the list that each changes."""


class Watch:
    """Reports changes in providers, and in the servers mounted through them, at any depth.

    Args:
        on_change: called with the lists that changed; without any when a provider or a transform is added, or
            components are enabled or disabled.
    """

    def __init__(self, on_change: Callable[..., None]) -> None:
        self._on_change = on_change
        self._watched: WeakSet[Provider] = WeakSet()
        self._generations: WeakKeyDictionary[Provider, int] = WeakKeyDictionary()
        self._numbers = count()
        """Returns a new number at each call, from any thread, so that no two changes look like none."""
        self.is_in_process = True
        """Whether every component is in this process, so that a listing calls no other server."""

    def watch(self, provider: Provider) -> None:
        """Watch a provider and all below it; a provider that is watched already is skipped."""
        if provider in self._watched:
            return
        self._watched.add(provider)
        for method in ("add_transform", "enable", "disable"):
            _after(provider, method, self._on_change)
        # FastMCP's own for a server tells of all by these methods; a subclass of somebody's may reload when listed.
        if isinstance(provider, FastMCP) or type(provider) is LocalProvider:
            own = provider.local_provider if isinstance(provider, FastMCP) else provider
            self._generations[own] = next(self._numbers)
        parts = self._watch_parts(provider)
        match provider:
            case LocalProvider():
                self._watch_local(provider)
            case KeptProvider():
                provider.on_change(self._on_change)
            case AggregateProvider():
                _after(provider, "add_provider", lambda: self._watch_parts(provider))
                _after(provider, "add_provider", self._on_change)
            case _ if not parts:
                self.is_in_process = False

    def generation(self, provider: Provider) -> Hashable | None:
        """Return a key that changes with what a provider lists to the present caller, or None where there is none.

        A server mounted or wrapped gives copies of what may change within it, and transforms may change of themselves.
        """
        if provider.transforms:
            return None
        return provider.generation_for_caller if isinstance(provider, KeptProvider) else self._generations.get(provider)

    def _watch_local(self, provider: LocalProvider) -> None:
        for kind, lists in _LISTS.items():
            for method in (f"add_{kind}", f"remove_{kind}"):
                _after(provider, method, partial(self._changed, provider, lists))
        if provider in self._generations:
            _ByName(provider, lambda: self._generations[provider])

    def _changed(self, provider: Provider, lists: str) -> None:
        if provider in self._generations:
            self._generations[provider] = next(self._numbers)
        self._on_change([lists])

    def _watch_parts(self, provider: Provider) -> Sequence[Provider]:
        parts = parts_of(provider)
        for part in parts:
            self.watch(part)
        return parts


class _ByName:
    """Indexes a local provider's tools by name, in place of its `get_tool`.

    FastMCP looks through all components for one name, a third of a millisecond for each thousand at every call.
    """

    def __init__(self, provider: LocalProvider, generation: Callable[[], int]) -> None:
        self._list, self._get = provider.list_tools, provider.get_tool
        self._provider, self._generation = provider, generation
        self._read: int | None = None
        self._tools: dict[str, list[Tool]] = {}
        provider.get_tool = self.get  # type: ignore[method-assign]

    async def get(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        """Return the tool of a name; where there are several versions, or transforms, FastMCP resolves it."""
        if self._provider.transforms:
            return await self._get(name, version)
        if self._read != (current := self._generation()):
            by_name: dict[str, list[Tool]] = {}
            for tool in await self._list():
                by_name.setdefault(tool.name, []).append(tool)
            self._tools, self._read = by_name, current  # in this order: another thread may look a name up
        tools = self._tools.get(name, [])
        return await self._get(name, version) if len(tools) > 1 or (tools and version) else next(iter(tools), None)


def _after(provider: Provider, name: str, on_change: Callable[[], object]) -> None:
    """Replace a provider's method by one that calls `on_change` when it is done."""
    method = getattr(provider, name)

    @wraps(method)
    def telling(*arguments: Any, **options: Any) -> Any:
        result = method(*arguments, **options)
        on_change()
        return result

    setattr(provider, name, telling)


class KeptTools:
    """Caches the tools that a server's providers list, for as long as no provider reports a change."""

    def __init__(self, server: FastMCP[Any], watch: Watch, is_transformed: Callable[[], bool]) -> None:
        self._server, self._watch, self._is_transformed = server, watch, is_transformed
        self._kept: tuple[list[tuple[Provider, Hashable | None]], Sequence[Tool]] | None = None

    async def tools(self, list_them: Callable[[], Awaitable[Sequence[Tool]]]) -> Sequence[Tool]:
        """Return the providers' tools, cached where nothing has changed.

        They are a tuple, so that readers can recognise it by its identity; an author's transforms, which may expect a
        list, get one.
        """
        generations = [(provider, self._watch.generation(provider)) for provider in self._server.providers]
        if self._kept is None or self._kept[0] != generations:
            tools = tuple(await list_them())
            self._kept = (generations, tools) if all(number is not None for _, number in generations) else None
        else:
            tools = tuple(self._kept[1])
        return list(tools) if self._is_transformed() else tools
