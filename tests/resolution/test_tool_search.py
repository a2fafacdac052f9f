"""Searching by words: the best tools in scope, claimed or not, remembered, and never waited for past a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.graph.base import ToolGraph, ToolRecord
from agent_utilities.resolution.resolver import LiveTools, Resolver
from agent_utilities.resolution.scope import CallerScope
from agent_utilities.runtime.deadline import Deadline
from agent_utilities.selection.resolution import Resolution
from agent_utilities.settings import read_settings
from agent_utilities.testing import memory_graph
from tests.ranking.catalogs import TOOLS

pytestmark = pytest.mark.anyio


def scope_of(tools: Sequence[ToolDocument], digest: str = "all") -> CallerScope:
    return CallerScope(digest, lambda: frozenset(tool.name for tool in tools))


ALL = scope_of(TOOLS)


class Live:
    """A server's live tools; a test changes them, or makes listing them fail."""

    def __init__(self, tools: Sequence[ToolDocument] = TOOLS) -> None:
        self.tools = tools
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self) -> LiveTools:
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        records = [
            ToolRecord(tool.name, tool.title, tool.description, tool.tags, tool.name, "tool", read_only=False)
            for tool in self.tools
        ]
        return LiveTools("-".join(tool.name for tool in self.tools), records, self.tools)


@asynccontextmanager
async def running(live: Live, graph: ToolGraph | None = None, **variables: str) -> AsyncIterator[Resolver]:
    """Run the resolver of a server to which nobody has sent a query yet."""
    environ = {"MCP_RANKER": "lexical", **variables}
    settings = read_settings(environ)
    given = memory_graph() if graph is None and settings.graph != "off" else graph
    resolver = Resolver(lambda: "s", live, lambda: settings, lambda: environ, given)
    task = asyncio.create_task(resolver.run())
    await asyncio.sleep(0)
    try:
        yield resolver
    finally:
        task.cancel()
        await asyncio.wait([task])


async def search(resolver: Resolver, query: str, scope: CallerScope | None = ALL, limit: int = 5) -> Resolution:
    return await resolver.search(query, scope, limit, Deadline.after(30))


class TestWhatIsFound:
    async def test_the_best_tool_comes_first_with_its_score(self) -> None:
        async with running(Live()) as resolver:
            found = await search(resolver, "list the newest commits")
            assert (found.status, found.names[0], found.cause) == ("ranked", "git_log", "")
            assert found.tools[0].score is not None

    async def test_what_a_list_would_not_claim_is_found_with_the_reason(self) -> None:
        async with running(Live()) as resolver:
            found = await search(
                resolver,
                "book two flights and rent bicycles in autumn, tree houses beside lakes, mountains, forests, islands",
            )
            assert found.names == ("git_status",)
            assert found.cause.startswith("nothing fits: the best score")

    async def test_nothing_shared_is_no_match(self) -> None:
        async with running(Live()) as resolver:
            found = await search(resolver, "hotel")
            assert (found.status, found.tools) == ("no_match", ())

    async def test_a_tool_that_is_named_comes_first(self) -> None:
        async with running(Live()) as resolver:
            assert (await search(resolver, "list commits, newest first, not deleteFolder")).names[0] == "deleteFolder"

    async def test_no_more_are_named_than_asked_for(self) -> None:
        async with running(Live()) as resolver:
            assert (await search(resolver, "git log of a file", limit=2)).names == ("git_log", "read_file")
