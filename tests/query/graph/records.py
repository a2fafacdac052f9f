"""Tool records to put on a graph, what a graph holds, and generated ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from agent_utilities.catalog.document import ToolServer
from agent_utilities.query.graph.base import ToolGraph, ToolRecord, record_of
from agent_utilities.query.graph.matching import match, names_of
from agent_utilities.query.graph.sync import server_state

_HELD = """
MATCH (s:Server {name: $server_name})-[:PROVIDES]->(t:CallableResource)
RETURN t.key AS key, t.name AS name, t.title AS title, t.description AS description, t.tags AS tags,
       t.digest AS digest, t.kind AS kind, t.read_only AS read_only, t.text AS text
"""

LETTERS = "abAB01 _-./'\"\\`%*?[](){}^$+~!:&|<>=#;,éÉßøñ日本\u202e\u200f\u0301\t\n"
texts = st.text(alphabet=LETTERS, max_size=12)
words = st.text(alphabet="abcABC", min_size=1, max_size=3)

MATCH = """
WITH toLower($query) AS q
MATCH (s:Server)-[:PROVIDES]->(t:CallableResource)
WHERE (s.name = $server_name OR s.gateway = $server_name)
  AND (toLower(t.name) CONTAINS q OR toLower(t.description) CONTAINS q
       OR any(tag IN t.tags WHERE toLower(tag) CONTAINS q))
RETURN t.name AS name, t.tags AS tags
"""
"""What a match means: the statement that others must equal. It is too slow to be asked of 10,000 tools.

The `WITH` is there because the embedded engine takes no parameter inside a list predicate.
"""


def examples(share: int) -> settings:
    """Return settings for one in `share` of the examples of the profile in force."""
    profile = settings.get_profile(settings.get_current_profile_name())
    return settings(max_examples=max(20, profile.max_examples // share))


def tool_record(
    name: str,
    title: str | None,
    description: str | None,
    tags: Sequence[str],
    read_only: bool,
    upstream: ToolServer | None = None,
) -> ToolRecord:
    """Return a record of a tool, read as from a list."""
    definition = {"name": name, "title": title, "description": description, "annotations": {"readOnlyHint": read_only}}
    return record_of({**definition, "_meta": {"fastmcp": {"tags": tags}}}, upstream)


def record(name: str, description: str = "", tags: Sequence[str] = (), **more: Any) -> ToolRecord:
    """Return a record; what is not given is empty."""
    return tool_record(name, more.get("title"), description, tags, bool(more.get("read_only")))


def numbered(n_tools: int, description: str = "does thing number {}") -> list[ToolRecord]:
    """Return records named `tool_0` and on, in ten groups."""
    return [record(f"tool_{i}", description.format(i), [f"group{i % 10}"]) for i in range(n_tools)]


async def matching_names(graph: ToolGraph, server: str, text: str) -> tuple[str, ...]:
    """Return the names of a server's tools that fit a normalised query, best first."""
    return names_of(await match(graph, server, text))


async def n_held(graph: ToolGraph, server: str) -> int:
    """Return how many tools a graph holds of a server."""
    state = await server_state(graph, server)
    return state.n_tools if state is not None else 0


async def held(graph: ToolGraph, server: str) -> list[str]:
    """Return all that a graph holds of a server's tools, in a form that can be compared."""
    rows = await graph.read(_HELD, {"server_name": server})
    return sorted(json.dumps({**row, "tags": sorted(row["tags"])}, sort_keys=True) for row in rows)


def expected(records: Sequence[ToolRecord], server: str) -> list[str]:
    """Return the same for what it should hold."""
    return sorted(json.dumps(tool.row(server), sort_keys=True) for tool in records)


@st.composite
def toolsets(draw: st.DrawFn) -> list[ToolRecord]:
    """Up to eight tools, each name once."""
    names = draw(st.lists(words | texts.filter(bool), max_size=8, unique=True))
    return [
        record(name, draw(words | texts), draw(st.sets(words | texts.filter(bool), max_size=3).map(sorted)))
        for name in names
    ]
