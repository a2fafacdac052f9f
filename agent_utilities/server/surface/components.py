"""FastMCP components as catalog entries, and what of a component is compared, judged and digested."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from fastmcp.prompts.base import Prompt
from fastmcp.resources.base import Resource
from fastmcp.resources.template import ResourceTemplate
from fastmcp.server.transforms.visibility import is_enabled
from fastmcp.tools.base import Tool
from mcp_types import ToolAnnotations
from pydantic import BaseModel

from agent_utilities.catalog.document import SEARCH_HINT, split_identifier
from agent_utilities.catalog.model import ComponentKind, Entry, entry

_Server = TypeVar("_Server")
Component = Tool | Prompt | Resource | ResourceTemplate

LISTING: dict[ComponentKind, str] = {
    "tool": "list_tools",
    "prompt": "list_prompts",
    "resource": "list_resources",
    "template": "list_resource_templates",
}
"""The method by which a server, a provider or a transform lists components of a kind."""
_PARTICULARS: dict[ComponentKind, tuple[str, ...]] = {
    "tool": ("annotations", "parameters", "output_schema"),
    "prompt": ("arguments",),
    "resource": ("uri", "mime_type"),
    "template": ("uri_template", "mime_type"),
}
"""What only components of a kind have that a caller sees."""
HEADER_PARAMETER = "x-mcp-header"
"""The schema keyword of an argument that clients repeat in an HTTP header."""


class Bearing(NamedTuple):
    """What a bound judges of a component besides its name."""

    tags: frozenset[str]
    read_only: bool
    destructive: bool
    is_guarded: bool
    denied_by: str | None = None
    capabilities: frozenset[str] | None = None


class Traits(NamedTuple):
    """All that a caller sees of a component and all that is judged, to be compared and digested.

    Args:
        bearing: what bounds judge.
        name, version, title, description: as the component has them.
        particulars: by name, what only components of its kind have.
        is_enabled: whether its author lets it be listed and called, unless a session enables it.
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
        """What tells components of one kind apart."""
        return self.name, self.version

    def content(self) -> str:
        """Return them as text that is the same in every process; what bounds judge is the entry's own."""
        return _ENCODER.encode([self.name, self.version, self.title, self.description, self.particulars])


def entry_of(kind: ComponentKind, component: Any, traits: Traits | None = None) -> Entry:
    """Return the catalog entry of a FastMCP component, read afresh: what it bears now is what is judged.

    Args:
        traits: its traits, where the entry is to be digested; without them its content counts for nothing.
    """
    aliases: tuple[str, ...] = ()
    if kind in ("resource", "template"):
        # A file of a skill goes by the skill's name too; one of FastMCP's own providers tells it so.
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
    """Return the name that a component of a kind goes by in a catalog."""
    match kind:
        case "resource":
            return str(component.uri)
        case "template":
            return str(component.uri_template)
        case _:
            return str(component.name)


def as_models_read(tool: Tool) -> dict[str, Any]:
    """Return a tool as a model is given it, read from itself: nothing is made of it for the wire."""
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "inputSchema": tool.parameters}


def bearing_of(kind: ComponentKind, component: Any) -> Bearing:
    """Return what a bound judges of a component as it is now; reading a prompt or a resource is always read-only."""
    hints = component.annotations if kind == "tool" else None
    is_read_only = kind != "tool" or (hints is not None and hints.read_only_hint is True)
    may_destroy = not is_read_only and (hints is None or hints.destructive_hint is not False)
    denied_by = getattr(component, "denied_by", None)
    capabilities = getattr(component, "capabilities", None)
    tags, is_guarded = frozenset(component.tags), component.auth is not None
    return Bearing(tags, is_read_only, may_destroy, is_guarded, denied_by, capabilities)


def traits_of(kind: ComponentKind, component: Any) -> Traits:
    """Return all of a component that is compared and digested."""
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
"""Made once: to make one takes as long as to write a small component."""

_READS = {"read_only_hint": True, "destructive_hint": False, "idempotent_hint": True}
_HINTS: Mapping[str, Mapping[str, bool]] = {
    **dict.fromkeys(("GET", "HEAD", "OPTIONS", "TRACE"), _READS),
    "PUT": {"idempotent_hint": True},
    "DELETE": {"destructive_hint": True, "idempotent_hint": True},
}
"""By a method, as RFC 9110, 9.2 has it; what nothing is said of may destroy, and so may a `PUT`, which overwrites."""


def with_hints(make: Callable[..., _Server], *given: Any, **options: Any) -> _Server:
    """Return the server that FastMCP's `from_openapi` or `from_fastapi` makes, whose tools say what methods mean."""
    call = inspect.signature(make).bind(*given, **options)
    authors = call.arguments.get("mcp_component_fn")

    def customise(route: Any, component: Any) -> None:
        try:
            if authors is not None:
                authors(route, component)
        finally:
            if isinstance(component, Tool):
                component.annotations = _hinted(component.annotations, str(route.method).upper())
                _describe(route, component)

    call.arguments["mcp_component_fn"] = customise
    return make(*call.args, **call.kwargs)


def _describe(route: Any, tool: Tool) -> None:
    """Give a tool its operation's summary, and the id whose words its name runs together: `pulls/list` is `pullslist`.

    FastMCP leaves out a summary beside a description. What an author wrote in place of either stays.
    """
    summary, description = (route.summary or "").strip(), tool.description or ""
    if summary:
        tool.title = tool.title or (tool.annotations and tool.annotations.title) or summary
        if description == route.description and summary.rstrip(".").casefold() not in description.casefold():
            tool.description = f"{summary}\n\n{description}"
    said = split_identifier((route.operation_id or "").split("__")[0])
    if said and said.casefold() != split_identifier(tool.name).casefold():
        tool.meta = {SEARCH_HINT: said, **(tool.meta or {})}


def _hinted(annotations: Any, method: str) -> ToolAnnotations | None:
    """Return what a tool says of itself; whether it reads or destroys is its author's to say where they say either."""
    said = ToolAnnotations.model_validate(annotations or {})
    hints = _HINTS.get(method, {}) if said.read_only_hint is None and said.destructive_hint is None else {}
    unsaid = {hint: value for hint, value in hints.items() if getattr(said, hint) is None}
    return said.model_copy(update=unsaid) if annotations or unsaid else None
