"""What was asked before: it raises tools within bounds, hides none, and tells nobody of another's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.errors import RankerError
from agent_utilities.query.ranking.answerability import N_REQUESTS, PastRequests
from agent_utilities.query.ranking.base import N_RAISED, Ranking, raise_best
from agent_utilities.query.ranking.hybrid import HybridRanker
from agent_utilities.query.ranking.lexical import LexicalRanker
from tests.query.graph.records import examples
from tests.query.ranking.catalogs import PLACES, TOOLS, Concepts
from tests.query.ranking.strategies import catalogs, texts, words

RANKERS = {"lexical": LexicalRanker, "hybrid": lambda: HybridRanker(Concepts)}
KINDS = st.sampled_from(sorted(RANKERS))
requests = st.lists(words, min_size=1, max_size=5).map(" ".join)


def histories(catalog: list[ToolDocument]) -> st.SearchStrategy[dict[int, list[str]]]:
    places = st.integers(0, max(0, len(catalog) - 1))
    return st.dictionaries(places, st.lists(requests, max_size=25)) if catalog else st.just({})


def learned(kind: str, catalog, history):
    return RANKERS[kind]().index(catalog).learn(PastRequests.of(history))


def rank_by_place(ranking: Ranking) -> dict[int, int]:
    return {place: rank for rank, place in enumerate(ranking.indexes)}


class TestEveryIndex:
    @given(kind=KINDS, catalog=catalogs, query=texts, data=st.data())
    @examples(16)
    def test_with_nothing_learned_it_ranks_as_before_to_the_last_digit(self, kind, catalog, query, data):
        permitted = data.draw(st.none() | st.lists(st.integers(0, len(catalog) - 1), unique=True)) if catalog else None
        index = RANKERS[kind]().index(catalog)
        assert index.learn(PastRequests.of({})).rank(query, permitted=permitted) == index.rank(
            query, permitted=permitted
        )

    @given(kind=KINDS, catalog=catalogs, query=texts, data=st.data())
    @examples(16)
    def test_past_requests_of_what_is_denied_move_nothing(self, kind, catalog, query, data):
        history = data.draw(histories(catalog))
        permitted = data.draw(st.lists(st.integers(0, len(catalog) - 1), unique=True).map(sorted)) if catalog else []
        told = {place: asked for place, asked in history.items() if place in permitted}
        assert learned(kind, catalog, history).rank(query, permitted=permitted) == learned(kind, catalog, told).rank(
            query, permitted=permitted
        )

    @given(kind=KINDS, catalog=catalogs, query=texts, data=st.data())
    @examples(16)
    def test_it_is_that_of_a_catalog_of_the_permitted_tools_alone(self, kind, catalog, query, data):
        history = data.draw(histories(catalog))
        permitted = data.draw(st.lists(st.integers(0, len(catalog) - 1), unique=True).map(sorted)) if catalog else []
        of_alone = {permitted.index(place): asked for place, asked in history.items() if place in permitted}
        alone = learned(kind, [catalog[place] for place in permitted], of_alone).rank(query)
        among = learned(kind, catalog, history).rank(query, permitted=permitted)
        assert among == replace(alone, indexes=tuple(permitted[place] for place in alone.indexes))

    @given(kind=KINDS, catalog=catalogs, query=texts, data=st.data())
    @examples(16)
    def test_no_tool_is_hidden_nor_sinks_by_more_than_the_few_that_rise(self, kind, catalog, query, data):
        before = RANKERS[kind]().index(catalog).rank(query)
        after = learned(kind, catalog, data.draw(histories(catalog))).rank(query)
        ranks = rank_by_place(after)
        assert all(ranks[place] <= rank + N_RAISED for place, rank in rank_by_place(before).items())

    @given(kind=KINDS, catalog=catalogs, query=texts, data=st.data())
    @examples(16)
    def test_what_was_claimed_without_is_claimed_still_and_few_more(self, kind, catalog, query, data):
        before = RANKERS[kind]().index(catalog).rank(query)
        after = learned(kind, catalog, data.draw(histories(catalog))).rank(query)
        assert set(before.indexes[: before.n_claimed]) <= set(after.indexes[: after.n_claimed])
        if before.n_claimed:
            assert after.n_claimed <= before.n_claimed + N_RAISED

    @given(kind=KINDS, catalog=catalogs, query=texts, data=st.data())
    @examples(16)
    def test_words_of_past_requests_are_never_told(self, kind, catalog, query, data):
        ranking = learned(kind, catalog, data.draw(histories(catalog))).rank(query)
        untaught = RANKERS[kind]().index(catalog).rank(query, limit=len(catalog))
        matched = dict(zip(untaught.indexes, untaught.matched, strict=True))
        told = zip(ranking.indexes, ranking.matched, strict=True)
        assert all(seen == matched.get(place, ()) for place, seen in told)

    @given(kind=KINDS, catalog=catalogs, query=texts, data=st.data())
    @examples(16)
    def test_scores_never_rise_and_a_lower_limit_cuts_the_same_ranking_short(self, kind, catalog, query, data):
        index = learned(kind, catalog, data.draw(histories(catalog)))
        ranking = index.rank(query)
        assert list(ranking.scores) == sorted(ranking.scores, reverse=True)
        assert (ranking.n_claimed == 0) == ranking.abstained
        assert index.rank(query, limit=3).indexes == ranking.indexes[:3]

    def test_what_denied_tools_learned_moves_no_score_by_its_last_digit(self):
        for kind in RANKERS:
            catalog = [ToolDocument("git"), ToolDocument("git", tags=("git",)), ToolDocument("git")]
            index = RANKERS[kind]().index(catalog)
            ranked = [
                index.learn(PastRequests.of(history)).rank("git", permitted=[0, 1])
                for history in ({0: ["git git read"]}, {0: ["git git read"], 2: ["git"]})
            ]
            assert ranked[0] == ranked[1]

    def test_a_tool_that_the_request_names_stays_first_whatever_was_asked_before(self):
        for kind in RANKERS:
            history = {place: ["run deleteFolder"] * N_REQUESTS for place in range(len(TOOLS)) if place != 4}
            ranking = learned(kind, TOOLS, history).rank("run deleteFolder")
            assert ranking.indexes[0] == PLACES["deleteFolder"]

    def test_a_request_asked_before_finds_the_tool_that_answered_it(self):
        for kind in RANKERS:
            history = {PLACES["clone_repo"]: ["whodunit over the weekend", "whodunit this morning"]}
            assert RANKERS[kind]().index(TOOLS).rank("whodunit").indexes[:1] != (PLACES["clone_repo"],)
            assert learned(kind, TOOLS, history).rank("whodunit").indexes[0] == PLACES["clone_repo"]

    def test_history_that_was_poisoned_does_not_hide_what_the_words_say(self):
        for kind in RANKERS:
            catalog = [
                ToolDocument("list_files", description="List the files of a folder."),
                ToolDocument("delete_everything", description="Delete all files of a folder."),
                *TOOLS,
            ]
            index = learned(kind, catalog, {0: ["delete everything"] * N_REQUESTS})
            ranking = index.rank("delete everything in this folder")
            assert 1 in ranking.indexes[: min(ranking.n_claimed, 2)]
            assert index.rank("list the files of this folder").indexes[0] == 0

    def test_one_past_request_weighs_less_than_three(self):
        for kind in RANKERS:

            def lead(n: int, kind: str = kind) -> float:
                ranking = learned(kind, TOOLS, {PLACES["tail_logs"]: ["print commits"] * n}).rank(
                    "print newest commits"
                )
                scores = dict(zip(ranking.indexes, ranking.scores, strict=True))
                return scores[PLACES["tail_logs"]] - scores[PLACES["git_log"]]

            assert lead(0) < lead(1) < lead(3)


class TestOfOneTool:
    def test_only_the_newest_count(self):
        past = PastRequests.of({3: [f"request {n}" for n in range(50)]})
        assert past.texts == (tuple(f"request {n}" for n in range(30, 50)),)

    def test_a_tool_without_any_is_left_out(self):
        assert PastRequests.of({1: [], 2: ["a"]}).places.tolist() == [2]


class TestVectors:
    def test_a_provider_that_fails_is_said_once_and_the_index_stays_as_it_was(self, caplog):
        provider = Concepts()
        index = HybridRanker(lambda: provider).index(TOOLS)
        before = index.rank("list commits")
        provider.fails = True
        for _ in range(3):
            with pytest.raises(RankerError, match="the model is gone"):
                index.learn(PastRequests.of({0: ["what is new"]}))
        assert len(caplog.records) == 1
        assert index.rank("list commits") == before

    def test_they_take_two_vectors_a_tool_however_many_requests_it_has(self):
        index = HybridRanker(Concepts).index(TOOLS)
        taught = index.learn(PastRequests.of({0: [f"status {n}" for n in range(20)]}))
        assert taught.learned.blended.shape == taught.learned.subjects.shape == (1, 96)

    def test_a_request_that_only_words_can_answer_is_answered_by_words_of_past_requests_too(self):
        provider = Concepts()
        index = HybridRanker(lambda: provider).index(TOOLS).learn(PastRequests.of({0: ["whodunit"] * 3}))
        provider.fails = True
        ranking = index.rank("whodunit")
        assert ranking.indexes[0] == 0
        assert ranking.cause

    def test_requests_are_embedded_some_at_a_time(self):
        sizes: list[int] = []

        class Counting(Concepts):
            def embed(self, texts, role):
                sizes.append(len(texts))
                return super().embed(texts, role)

        index = HybridRanker(Counting).index(TOOLS)
        sizes.clear()
        index.learn(PastRequests.of({place: [f"{place} {n}" for n in range(20)] for place in range(8)} | {}))
        many = [ToolDocument(f"tool{n}") for n in range(40)]
        HybridRanker(Counting).index(many).learn(
            PastRequests.of({n: [f"{n} {m}" for m in range(20)] for n in range(40)})
        )
        assert max(sizes) <= 256


class TestRaising:
    SCORES = np.linspace(1, 0, 30, dtype=np.float32)

    def test_what_has_no_past_requests_is_given_what_the_fifth_best_of_the_others_gains(self):
        gains = np.array([0.5, 0.4, 0.3, 0.2, 0.1, 0.0], dtype=np.float32)
        raised = raise_best(self.SCORES, np.arange(20, 26), gains)
        assert raised[0] - self.SCORES[0] == pytest.approx(0.1)

    def test_where_fewer_have_any_what_has_none_is_given_nothing(self):
        raised = raise_best(self.SCORES, np.arange(20, 24), np.full(4, 0.9, dtype=np.float32))
        assert raised[0] == self.SCORES[0]

    def test_a_gain_below_nothing_lowers_no_tool(self):
        raised = raise_best(self.SCORES, np.array([0]), np.array([-0.01], dtype=np.float32))
        assert (raised == self.SCORES).all()

    def test_no_more_than_a_few_rise(self):
        raised = raise_best(self.SCORES, np.arange(30), np.full(30, 0.3, dtype=np.float32))
        assert int((raised > self.SCORES).sum()) == N_RAISED
