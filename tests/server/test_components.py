"""Reading listings as catalogs: the same one however it is read, and anew only where something changed."""

from __future__ import annotations

import asyncio

import pytest
from fastmcp.tools.base import Tool

from agent_utilities import create_mcp_server
from agent_utilities.runtime import waiting
from agent_utilities.seam.components import Traits
from agent_utilities.server.surface.catalogs import CatalogReader

pytestmark = pytest.mark.anyio


def tools(n_tools: int, description: str = "d") -> list[Tool]:
    def work() -> str:
        return ""

    return [Tool.from_function(work, name=f"tool_{i}", description=description, tags={"t"}) for i in range(n_tools)]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the components whose content was written out, in order."""
    names: list[str] = []
    content = Traits.content

    def watched(traits: Traits) -> str:
        names.append(traits.name)
        return content(traits)

    monkeypatch.setattr(Traits, "content", watched)
    return names


async def test_a_prepared_listing_is_read_as_one_read_at_once() -> None:
    listing, reader = tools(5), CatalogReader("tool")
    await reader.prepare(listing)
    assert reader.read(listing).catalog.digest == CatalogReader("tool").read(listing).catalog.digest
    assert reader.read(listing) is reader.read(listing)


async def test_many_who_prepare_a_listing_at_once_read_it_once(
    written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_TURN_S", -1.0)
    listing, reader = tools(3), CatalogReader("tool")
    await asyncio.gather(*(reader.prepare(listing) for _ in range(10)))
    assert written == ["tool_0", "tool_1", "tool_2"]


async def test_one_who_gives_up_leaves_the_listing_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_TURN_S", -1.0)
    listing, reader = tools(3), CatalogReader("tool")
    first, second = (asyncio.create_task(reader.prepare(listing)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert len(reader.read(listing).catalog) == 3


def test_only_what_changed_is_written_anew(written: list[str]) -> None:
    listing, reader = tools(3), CatalogReader("tool")
    before = reader.read(listing).catalog
    changed = [listing[0], listing[1].model_copy(update={"description": "new"}), listing[2]]
    after = reader.read(changed).catalog
    assert written == ["tool_0", "tool_1", "tool_2", "tool_1"]
    assert before.digest != after.digest
    assert before.entries[2] is after.entries[2]


def test_equal_copies_have_the_same_catalog(written: list[str]) -> None:
    """As a mounted server lists them: other objects each time."""
    reader = CatalogReader("tool")
    first = reader.read(tools(3))
    copies = [each.model_copy() for each in first.components]
    assert reader.read(copies).catalog is first.catalog
    # They are kept themselves: equal objects made later may be given the identities of those let go of.
    assert [id(component) for component in reader.read(copies).components] == [id(copy) for copy in copies]
    assert len(written) == 3


async def test_a_long_listing_is_bounded_like_a_short_one() -> None:
    server = create_mcp_server("long", environ={"MCP_GRAPH": "off", "MCP_ENABLED_TOOLS": "tool_7,tool_399"})
    for tool in tools(400):
        server.add_tool(tool)
    assert [tool.name for tool in await server.list_tools()] == ["tool_7", "tool_399"]


def test_a_listing_prepared_in_one_event_loop_can_be_in_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_TURN_S", -1.0)
    reader = CatalogReader("tool")

    async def prepared_by_many(listing: list[Tool]) -> int:
        await asyncio.gather(*(reader.prepare(listing) for _ in range(3)))
        return len(reader.read(listing).catalog)

    assert [asyncio.run(prepared_by_many(tools(n_tools))) for n_tools in (3, 4)] == [3, 4]
