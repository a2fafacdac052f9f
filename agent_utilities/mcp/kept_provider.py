"""Providers that say themselves when what they list has changed, so that nobody has to list them to find out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from fastmcp.server.providers import Provider

Listener = Callable[[Iterable[str]], None]
"""Called with the lists that changed: `tools`, `prompts`, `resources`."""


class KeptProvider(Provider):
    """A provider that lists the same until it tells of a change: a server keeps its lists, and tells its clients.

    To list it asks nobody and waits for nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.generation = 0
        """A number that grows with every change of what is listed."""
        self._listeners: list[Listener] = []

    @property
    def generation_for_caller(self) -> Hashable:
        """What tells what the present caller is listed from all else that it lists: the same for all by default."""
        return self.generation

    def on_change(self, listener: Listener) -> None:
        """Have a listener called after each change; from whichever thread the change comes."""
        self._listeners.append(listener)

    def notify_changed(self, lists: Iterable[str]) -> None:
        """Tell that lists (`tools`, `prompts`, `resources`) changed."""
        self.generation += 1
        changed = frozenset(lists)
        for listener in self._listeners:
            listener(changed)
