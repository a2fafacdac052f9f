"""Shares of neighbours: who goes first, what a place and a doubt are worth, and that a denied tool moves nothing."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.query.graph.matching import Matches, Neighbour, NeighbourRow
from agent_utilities.query.graph.sync import ToolEdge
from agent_utilities.query.resolution.prior import (
    MOST_NEIGHBOURS,
    neighbour_shares,
    shares_off_loop,
    tool_edges,
)
from agent_utilities.usage.model import Learned
from tests.query.graph.records import examples


def followed(of: str, name: str, n: int) -> Neighbour:
    return Neighbour(of, name, "followed_by", n)


def used(of: str, name: str, n: int) -> Neighbour:
    return Neighbour(of, name, "used_with", n)


class TestShares:
    def test_the_tool_called_next_most_often_comes_first(self) -> None:
        shares = neighbour_shares([followed("log", "push", 1), followed("log", "diff", 3)], ["log"])
        assert shares == (("diff", pytest.approx(2 * (3 / 5) / 3)), ("push", pytest.approx(2 * (1 / 5) / 3)))

    def test_what_follows_the_last_call_weighs_more_than_what_goes_with_others(self) -> None:
        neighbours = [followed("log", "next", 5), *(used(of, "along", 5) for of in ("log", "diff"))]
        assert [name for name, _ in neighbour_shares(neighbours, ["log", "diff"])] == ["next", "along"]

    def test_the_last_call_weighs_more_than_those_before(self) -> None:
        neighbours = [used("earlier", "a", 5), used("last", "b", 5)]
        assert [name for name, _ in neighbour_shares(neighbours, ["last", "earlier"])] == ["b", "a"]
        assert [name for name, _ in neighbour_shares(neighbours, ["earlier", "last"])] == ["a", "b"]

    def test_a_pair_seen_once_is_worth_less_than_one_seen_always(self) -> None:
        ((_, once),) = neighbour_shares([followed("log", "diff", 1)], ["log"])
        ((_, always),) = neighbour_shares([followed("log", "diff", 100)], ["log"])
        assert once < always < 1

    def test_a_tool_that_is_near_is_no_neighbour_but_its_counts_stand(self) -> None:
        alone = neighbour_shares([followed("log", "push", 1)], ["log", "diff"])
        beside = neighbour_shares([followed("log", "diff", 9), followed("log", "push", 1)], ["log", "diff"])
        assert [name for name, _ in beside] == ["push"]
        assert beside[0][1] < alone[0][1]

    def test_equal_shares_are_in_the_order_of_names_and_no_more_than_the_most(self) -> None:
        names = [f"tool_{i:03}" for i in range(MOST_NEIGHBOURS + 10)]
        shares = neighbour_shares([used("log", name, 2) for name in reversed(names)], ["log"])
        assert [name for name, _ in shares] == names[:MOST_NEIGHBOURS]

    def test_of_nothing_there_are_none(self) -> None:
        assert neighbour_shares([], ["log"]) == neighbour_shares([used("log", "diff", 1)], []) == ()


_names = st.sampled_from("abcdef")
_neighbours = st.lists(
    st.builds(Neighbour, _names, _names, st.sampled_from(("used_with", "followed_by")), st.integers(1, 99)), max_size=20
)


class TestPermitted:
    @examples(2)
    @given(_neighbours, st.lists(_names, max_size=8), st.frozensets(_names))
    def test_shares_are_those_of_a_catalog_with_only_the_permitted(
        self, neighbours: list[Neighbour], near: list[str], permitted: frozenset[str]
    ) -> None:
        world = [edge for edge in neighbours if {edge.of, edge.name} <= permitted]
        expected = neighbour_shares(world, [name for name in near if name in permitted])
        assert neighbour_shares(neighbours, near, permitted) == expected
        assert {name for name, _ in expected} <= permitted - set(near)
        assert 0 <= sum(share for _, share in expected) < 1

    @examples(2)
    @given(_neighbours, st.lists(_names, max_size=8), st.randoms())
    def test_the_order_in_which_edges_are_read_moves_nothing(
        self, neighbours: list[Neighbour], near: list[str], random: object
    ) -> None:
        shuffled = neighbours[:]
        random.shuffle(shuffled)  # type: ignore[attr-defined]
        assert neighbour_shares(shuffled, near) == neighbour_shares(neighbours, near)

    def test_a_name_that_no_tool_bears_counts_as_one_that_is_denied(self) -> None:
        edges, permitted = [followed("log", "diff", 3), followed("denied", "push", 9)], frozenset({"log", "diff"})
        guesses = [neighbour_shares(edges, [guess, "log"], permitted) for guess in ("denied", "nonesuch")]
        assert guesses[0] == guesses[1] == neighbour_shares(edges, ["log"], permitted)


class TestLaw7:
    @staticmethod
    def matches(n_tools: int) -> Matches:
        names = tuple(f"tool_{i}" for i in range(n_tools))
        row = NeighbourRow("followed_by", ("log",) * n_tools, names, tuple(range(1, n_tools + 1)))
        return Matches(neighbour_rows=(row,))

    @pytest.mark.anyio
    async def test_many_edges_are_counted_off_the_loop(self) -> None:
        counting = asyncio.create_task(shares_off_loop(self.matches(10_000), ["log"], None))
        n_turns = 0
        while not counting.done():
            await asyncio.sleep(0)
            n_turns += 1
        assert counting.result() == neighbour_shares(self.matches(10_000).neighbours, ["log"])
        assert n_turns > 2, "the loop turned meanwhile"

    @pytest.mark.anyio
    async def test_few_are_counted_at_once(self) -> None:
        counting = asyncio.create_task(shares_off_loop(self.matches(1), ["log"], None))
        await asyncio.sleep(0)
        assert counting.done()


class TestToolEdges:
    LEARNED = Learned("1", used_with={("diff", "log"): 2}, followed_by={("log", "diff"): 3, ("diff", "log"): 2})

    def test_are_what_calls_teach_the_strongest_first(self) -> None:
        assert tool_edges(self.LEARNED, "ann") == [
            ToolEdge("followed_by", "log", "diff", 3, "ann"),
            ToolEdge("followed_by", "diff", "log", 2, "ann"),
            ToolEdge("used_with", "diff", "log", 2, "ann"),
        ]

    def test_are_bounded(self) -> None:
        assert tool_edges(self.LEARNED, most=1) == [ToolEdge("followed_by", "log", "diff", 3)]
        assert tool_edges(Learned()) == []
