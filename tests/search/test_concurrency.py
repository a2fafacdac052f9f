"""Tasks side by side on one router, and steps that are cancelled: the set stays whole."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from agent_utilities import ToolRouter
from agent_utilities.catalog.document import ToolDocument
from agent_utilities.query.ranking.base import Index, Ranking
from agent_utilities.query.ranking.lexical import LexicalRanker
from agent_utilities.selection.active import Active
from tests.search.catalogs import TOPICS, catalog, names, of_topic

pytestmark = pytest.mark.anyio
ENTRY = ["tool_search", "call_tool"]


def is_whole(active: Active) -> bool:
    """Whether a set is one that steps can make: each name once, and what was loaded among them."""
    return len(set(active.names)) == len(active.names) and set(active.loaded) <= set(active.names)


class HeldRanker:
    """Ranks by words; each ranking waits in its thread until it is let go.

    Args:
        after: how many rankings are let through at once.
    """

    def __init__(self) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()

    def index(self, documents: Sequence[ToolDocument]) -> Index:
        return HeldIndex(self, LexicalRanker().index(documents))


class HeldIndex:
    cause = ""

    def __init__(self, ranker: HeldRanker, index: Index) -> None:
        self._ranker, self._index = ranker, index

    def rank(self, query: str, *, permitted: Sequence[int] | None = None, limit: int = 25) -> Ranking:
        self._ranker.begun.set()
        assert self._ranker.let_go.wait(60)
        return self._index.rank(query, permitted=permitted, limit=limit)


async def held() -> tuple[ToolRouter, HeldRanker]:
    """Return a router whose rankings wait, after one search."""
    ranker = HeldRanker()
    router = ToolRouter(catalog(), ranker=ranker)
    await router.indexed()
    ranker.let_go.set()
    await router.search("select:song_show")
    ranker.let_go.clear()
    ranker.begun.clear()
    return router, ranker


async def begun(ranker: HeldRanker) -> None:
    assert await asyncio.to_thread(ranker.begun.wait, 60)


class TestCancelled:
    async def test_a_turn_in_the_middle_changes_nothing_and_may_be_taken_again(self) -> None:
        router, ranker = await held()
        before, active = router.tools(), router.active
        turning = asyncio.create_task(router.turn("the photo"))
        await begun(ranker)
        turning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turning
        ranker.let_go.set()
        assert (router.tools(), router.active) == (before, active)
        turned = await router.turn("the photo")
        assert (turned.added, turned.n_turns) == (tuple(of_topic("photo")), 1)

    async def test_a_search_in_the_middle_activates_nothing(self) -> None:
        router, ranker = await held()
        searching = asyncio.create_task(router.search("photo"))
        await begun(ranker)
        searching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await searching
        ranker.let_go.set()
        assert router.active.names == ("song_show",)

    async def test_a_listing_in_the_middle_leaves_the_router_to_list_again(self) -> None:
        client = Waiting()
        router = ToolRouter(client)
        turning = asyncio.create_task(router.turn("the photo"))
        await client.asked.wait()
        turning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turning
        client.answering.set()
        assert (await router.turn("the photo")).added == tuple(of_topic("photo"))

    async def test_one_of_two_who_wait_for_the_first_listing_leaves_the_other_with_it(self) -> None:
        client = Waiting()
        router = ToolRouter(client)
        first, second = (asyncio.create_task(router.child().turn("the photo")) for _ in range(2))
        await client.asked.wait()
        first.cancel()
        client.answering.set()
        assert (await second).added == tuple(of_topic("photo"))


class TestSideBySide:
    async def test_calls_and_loads_during_a_turn_are_not_lost(self) -> None:
        router, ranker = await held()
        turning = asyncio.create_task(router.turn("the photo"))
        await begun(ranker)
        router.touch("ticket_show")
        await router.search("select:recipe_show")
        ranker.let_go.set()
        await turning
        assert names(router.tools()) == [*ENTRY, "song_show", "ticket_show", "recipe_show", *of_topic("photo")]

    async def test_one_message_taken_twice_at_once_is_one_turn(self) -> None:
        router, ranker = await held()
        turning = [asyncio.create_task(router.turn("the photo")) for _ in range(5)]
        await begun(ranker)
        ranker.let_go.set()
        turned = await asyncio.gather(*turning)
        assert sorted(len(each.added) for each in turned) == [0, 0, 0, 0, 7]
        assert router.active.n_turns == 1

    async def test_messages_taken_at_once_are_no_more_turns_than_there_may_be(self) -> None:
        router = ToolRouter(catalog(), search_turns=3, initial_k=30, search_k=2)
        turned = await asyncio.gather(*(router.turn(f"the {noun}") for noun in TOPICS))
        assert sorted(len(each.added) for each in turned) == [0, 0, 0, 0, 0, 0, 2, 2, 7]
        assert router.active.n_turns == 3

    async def test_tools_that_change_during_a_turn_are_none_that_it_attaches(self) -> None:
        ranker = HeldRanker()
        client = Waiting()
        client.answering.set()
        router = ToolRouter(client, ranker=ranker)
        await router.indexed()
        turning = asyncio.create_task(router.turn("the photo"))
        await begun(ranker)
        client.tools = [each for each in catalog() if each["name"] != "photo_show"]
        await router.refresh()
        ranker.let_go.set()
        assert (await turning).added == tuple(of_topic("photo")[1:])
        assert is_whole(router.active)

    async def test_many_tasks_leave_a_whole_set(self) -> None:
        router = ToolRouter(catalog(), max_active=5, max_tools=20)

        async def work(n: int) -> None:
            noun = list(TOPICS)[n % len(TOPICS)]
            await router.turn(f"the {noun} number {n}")
            await router.search(f"select:{noun}_show,{noun}_count")
            router.touch(f"{noun}_rename")
            assert is_whole(router.active)
            assert len(router.tools()) <= 20

        await asyncio.gather(*(work(n) for n in range(60)))
        assert router.active.n_turns == 7
        assert len(router.active.loaded) <= 5
        assert len(names(router.tools())) == len(set(names(router.tools())))


def test_a_router_may_outlive_an_event_loop() -> None:
    router = ToolRouter(Waiting(is_slow=True))

    async def crowd() -> list[int]:
        children = [router.child(inherit=False) for _ in range(5)]
        await asyncio.gather(*(child.refresh() for child in children))
        return [len((await child.turn("the photo")).added) for child in children]

    assert asyncio.run(crowd()) == asyncio.run(crowd()) == [7] * 5


class Waiting:
    """Lists tools when it is let.

    Args:
        is_slow: whether it lists them by itself, after some turns of the event loop.
    """

    def __init__(self, *, is_slow: bool = False) -> None:
        self._is_slow = is_slow
        self.asked, self.answering = asyncio.Event(), asyncio.Event()
        self.tools = catalog()

    async def list_tools(self) -> list[dict[str, Any]]:
        self.asked.set()
        if self._is_slow:
            for _ in range(5):
                await asyncio.sleep(0)
        else:
            await self.answering.wait()
        return self.tools

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        raise LookupError(name)
