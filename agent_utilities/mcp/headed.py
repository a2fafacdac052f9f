"""The schema that the SDK checks a call's `Mcp-Param-*` headers against, without listing every tool for each call."""

from __future__ import annotations

import json
from typing import Any

from fastmcp.server.http import _current_http_request
from fastmcp.utilities.versions import parse_version_key

from agent_utilities.errors import SelectionError
from agent_utilities.mcp.request import selection_of
from agent_utilities.mcp.surface import Surface

_PARAMETERS = 5
"""Where the traits of a tool, as components.py keeps them in an entry's content, hold its input schema."""


def headed_schema(surface: Surface, name: str) -> dict[str, Any] | None:
    """Return a tool's input schema where its headers are to be checked and the caller may call it, else None.

    Only a tool that asks for headers needs the check, so the others cost nothing. One that the caller may not call,
    or that has an `auth` check of its own, is passed over: the call itself then answers, as for an unknown name.

    Args:
        surface: the surface of the server that is called.
        name: the tool's name.
    """
    catalog = surface.catalogs.get("tool")
    entries = [each for each in catalog.headed if each.name == name] if catalog is not None else []
    if not entries:
        return None
    try:
        _, bounds = surface.holds(selection_of(_current_http_request.get()))
    except SelectionError:
        return None
    kept = [each for each in entries if not each.is_guarded and bounds.refusal(each) is None]
    if not kept:
        return None
    best = max(kept, key=lambda each: parse_version_key(each.version))
    schema: dict[str, Any] = json.loads(best.content)[_PARAMETERS]
    return schema
