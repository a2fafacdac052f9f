"""What components of every kind are made and told with: as far as it goes, what an upstream says of them in `_meta`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from agent_utilities.mcp.upstreams.calls import Caller
from agent_utilities.mcp.wire.groups import GROUPS_KEY
from agent_utilities.selection.model import fold

_OF_FASTMCP = "fastmcp"


def common(
    caller: Caller, meta: Mapping[str, Any] | None, more_tags: Iterable[str] = (), tool: str | None = None
) -> dict[str, Any]:
    """Return what components of every kind are made with.

    FastMCP acts on what stands under its own key in a component's `meta` (whether it is enabled, which app may call
    it): that is this server's to say. What the upstream says there is listed, and nothing else is done with it.

    A tag is a toolset, and bounds go by it: no upstream can put its components among another one's, nor among those
    that the operator's configuration gives a tag.

    Args:
        caller: calls the upstream.
        meta: the `_meta` that the component is listed with.
        more_tags: tags that the operator gives it.
        tool: a tool's name there; None for a component of another kind.
    """
    told = _fastmcp_meta(meta)
    version = told.get("version")
    own_tags = told.get("tags")
    tags = {tag for tag in own_tags if isinstance(tag, str)} if isinstance(own_tags, list) else set()
    kept = {key: value for key, value in (meta or {}).items() if key != _OF_FASTMCP}
    if isinstance(groups := kept.get(GROUPS_KEY), list):
        kept[GROUPS_KEY] = [each for each in groups if fold(str(each)) not in caller.operators_tags]
    return {
        "meta": kept or None,
        "tags": {
            caller.config.name,
            *caller.config.tags,
            *more_tags,
            *(tag for tag in tags if fold(tag) not in caller.operators_tags),
        },
        "version": version if isinstance(version, str) and "@" not in version else None,
        "capabilities": _brought_by(caller.config.capabilities, tool),
    }


def _brought_by(capabilities: Mapping[str, tuple[str, ...]], tool: str | None) -> frozenset[str] | None:
    """Return which capabilities bring a component along: those that want the tool, or all that have the server."""
    if not capabilities:
        return None
    if tool is None:
        return frozenset(capabilities)
    return frozenset(name for name, globs in capabilities.items() if any(fnmatchcase(tool, glob) for glob in globs))


def told_of(component: Any, listed: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a transform or the operator may have changed of any component."""
    return {
        "title": component.title,
        "description": component.description,
        "icons": component.icons,
        "meta": _listed_meta(component, listed),
    }


def _listed_meta(component: Any, listed: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the `_meta` that a component is listed with: the upstream's, its tags beside it."""
    meta = {key: value for key, value in (component.meta or {}).items() if key != _OF_FASTMCP}
    return {**meta, _OF_FASTMCP: {**_fastmcp_meta(listed), "tags": sorted(component.tags)}}


def _fastmcp_meta(meta: Mapping[str, Any] | None) -> Mapping[str, Any]:
    told = (meta or {}).get(_OF_FASTMCP)
    return told if isinstance(told, Mapping) else {}
