"""Sub-agents' routers: one that inherits what is active, and one that starts with nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from agent_utilities import ToolRouter
from agent_utilities.catalog.document import ToolDocument
from agent_utilities.query.ranking.base import Index
from agent_utilities.query.ranking.lexical import LexicalRanker
from tests.search.catalogs import TOPICS, catalog, names, of_topic

pytestmark = pytest.mark.anyio
ENTRY = ["tool_search", "call_tool"]


async def parent() -> ToolRouter:
    router = ToolRouter(catalog(), pins=["invoice_show"], search_turns=2)
    await router.turn("the photo")
    await router.search("select:song_show")
    return router


async def test_one_that_inherits_lists_what_its_parent_does() -> None:
    router = await parent()
    assert router.child().tools() == router.child(inherit=True).tools() == router.tools()


async def test_one_that_does_not_starts_fresh() -> None:
    child = (await parent()).child(inherit=False)
    assert names(child.tools()) == [*ENTRY, "invoice_show"]
    assert (await child.turn("the photo")).n_turns == 1


async def test_what_a_child_activates_its_parent_does_not_see() -> None:
    router = await parent()
    before, child = router.tools(), router.child()
    await child.turn("the parcel")
    child.touch("recipe_show")
    assert router.tools() == before
    assert names(child.tools()) == [*names(before), *of_topic("parcel"), "recipe_show"]


async def test_what_the_parent_activates_later_a_child_does_not_see() -> None:
    router = await parent()
    child = router.child()
    before = child.tools()
    await router.turn("the parcel")
    assert child.tools() == before


async def test_one_that_inherits_a_frozen_set_adds_by_search_alone() -> None:
    router = await parent()
    assert (await router.turn("the parcel")).frozen
    child = router.child()
    assert (await child.turn("the recipe")).added == ()
    assert (await child.search("select:recipe_show")).activated == ("recipe_show",)


async def test_twenty_children_share_one_index(monkeypatch: pytest.MonkeyPatch) -> None:
    made, n_made = LexicalRanker.index, 0

    def counted(ranker: LexicalRanker, documents: Sequence[ToolDocument]) -> Index:
        nonlocal n_made
        n_made += 1
        return made(ranker, documents)

    monkeypatch.setattr(LexicalRanker, "index", counted)
    router = ToolRouter(catalog())
    children = [router.child(inherit=False) for _ in range(20)]
    topics = [list(TOPICS)[n % len(TOPICS)] for n in range(20)]
    await asyncio.gather(*(child.turn(f"the {topic}") for child, topic in zip(children, topics, strict=True)))
    assert [names(child.tools()) for child in children] == [[*ENTRY, *of_topic(topic)] for topic in topics]
    assert n_made == 1
