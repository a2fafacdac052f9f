"""Conversion of FastMCP components to catalog entries, and the traits by which components are judged and compared."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fastmcp import FastMCP
from fastmcp.prompts.base import Prompt
from fastmcp.resources.base import Resource
from fastmcp.resources.template import ResourceTemplate
from fastmcp.server.providers import Provider
from fastmcp.server.transforms.visibility import is_enabled
from fastmcp.tools.base import Tool
from pydantic import BaseModel

from agent_utilities.catalog.document import ToolServer
from agent_utilities.catalog.model import ComponentKind, Entry, entry
from agent_utilities.compat.fastmcp_server import mounted_server
from agent_utilities.seam.host import Host

Component = Tool | Prompt | Resource | ResourceTemplate

LISTING: dict[ComponentKind, str] = {
    "tool": "list_tools",
    "prompt": "list_prompts",
    "resource": "list_resources",
    "template": "list_resource_templates",
}
"""The method of a server, a provider or a transform that lists components of a kind."""
_PARTICULARS: dict[ComponentKind, tuple[str, ...]] = {
    "tool": ("annotations", "parameters", "output_schema"),
    "prompt": ("arguments",),
    "resource": ("uri", "mime_type"),
    "template": ("uri_template", "mime_type"),
}
"""The attributes that callers see on components of one kind alone."""
HEADER_PARAMETER = "x-mcp-header"
"""The schema keyword of an argument that clients repeat in an HTTP header."""


class Bearing(NamedTuple):
    """The properties of a component that bounds judge, besides its name."""

    tags: frozenset[str]
    read_only: bool
    destructive: bool
    is_guarded: bool
    denied_by: str | None = None
    capabilities: frozenset[str] | None = None


class Traits(NamedTuple):
    """The properties of a component that callers see or bounds judge, for comparison and digests.

    Args:
        bearing: the properties that bounds judge.
        name, version, title, description: as the component has them.
        particulars: the attributes of its kind alone, by name.
        is_enabled: whether its author left it enabled; a session may enable it nevertheless.
    """

    bearing: Bearing
    name: str
    version: str | None
    title: str | None
    description: str | None
    particulars: Mapping[str, Any]
    is_enabled: bool = True

    @property
    def key(self) -> tuple[str, str | None]:
        """The identity of the component among those of its kind."""
        return self.name, self.version

    def content(self) -> str:
        """Return the traits as text that is the same in every process, without those that the entry has itself."""
        return _ENCODER.encode([self.name, self.version, self.title, self.description, self.particulars])


def entry_of(kind: ComponentKind, component: Any, traits: Traits | None = None) -> Entry:
    """Return the catalog entry of a FastMCP component; the properties that bounds judge are read anew each time.

    Args:
        traits: the component's traits, which the entry's digest covers; without them its content is left out.
    """
    aliases: tuple[str, ...] = ()
    if kind in ("resource", "template"):
        # A file of a skill goes by the skill's name too, which FastMCP's own providers keep in these attributes.
        manifest, path = getattr(component, "manifest", None), getattr(component, "skill_path", "")
        own = manifest.frontmatter.name if manifest is not None else path.rpartition("/")[2]
        aliases = (getattr(component, "alias", component.name), *getattr(component, "skills", (own,) * bool(own)))
    header_schema = None
    if kind == "tool" and traits is not None and _asks_for_headers(component.parameters):
        header_schema = component.parameters
    return entry(
        kind,
        name_of(kind, component),
        **bearing_of(kind, component)._asdict(),
        aliases=aliases,
        content=traits.content() if traits is not None else "",
        version=component.version,
        header_schema=header_schema,
    )


def name_of(kind: ComponentKind, component: Any) -> str:
    """Return the name of a component in a catalog."""
    match kind:
        case "resource":
            return str(component.uri)
        case "template":
            return str(component.uri_template)
        case _:
            return str(component.name)


def as_models_read(tool: Tool) -> dict[str, Any]:
    """Return a tool's definition as models read it, without building FastMCP's object for the wire."""
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "inputSchema": tool.parameters}


def bearing_of(kind: ComponentKind, component: Any) -> Bearing:
    """Return the properties of a component that bounds judge, as they are now; prompts and resources are read-only."""
    hints = component.annotations if kind == "tool" else None
    is_read_only = kind != "tool" or (hints is not None and hints.read_only_hint is True)
    may_destroy = not is_read_only and (hints is None or hints.destructive_hint is not False)
    denied_by = getattr(component, "denied_by", None)
    capabilities = getattr(component, "capabilities", None)
    tags, is_guarded = frozenset(component.tags), component.auth is not None
    return Bearing(tags, is_read_only, may_destroy, is_guarded, denied_by, capabilities)


def traits_of(kind: ComponentKind, component: Any) -> Traits:
    """Return the properties of a component that are compared and digested."""
    return Traits(
        bearing_of(kind, component),
        component.name,
        component.version,
        component.title,
        component.description,
        {name: getattr(component, name) for name in _PARTICULARS[kind]},
        is_enabled(component),
    )


def _asks_for_headers(schema: Any) -> bool:
    if isinstance(schema, Mapping):
        return HEADER_PARAMETER in schema or any(map(_asks_for_headers, schema.values()))
    return isinstance(schema, list) and any(map(_asks_for_headers, schema))


def _plain(value: Any) -> Any:
    return value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else str(value)


_ENCODER = json.JSONEncoder(sort_keys=True, check_circular=False, default=_plain)
"""Shared, since making one takes as long as encoding a small component."""


_GENERATED_NAME = re.compile(r"(\w+?)-(?:(.+)-)?[0-9a-f]{4}")


@dataclass(frozen=True, slots=True)
class ToolOrigin:
    """The server that a tool comes from, and its name there.

    Args:
        server: the server that has the tool.
        own_name: the tool's name there; empty where callers see it under the same name.
        is_upstream: whether that server is behind a gateway, and so has a node of its own in the graph.
    """

    server: ToolServer
    own_name: str = ""
    is_upstream: bool = False


class ForeignTool(Tool):
    """A tool of another server, with its origin.

    A class rather than a protocol: `isinstance` takes 30 µs for a protocol, and there may be 10,000 tools.
    """

    @property
    def origin(self) -> ToolOrigin:
        """The tool's server, and its name there."""
        raise NotImplementedError

    @property
    def stamp(self) -> object | None:
        """An object that is replaced once the tool's definition may have changed; None where that is unknown."""
        return None


def origin_of(tool: Tool, host: Host) -> ToolOrigin:
    """Return the origin of a tool; for the host's own tools the server has no name."""
    if isinstance(tool, ForeignTool):
        origin = tool.origin
    else:
        mounted = mounted_server(tool)
        origin = ToolOrigin(ToolServer("" if mounted is None else given_name(mounted)))
    return origin if origin.is_upstream or origin.server.name != host.name else ToolOrigin(ToolServer())


def given_name(server: Host | FastMCP[Any]) -> str:
    """Return the name that an author chose for a server, without the random part of FastMCP's generated names.

    With the random part, rankings would differ between processes.
    """
    generated = _GENERATED_NAME.fullmatch(server.name)
    if generated and generated[1] in {kind.__name__ for kind in type(server).__mro__}:
        return generated[2] or ""
    return server.name


Listener = Callable[[Iterable[str]], None]
"""Called with the lists that changed: `tools`, `prompts`, `resources`."""


class KeptProvider(Provider):
    """A provider whose lists stay the same until it notifies of a change, so that a server caches them.

    Listing sends no request and waits for nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.generation = 0
        """A number that grows with every change of the lists."""
        self._listeners: list[Listener] = []

    @property
    def generation_for_caller(self) -> Hashable:
        """A key that changes with what the present caller is listed; by default it is the same for all callers."""
        return self.generation

    def on_change(self, listener: Listener) -> None:
        """Call a listener after each change, on the thread that the change comes from."""
        self._listeners.append(listener)

    def notify_changed(self, lists: Iterable[str]) -> None:
        """Notify listeners that lists (`tools`, `prompts`, `resources`) changed."""
        self.generation += 1
        changed = frozenset(lists)
        for listener in self._listeners:
            listener(changed)
