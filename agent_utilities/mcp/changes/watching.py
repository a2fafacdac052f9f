"""Watching a tree of providers for every change that FastMCP tells nobody of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any
from weakref import WeakSet

from fastmcp.server.providers import Provider
from fastmcp.server.providers.aggregate import AggregateProvider
from fastmcp.server.providers.local_provider import LocalProvider

from agent_utilities.mcp.fastmcp_internals import parts_of, watch_components
from agent_utilities.mcp.kept_provider import KeptProvider


class Watch:
    """Tells of changes in providers, and in the servers mounted through them, at any depth.

    Args:
        on_component: called with each component that is added or removed.
        on_change: called with the lists that a `KeptProvider` says have changed; without any when a provider or a
            transform is added, or components are enabled or disabled.
    """

    def __init__(self, on_component: Callable[[object], None], on_change: Callable[..., None]) -> None:
        self._on_component, self._on_change = on_component, on_change
        self._watched: WeakSet[Provider] = WeakSet()
        self.is_in_process = True
        """Whether every component is in this process: to list them asks nobody else."""

    def watch(self, provider: Provider) -> None:
        """Watch a provider and all below it; one that is watched already is left alone."""
        if provider in self._watched:
            return
        self._watched.add(provider)
        for method in ("add_transform", "enable", "disable"):
            _after(provider, method, self._on_change)
        parts = self._watch_parts(provider)
        match provider:
            case LocalProvider():
                watch_components(provider, self._on_component)
            case KeptProvider():
                provider.on_change(self._on_change)
            case AggregateProvider():
                _after(provider, "add_provider", lambda: self._watch_parts(provider))
                _after(provider, "add_provider", self._on_change)
            case _ if not parts:
                self.is_in_process = False

    def _watch_parts(self, provider: Provider) -> Sequence[Provider]:
        parts = parts_of(provider)
        for part in parts:
            self.watch(part)
        return parts


def _after(provider: Provider, name: str, on_change: Callable[[], object]) -> None:
    """Have a provider's method tell when it is done, by replacing it."""
    method = getattr(provider, name)

    @wraps(method)
    def telling(*arguments: Any, **options: Any) -> Any:
        result = method(*arguments, **options)
        on_change()
        return result

    setattr(provider, name, telling)
