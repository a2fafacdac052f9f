"""What is embedded of a request: the whole of a short one, and of a long one the parts that tools may answer."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_utilities.query.ranking.embedding import BUDGET, RequestTexts, clauses, n_pieces, read_request
from agent_utilities.query.ranking.lexical import LexicalRanker
from tests.query.ranking.catalogs import TOOLS

TOLD = " ".join(f"My manager has been travelling since meeting {n} which was long and rather loud." for n in range(12))
EVIDENCE = LexicalRanker().index(TOOLS).view(None).evidence


class TestShort:
    def test_the_whole_and_its_parts_are_embedded(self):
        query = "Read the first file, then remove the old directory"
        request = read_request(query, EVIDENCE)
        assert request.to_embed == (query, "Read the first file", "remove the old directory")
        assert request.vectors(np.eye(3, dtype=np.float32)).tolist() == np.eye(3).tolist()


class TestLong:
    def test_of_one_that_is_not_so_long_the_whole_is_embedded_too(self):
        query = f"{TOLD[:330]}. Please list the newest commits of everyone."
        whole, *parts = read_request(query, EVIDENCE).to_embed
        assert whole == query
        assert "Please list the newest commits of everyone" in parts

    def test_what_a_tool_may_answer_is_embedded_wherever_it_stands(self):
        for query in [f"{{}} {TOLD}", f"{TOLD} {{}} {TOLD}", f"{TOLD} {{}}"]:
            request = read_request(query.format("Please list the newest commits of everyone."), EVIDENCE)
            assert "Please list the newest commits of everyone" in request.parts

    def test_the_vector_of_the_whole_is_the_mean_of_its_parts_by_their_length(self):
        request = RequestTexts("", ("one two three", "four"), is_chosen=True)
        whole, *parts = request.vectors(np.eye(2, dtype=np.float32))
        assert whole == pytest.approx(np.array([3, 1]) / np.sqrt(10))
        assert np.array(parts).tolist() == np.eye(2).tolist()

    @given(
        query=st.lists(
            st.sampled_from(
                [*"ab,.!\n 查😀\u0301", " and ", "deploy", "x" * 300, "查看" * 200, "a b " * 90, "read a file. ", TOLD]
            )
        ).map("".join)
    )
    @settings(max_examples=150)
    def test_any_request_is_embedded_within_the_budget(self, query):
        request = read_request(query, EVIDENCE)
        assert request.to_embed
        assert sum(map(n_pieces, request.to_embed)) <= BUDGET
        assert not request.is_chosen or all(part.strip() for part in request.parts)

    def test_reading_takes_linear_time_whatever_comes(self):
        for query in ["!?" * 4_000, f"a{' ' * 8_000}b", "a. " * 2_666]:
            started = time.thread_time()
            clauses(query)
            assert time.thread_time() - started < 0.05  # 0.07 to 0.7 s where it is quadratic, about 1 ms where it isn't
