"""Takes a page of a listing item by item, so that one that is no component loses no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mcp_types
from mcp_types.methods import validate_server_result
from pydantic import ValidationError
from pydantic_core import from_json

_WITHIN = 16
"""How deep a component stands within a snapshot's or a list's JSON, at most."""

Component = mcp_types.Tool | mcp_types.Prompt | mcp_types.Resource | mcp_types.ResourceTemplate


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of component.

    Args:
        name: as a person calls it.
        method: that lists it.
        field: of the result that has the items.
        model: what an item is.
    """

    name: str
    method: str
    field: str
    model: type[Component]


TOOL = Kind("tool", "tools/list", "tools", mcp_types.Tool)
PROMPT = Kind("prompt", "prompts/list", "prompts", mcp_types.Prompt)
RESOURCE = Kind("resource", "resources/list", "resources", mcp_types.Resource)
TEMPLATE = Kind("resource template", "resources/templates/list", "resourceTemplates", mcp_types.ResourceTemplate)
FIELDS: Mapping[str, str] = {kind.method: kind.field for kind in (TOOL, PROMPT, RESOURCE, TEMPLATE)}
"""By method, the field of its result that has the items."""


@dataclass(frozen=True, slots=True)
class Item:
    """A component of a page.

    Args:
        key: what no other of its kind is called.
        component: as it was listed.
        n_bytes: its length as JSON.
    """

    key: str
    component: Component
    n_bytes: int


def parsed(kind: Kind, raw: Mapping[str, Any], version: str) -> tuple[list[Item], list[str]]:
    """Return the components of a page, and a line for each of its items that is none. It may take long: use a thread.

    Args:
        kind: what the page lists.
        raw: the result as it came.
        version: the protocol version that was negotiated.
    """
    items: list[Item] = []
    problems: list[str] = []
    for item in raw[kind.field]:
        try:
            validate_server_result(kind.method, version, {**raw, kind.field: [item]})
            component = kind.model.model_validate(item, by_name=False)
            written = component.model_dump_json(by_alias=True, exclude_none=True).encode()
            from_json(_WITHIN * b"[" + written + _WITHIN * b"]")
        except (ValueError, RecursionError) as error:  # a schema may be nested deeper than can be written, or read
            problems.append(_why_not(kind, item, error))
        else:
            items.append(Item(_key(component), component, len(written)))
    return items, problems


def _key(component: Component) -> str:
    if isinstance(component, mcp_types.Resource):
        return str(component.uri)
    if isinstance(component, mcp_types.ResourceTemplate):
        return component.uri_template
    return component.name


def _why_not(kind: Kind, item: object, error: Exception) -> str:
    name = item.get("name") if isinstance(item, dict) else None
    if not isinstance(error, ValidationError):
        return f"{kind.name} {name!r} is left out: {error}"[:300]
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"] if not isinstance(part, int) and part != kind.field)
    return f"{kind.name} {name!r} is left out: {where}{': ' if where else ''}{first['msg']}"[:300]
