"""The one table of selection fields: env, CLI, query and header readers, `--help`, docs and tests are made from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from agent_utilities.selection.model import CHANNELS, Channel, FieldName
from agent_utilities.selection.nearest import nearest

ValueKind = Literal["names", "tags", "flag", "text", "count"]
"""How a value is read: comma-separated names or tags, a boolean, free text, a positive integer."""

META_KEY = "agent-utilities/selection"
"""The key of `_meta`: in a request the caller's selection, in a list's result what was decided."""

_NEAR = 85
_LONGEST_KEY = 40


@dataclass(frozen=True)
class Field:
    """One row of the table.

    Args:
        name: the field's name in `Selection`.
        kind: how its values are read.
        env, cli, query, header: every spelling by channel, the preferred one first. A request's `_meta` uses those
            of the URL query.
        help: one sentence for `--help` and the docs.
    """

    name: FieldName
    kind: ValueKind
    env: tuple[str, ...]
    cli: tuple[str, ...]
    query: tuple[str, ...]
    header: tuple[str, ...]
    help: str

    def spellings(self, channel: Channel) -> tuple[str, ...]:
        """Return the spellings of this field in a channel."""
        match channel:
            case "env":
                return self.env
            case "cli":
                return self.cli
            case "query" | "meta":
                return self.query
            case "header":
                return self.header


FIELDS: tuple[Field, ...] = (
    Field(
        "allow_tools",
        "names",
        env=("MCP_ENABLED_TOOLS", "MCP_ENABLED_COMPONENTS"),
        cli=("--tools", "--toolsets"),
        query=("tools", "toolsets"),
        header=("x-mcp-enabled-tools", "x-mcp-enabled-components", "x-mcp-tools", "x-mcp-toolsets"),
        help="Permit only these tools (a toolset is a tool's name or a tag).",
    ),
    Field(
        "deny_tools",
        "names",
        env=("MCP_DISABLED_TOOLS", "MCP_DISABLED_COMPONENTS"),
        cli=("--disabled-tools", "--disabled-toolsets"),
        query=("disabled_tools", "disabled_toolsets"),
        header=("x-mcp-disabled-tools", "x-mcp-disabled-components", "x-mcp-exclude-tools"),
        help="Deny these tools; no other channel can lift a deny.",
    ),
    Field(
        "allow_tags",
        "tags",
        env=("MCP_ENABLED_TAGS",),
        cli=("--tags",),
        query=("tags",),
        header=("x-mcp-enabled-tags",),
        help="Permit only tools that bear one of these tags.",
    ),
    Field(
        "deny_tags",
        "tags",
        env=("MCP_DISABLED_TAGS",),
        cli=("--disabled-tags",),
        query=("disabled_tags",),
        header=("x-mcp-disabled-tags",),
        help="Deny every tool that bears one of these tags.",
    ),
    Field(
        "read_only",
        "flag",
        env=("MCP_READ_ONLY",),
        cli=("--read-only",),
        query=("read_only",),
        header=("x-mcp-read-only", "x-mcp-readonly"),
        help="Permit only tools annotated readOnlyHint: true.",
    ),
    Field(
        "query",
        "text",
        env=("MCP_QUERY",),
        cli=("--query",),
        query=("q", "query", "search"),
        header=("x-mcp-query", "x-mcp-search"),
        help="Show the permitted tools that fit these words.",
    ),
    Field(
        "top_k",
        "count",
        env=("MCP_TOP_K",),
        cli=("--top-k",),
        query=("top_k",),
        header=("x-mcp-top-k",),
        help="Show at most this many tools.",
    ),
)


def spellings(channel: Channel) -> Iterator[tuple[str, Field]]:
    """Yield every spelling of a channel with its field, in table order."""
    for field in FIELDS:
        for spelling in field.spellings(channel):
            yield spelling, field


def normal_key(key: str, channel: Channel) -> str:
    """Return a key as the table spells it: query and `_meta` keys ignore case and take `-` for `_`, headers case."""
    if channel in ("query", "meta"):
        return key.lower().replace("-", "_")
    return key.lower() if channel == "header" else key


_BY_SPELLING: dict[Channel, dict[str, Field]] = {channel: dict(spellings(channel)) for channel in CHANNELS}


def field_of(key: str, channel: Channel) -> Field | None:
    """Return the field that a key spells in a channel, or None."""
    return _BY_SPELLING[channel].get(normal_key(key, channel))


@lru_cache(maxsize=1024)
def near_miss(key: str, channel: Channel) -> str | None:
    """Return the spelling that an unknown key probably meant, or None.

    A misspelt bound that is ignored leaves everything exposed, so readers refuse a near miss (law L5).
    """
    if len(key) > _LONGEST_KEY:
        return None
    return nearest(normal_key(key, channel), _BY_SPELLING[channel], _NEAR)
