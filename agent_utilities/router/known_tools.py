"""The tools that a router chooses from: their definitions, as policy and rankers read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agent_utilities.catalog.document import ToolDocument, document
from agent_utilities.catalog.model import Entry, entry
from agent_utilities.errors import InputError
from agent_utilities.selection.model import fold

Definition = Mapping[str, Any]
"""A tool as `tools/list` sends it."""


@dataclass(frozen=True, eq=False)
class KnownTools:
    """The tools of a router, in the order they were given.

    Args:
        definitions: by name.
        server: the server that they come from; empty where it is not known.
    """

    definitions: Mapping[str, Definition]
    server: str = ""

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The tools as pins and servers are matched with them."""
        return tuple(entry("tool", name, tags=_tags(definition)) for name, definition in self.definitions.items())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.definitions)

    @cached_property
    def servers(self) -> tuple[str, ...]:
        """The server of each tool, in the tools' order.

        A gateway's upstreams are tags, and its tools' names begin with them: where every tool's does, that is its
        server. Else all are from the one that lists them.
        """
        prefixes = tuple(map(_prefix, self.entries))
        return prefixes if all(prefixes) else (self.server,) * len(prefixes)

    @cached_property
    def documents(self) -> tuple[ToolDocument, ...]:
        """The tools as a ranker reads them."""
        return tuple(
            document(definition, server)
            for definition, server in zip(self.definitions.values(), self.servers, strict=True)
        )

    def of_server(self, server: str) -> tuple[int, ...]:
        """Return the places of the tools of a server, or of those that bear a tag of that name."""
        wanted = fold(server)
        if wanted == fold(self.server):
            return tuple(range(len(self.names)))
        return tuple(place for place, each in enumerate(self.entries) if wanted in each.tags)

    def copies(self, names: Iterable[str]) -> list[dict[str, Any]]:
        """Return definitions that a host may change without changing these."""
        return [_copied(self.definitions[name]) for name in names]


def known_tools(tools: Iterable[Any], server: str = "") -> KnownTools:
    """Return the tools given, each name once.

    Args:
        tools: `Tool` objects of the MCP SDK or of FastMCP, or mappings with name, description and inputSchema.
        server: the server that they come from.

    Raises:
        InputError: one of them is no tool.
    """
    definitions: dict[str, Definition] = {}
    for tool in tools:
        definition = _definition(tool)
        definitions.setdefault(definition["name"], definition)
    return KnownTools(definitions, server)


def _definition(tool: Any) -> Definition:
    if hasattr(tool, "to_mcp_tool"):
        tool = tool.to_mcp_tool()
    if hasattr(tool, "model_dump"):
        tool = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    elif isinstance(tool, Mapping):
        # Whoever gave it may go on changing it.
        tool = _copied(tool)
    name = tool.get("name") if isinstance(tool, dict) else None
    if not isinstance(name, str) or not name:
        hint = "give Tool objects, or mappings with name, description and inputSchema"
        raise InputError("not a tool with a name", tool, "ToolRouter: tools", hint)
    if not isinstance(tool.get("inputSchema"), Mapping):
        tool["inputSchema"] = {"type": "object", "properties": {}}
    definition: Definition = tool
    return definition


def _copied(value: Any) -> Any:
    """Return JSON with objects and arrays of its own, in a quarter of the time that `deepcopy` takes."""
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, (list, tuple)) else value


def _tags(definition: Definition) -> tuple[str, ...]:
    meta = definition.get("_meta")
    host = meta.get("fastmcp") if isinstance(meta, Mapping) else None
    tags = host.get("tags") if isinstance(host, Mapping) else None
    return tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, (list, tuple)) else ()


def _prefix(tool: Entry) -> str:
    """Return the longest of a tool's tags that its name begins with; empty where it begins with none."""
    name = fold(tool.name)
    return max((tag for tag in tool.tags if name.startswith(f"{tag}_")), key=len, default="")
