"""The hybrid ranker: meaning beside words, several intents, abstention, and words alone when vectors can't be had."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.errors import RankerError
from agent_utilities.query.ranking.answerability import PastRequests
from agent_utilities.query.ranking.embedding import clauses
from agent_utilities.query.ranking.hybrid import HybridRanker
from agent_utilities.query.ranking.lexical import LexicalRanker
from tests.query.ranking.catalogs import PLACES, TOOLS, Concepts


@pytest.fixture
def provider() -> Concepts:
    return Concepts()


@pytest.fixture
def index(provider):
    return HybridRanker(lambda: provider).index(TOOLS)


class TestMeaning:
    def test_a_request_finds_a_tool_that_shares_none_of_its_words(self, index):
        query = "who is hammering the api"
        assert LexicalRanker().index(TOOLS).rank(query).indexes == ()
        assert index.rank(query).indexes[0] == PLACES["top_clients"]

    def test_a_request_that_nothing_fits_is_not_claimed(self, index):
        assert index.rank("tell me a joke about cats").abstained
        assert not index.rank("count requests per client").abstained

    def test_a_provider_without_a_measured_distance_claims_by_the_share_alone(self, provider):
        request = "`git_log` of quantum chromodynamics in print"
        measured = HybridRanker(lambda: provider).index(TOOLS).rank(request).n_claimed
        provider.claim_distance = 0.0
        assert HybridRanker(lambda: provider).index(TOOLS).rank(request).n_claimed == 3 < measured

    def test_a_name_as_it_is_written_wins_and_is_claimed(self, index):
        ranking = index.rank("`git_log` of quantum chromodynamics in print")
        assert (ranking.indexes[0], ranking.abstained) == (PLACES["git_log"], False)

    def test_a_name_as_it_is_written_is_surer_than_what_it_stands_in(self, index):
        without = index.rank("log of quantum chromodynamics in print").scores[0]
        assert index.rank("`git_log` of quantum chromodynamics in print").scores[0] > without + 0.5

    def test_more_history_brings_a_tool_nearer(self, provider):
        def score(n: int) -> float:
            past = PastRequests.of({0: ["what is on the radio"] * n})
            ranking = HybridRanker(lambda: provider).index(TOOLS).learn(past).rank("which radio station is on")
            scores = dict(zip(ranking.indexes, ranking.scores, strict=True))
            return scores[0] - scores[1]

        assert score(0) < score(1) < score(3)

    def test_of_a_request_only_so_much_is_embedded(self, index, provider):
        provider.asked.clear()
        index.rank("commits " * 100_000)
        assert sum(map(len, provider.asked)) < 400

    def test_a_long_request_finds_the_tool_that_one_sentence_in_it_asks_for(self, index):
        told = "Yesterday nobody was sure about our plans. " * 20
        ranking = index.rank(f"{told}Count the calls per client address. {told}")
        assert (ranking.indexes[0], ranking.cause) == (PLACES["top_clients"], "")

    def test_a_request_asked_again_is_answered_by_the_vectors_it_had_even_while_the_model_is_gone(
        self, index, provider
    ):
        first = index.rank("list the newest commits")
        provider.fails = True
        assert index.rank("list the newest commits") == first
        assert index.rank("list the oldest commits").cause


class TestIntents:
    def test_every_intent_finds_its_tool(self, index):
        first_two = index.rank("list the newest commits, and also remove a directory with all in it").indexes[:2]
        assert set(first_two) == {PLACES["git_log"], PLACES["deleteFolder"]}

    def test_short_parts_stay_with_their_neighbour(self):
        for query, parts in [
            ("list the newest commits", []),
            ("read the first file and then remove it all", ["read the first file", "remove it all"]),
            ("salt and pepper", []),
            ("read the first file and then stop", []),
            ("", []),
        ]:
            assert clauses(query) == parts


class TestFallback:
    def test_a_model_that_is_absent_leaves_the_words_and_says_so_once(self, caplog):
        def absent() -> Concepts:
            raise RankerError("the wheel is absent")

        ranker = HybridRanker(absent)
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                index = ranker.index(TOOLS)
        assert index.cause == index.rank("git log").cause == "ranked by words alone: the wheel is absent"
        assert index.rank("git log").indexes == LexicalRanker().index(TOOLS).rank("git log").indexes
        assert [record.message for record in caplog.records] == ["ranked by words alone: the wheel is absent"]

    def test_a_model_that_fails_later_leaves_the_words_and_recovers(self, index, provider, caplog):
        provider.fails = True
        with caplog.at_level(logging.WARNING):
            causes = {index.rank("newest commits").cause for _ in range(3)}
        assert causes == {"ranked by words alone: the model is gone"}
        assert len(caplog.records) == 1
        provider.fails = False
        assert index.rank("newest commits").cause == ""

    def test_a_model_that_fails_at_first_is_tried_at_the_next_index(self, provider):
        ranker = HybridRanker(lambda: provider)
        provider.fails = True
        assert ranker.index(TOOLS).cause
        provider.fails = False
        assert ranker.index(TOOLS).cause == ""

    def test_nonsense_from_a_model_leaves_the_words(self, index, provider, monkeypatch, subtests):
        nonsense = {
            "no dimensions": np.zeros((1, 0)),
            "no vectors": np.zeros(3),
            "not finite": np.full((1, 96), np.nan),
            "too many": np.ones((2, 96)),
            "other dimensions": np.ones((1, 12)),
        }
        for what, answer in nonsense.items():
            monkeypatch.setattr(provider, "embed", lambda texts, role, answer=answer: answer)
            with subtests.test(what):
                ranking = index.rank("newest commits")
                assert ranking.indexes[0] == PLACES["git_log"]
                assert ranking.cause.startswith("ranked by words alone")


class TestUpdates:
    def test_only_new_documents_are_embedded(self, provider):
        ranker = HybridRanker(lambda: provider)
        ranker.index(TOOLS)
        provider.asked.clear()
        ranker.index([*TOOLS, ToolDocument("new_tool")])
        assert [text for text in provider.asked if "new" in text] == ["new tool:", "new tool"]
        assert not [text for text in provider.asked if "git" in text]

    def test_a_model_whose_dimensions_change_leaves_the_words(self, provider, caplog):
        provider.n_dimensions = 7
        ranker = HybridRanker(lambda: provider)
        ranker.index(TOOLS)
        provider.n_dimensions = 8
        for _ in range(2):
            changed = ranker.index([*TOOLS, ToolDocument("new_tool")])
            assert "gives 8 dimensions instead of 7" in changed.cause
            assert changed.rank("newest commits").indexes[0] == PLACES["git_log"]
        assert len(caplog.records) == 1
