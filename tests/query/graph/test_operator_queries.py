"""The queries of graph/README.md, run as written on a real Neo4j; those about edges on the embedded engine too."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_utilities.query.graph.base import ToolGraph
from agent_utilities.query.graph.sync import ToolEdge, sync, sync_edges
from tests.query.graph.records import tool_record

TEXT = (Path(__file__).parents[3] / "graph" / "README.md").read_text(encoding="utf-8")
QUERIES = [part.strip() for part in TEXT.partition("<!-- queries -->\n```cypher\n")[2].partition("```")[0].split(";")]

TOOLS = [
    tool_record("tail_log", "Tail", "Show the last lines of a log.", ["logs", "read"], True),
    tool_record("delete_log", "Delete", "Remove a log.", ["logs", "write"], False),
    tool_record("peek", "Peek", "", ["read"], False),
    tool_record("bare", "", "No tag.", [], True),
]
EDGES = [
    ToolEdge("used_with", "peek", "tail_log", 2),
    ToolEdge("used_with", "peek", "tail_log", 1, "ann"),
    ToolEdge("used_with", "delete_log", "peek", 1),
    ToolEdge("followed_by", "tail_log", "delete_log", 4),
    ToolEdge("followed_by", "tail_log", "tail_log", 6),
]
# What each must find in a graph of two servers, one of them refreshed in 1970.
ANSWERS = [
    [{"server": "a", "tools": 4}, {"server": "b", "tools": 1}],
    [{"server": "b"}],
    [{"server": "a", "tools": ["delete_log", "peek"]}],
    [{"server": "a", "tool": "bare"}],
    [{"server": "a", "tool": "peek"}],
    [{"tool": "tail_log", "servers": ["a", "b"]}],
    [{"tag": "logs", "tools": 3}, {"tag": "read", "tools": 3}, {"tag": "write", "tools": 1}],
    [{"server": "a", "tool": "peek"}],
    [{"server": "a", "tool": "tail_log", "characters": 29}],
    [{"server": "a", "tool": "delete_log"}, {"server": "a", "tool": "tail_log"}, {"server": "b", "tool": "tail_log"}],
    [
        {"server": "a", "tool": "peek", "with_tool": "tail_log", "sessions": 3},
        {"server": "a", "tool": "delete_log", "with_tool": "peek", "sessions": 1},
    ],
    [
        {"server": "a", "tool": "tail_log", "next_tool": "tail_log", "times": 6},
        {"server": "a", "tool": "tail_log", "next_tool": "delete_log", "times": 4},
    ],
    [{"server": "a", "tool": "bare"}, {"server": "b", "tool": "tail_log"}],
]


def test_there_are_thirteen() -> None:
    assert [query.partition(".")[0] for query in QUERIES if query] == [f"// {i}" for i in range(1, 14)]


@pytest.mark.anyio
@pytest.mark.parametrize("backend", ["neo4j"], indirect=True)
async def test_each_finds_what_it_says(graph: ToolGraph) -> None:
    await sync(graph, "a", TOOLS, 4_000_000_000_000)
    await sync(graph, "b", TOOLS[:1], 0)
    await sync_edges(graph, "a", EDGES)
    for query, expected in zip(QUERIES, ANSWERS, strict=False):
        keys = expected[0].keys()
        rows = [
            {key: sorted(value) if isinstance(value, list) else value for key, value in row.items() if key in keys}
            for row in await graph.read(query, {})
        ]
        assert [row for row in rows if row in expected] == expected, query


@pytest.mark.anyio
async def test_those_about_edges_find_just_that_on_each_backend(graph: ToolGraph) -> None:
    await sync(graph, "a", TOOLS, 1)
    await sync(graph, "b", TOOLS[:1], 1)
    await sync_edges(graph, "a", EDGES)
    for query, expected in zip(QUERIES[10:13], ANSWERS[10:], strict=True):
        assert await graph.read(query, {}) == expected, query
