"""Where a tool comes from, what it costs in a prompt, and providers that say themselves when their lists changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache
from fastmcp import FastMCP
from fastmcp.server.providers import Provider
from fastmcp.tools.base import Tool

from agent_utilities.catalog.document import ToolServer
from agent_utilities.catalog.model import Catalog
from agent_utilities.compat.fastmcp_server import mounted_server
from agent_utilities.server.surface.components import as_models_read

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer

_GENERATED_NAME = re.compile(r"(\w+?)-(?:(.+)-)?[0-9a-f]{4}")


@dataclass(frozen=True, slots=True)
class ToolOrigin:
    """Where a tool comes from.

    Args:
        server: the server that has it.
        own_name: what that server calls it; empty where callers see it under the same name.
        is_upstream: whether that server is behind a gateway, and so has a node of its own in the graph.
    """

    server: ToolServer
    own_name: str = ""
    is_upstream: bool = False


class ForeignTool(Tool):
    """A tool that another server has, and that tells which.

    A class and no protocol: to look whether a tool keeps to one takes 30 µs, and there may be 10,000.
    """

    @property
    def origin(self) -> ToolOrigin:
        """Where it comes from."""
        raise NotImplementedError

    @property
    def stamp(self) -> object | None:
        """What is another object once its definition may be another; None where nothing tells."""
        return None


def origin_of(tool: Tool, server: FastMCP[Any]) -> ToolOrigin:
    """Return where a tool comes from."""
    if isinstance(tool, ForeignTool):
        return tool.origin
    return ToolOrigin(ToolServer(given_name(mounted_server(tool) or server)))


def given_name(server: FastMCP[Any]) -> str:
    """Return the name that a server was given, without what FastMCP draws at random for one that has none.

    Rankings would differ from process to process by it.
    """
    generated = _GENERATED_NAME.fullmatch(server.name)
    if generated and generated[1] in {kind.__name__ for kind in type(server).__mro__}:
        return generated[2] or ""
    return server.name


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What is told of a tool beside its name.

    Args:
        server: the server behind that it is of; empty for the server's own.
        version: empty for none.
        tokens: about what it takes in a prompt, on every turn.
    """

    server: str = ""
    version: str = ""
    tokens: int = 0


_N_KEPT = 120_000
"""The most definitions: a server that has more of them has each worked out again in every list that is weighed."""


class KnownTools:
    """What is told of the tools of a server, worked out once for each definition."""

    def __init__(self, host: AgentServer) -> None:
        self._host = host
        self._kept: LRUCache[bytes, ToolFacts] = LRUCache(_N_KEPT)

    def of(self, catalog: Catalog, place: int) -> ToolFacts:
        """Return what is told of the tool at a place; nothing where its catalog was read too long ago."""
        stamp = catalog.entries[place].stamp
        facts, components = self._kept.get(stamp), self._host.surface.components_of("tool", catalog)
        if not components:
            return facts or ToolFacts()
        tool = components[place]
        server = self._host.origin_of(tool).server.name  # another by now, where a configuration has it elsewhere
        if facts is None or facts.server != server:
            from agent_utilities.catalog.context import n_tokens  # where calls are counted, or somebody looks

            facts = self._kept[stamp] = ToolFacts(server, str(tool.version or ""), n_tokens(as_models_read(tool)))
        return facts

    def named(self, catalog: Catalog, name: str) -> ToolFacts:
        """Return what is told of the tool of a name; nothing where there is none."""
        places = catalog.places_by_own_name.get(name, ())
        return self.of(catalog, places[-1]) if places else ToolFacts()


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
