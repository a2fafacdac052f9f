"""Vectors of tools, and how near they are to a request: by the formulas written out, on small numbers."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.query.ranking import arrays
from agent_utilities.query.ranking.answerability import Answerability
from agent_utilities.query.ranking.arrays import single_blas_thread
from agent_utilities.query.ranking.embedding import Embedder, document_vectors
from agent_utilities.query.ranking.minilm import _gelu
from agent_utilities.query.ranking.triggers import UNANSWERABLE
from tests.query.ranking.catalogs import TOOLS, Concepts

EMBEDDER = Embedder(Concepts)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


class TestDocumentVectors:
    def test_the_whole_the_first_sentence_and_the_name_are_mixed(self):
        tool = ToolDocument("git_log", description="List commits. Newest first.")
        texts = ["git log: List commits. Newest first.", "git log: List commits.", "git log"]
        whole, first_sentence, name = EMBEDDER.embed(texts, "document")
        expected = unit(0.4 * whole + 0.4 * first_sentence + 0.2 * name)
        assert document_vectors(EMBEDDER, [tool])[0] == pytest.approx(expected, abs=1e-6)

    def test_search_hints_add_their_mean(self):
        for n in [1, 3]:
            (unhinted,) = document_vectors(EMBEDDER, [ToolDocument("a", description="\n".join(["b"] * n))])
            (hint,) = EMBEDDER.embed(["b"], "query")
            expected = unit(unhinted + 2 * n / (n + 1) * hint)
            assert document_vectors(EMBEDDER, [ToolDocument("a", hints=("b",) * n)])[0] == pytest.approx(
                expected, abs=1e-6
            )


class TestCosines:
    def test_half_of_what_all_tools_have_in_common_is_taken_out(self):
        for places in [[0, 2, 3, 7], [1, 4], [0, 1, 2, 3, 4, 5, 6, 7]]:
            vectors, unanswerable = document_vectors(EMBEDDER, TOOLS), EMBEDDER.embed(UNANSWERABLE, "query")
            queries = EMBEDDER.embed_request(["list the newest commits", "read a file"])
            whole = Answerability.of(vectors, np.arange(len(TOOLS)), unanswerable)
            plain, centred = whole.within(np.array(places)).cosines(queries)
            permitted = vectors[places]
            assert plain == pytest.approx(queries @ permitted.T, abs=1e-6)
            less_half = unit(permitted - 0.5 * permitted.mean(axis=0))
            assert centred == pytest.approx(queries @ less_half.T, abs=1e-5)


class TestBlas:
    def test_one_thread_is_used_within_and_as_many_as_before_afterwards(self):
        limits = pytest.importorskip("threadpoolctl")

        def n_threads() -> set[int]:
            return {library["num_threads"] for library in limits.threadpool_info() if library["user_api"] == "blas"}

        with limits.threadpool_limits(2, user_api="blas"):
            with single_blas_thread():
                assert n_threads() == {1}
            assert n_threads() == {2}

    def test_a_caller_who_waits_goes_before_one_who_comes_back(self):
        turns: list[str] = []

        def wait_for_a_turn() -> None:
            with single_blas_thread():
                turns.append("the request")

        waiting = threading.Thread(target=wait_for_a_turn)
        with single_blas_thread():
            waiting.start()
            while not arrays._NEXT_LOCK.locked():
                pass
        with single_blas_thread():
            turns.append("the catalog's next batch")
        waiting.join()
        assert turns == ["the request", "the catalog's next batch"]


class TestGelu:
    def test_it_is_near_the_exact_one(self):
        x = np.linspace(-6, 6, 500, dtype=np.float32)
        exact = [0.5 * number * (1 + math.erf(number / math.sqrt(2))) for number in x.tolist()]
        _gelu(x)
        assert x == pytest.approx(exact, abs=5e-4)
