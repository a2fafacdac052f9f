"""The toolsets of each listed tool, where clients that group tools look for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

GROUPS_KEY = "io.modelcontextprotocol/groups"
"""The key of a tool's `_meta` that holds the names of its groups, a list.

Source: SEP-2084 (closed, not part of the protocol); its TypeScript and Python implementations read this key.
"""


def add_groups(tools: Iterable[dict[str, Any]]) -> None:
    """Give each tool of a list's result its tags as groups, beside those that it brings: each is a toolset."""
    for tool in tools:
        meta = tool.get("_meta")
        if not isinstance(meta, dict) or not isinstance(told := meta.get("fastmcp"), dict) or not told.get("tags"):
            continue
        own = meta.get(GROUPS_KEY)
        meta[GROUPS_KEY] = list(dict.fromkeys([*own, *told["tags"]])) if isinstance(own, list) else told["tags"]
