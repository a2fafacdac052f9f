"""What vectors are worth beside words, parts of a request and servers: on four tools and cosines written out."""

from __future__ import annotations

import numpy as np
import pytest

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.query.ranking.answerability import Answerability
from agent_utilities.query.ranking.embedding import Embedder
from agent_utilities.query.ranking.hybrid import HybridIndex, kind_of_tool
from agent_utilities.query.ranking.lexical import LexicalRanker
from tests.query.ranking.catalogs import Concepts

SERVERS = ("zoo", "music", "music", "zoo")


def rank(
    cosines: list[list[float]],
    servers=SERVERS,
    unanswerable=(0.0, 0.0, 0.0, 0.0),
    cut=-1.0,
    names=("toola", "toolb", "toolc", "toold"),
    text="quantum",
):
    """Rank four tools whose vectors are the axes, so that a request's vector is its cosines."""
    catalog = [ToolDocument(name, server=server) for name, server in zip(names, servers, strict=True)]
    axes = np.eye(4, dtype=np.float32)
    by_vectors = Answerability(
        axes,
        rows=np.arange(4),
        mean=np.zeros(4, dtype=np.float32),
        scale=np.ones(4, dtype=np.float32),
        unanswerable=np.array([unanswerable, *np.zeros((3, 4))], dtype=np.float32),
        spread=0.1,
        cut=cut,
    )
    index = HybridIndex(
        lexical=LexicalRanker().index(catalog),
        answerability=lambda permitted: by_vectors,
        kinds=np.array([kind_of_tool(document) for document in catalog], dtype=np.uint8),
        embedder=Embedder(Concepts),
        lexical_weight=0.0,
    )
    texts, vectors = [text] * len(cosines), np.array(cosines, dtype=np.float32)
    return index.nearest(index.lexical.view(None), by_vectors, text, texts, vectors, limit=4)


class TestFusing:
    def test_of_equally_near_tools_that_of_the_nearer_server_leads_by_a_fifth_of_its_lead(self):
        ranking = rank([[0.5, 0.5, 0.4, 0.0]])
        assert ranking.indexes == (1, 0, 2, 3)
        assert ranking.scores[0] - ranking.scores[1] == pytest.approx(0.2 * (0.45 - 0.25), abs=1e-5)

    def test_of_a_part_counts_how_near_a_tool_comes_to_the_best_for_it(self):
        ranking = rank([[0.5, 0.4, 0, 0], [0, 0.6, 0, 0], [0.2, 0.1, 0, 0]], servers=("",) * 4)
        assert ranking.indexes[:2] == (1, 0)
        lead = (4 * 0.4 + 2 * (0.6 - 0.3 * 0.6)) / 6 - (4 * 0.5 + 2 * (0.2 - 0.3 * 0.2)) / 6
        assert ranking.scores[0] - ranking.scores[1] == pytest.approx(lead, abs=1e-5)

    def test_a_part_of_many_leads_where_it_would_not_lead_alone(self):
        whole, part = [0.5, 0.3, 0, 0], [0, 0.5, 0, 0]
        assert rank([whole, part], servers=("",) * 4).indexes[0] == 0
        assert rank([whole, part, *[[0, 0, 0, 0.1]] * 7], servers=("",) * 4).indexes[0] == 1


class TestVerbs:
    NAMES = ("alert_delete", "alert_list", "alert", "list_or_delete_alert")

    def test_a_tool_that_does_something_of_another_kind_loses_a_little(self):
        for text, first in [
            ("show the alerts", 1),
            ("remove an alert", 0),
            ("list and remove alerts", 0),
            ("about alerts", 0),
        ]:
            ranking = rank([[0.44, 0.42, 0, 0]], servers=("",) * 4, names=self.NAMES, text=text)
            assert ranking.indexes[0] == first

    def test_one_that_is_clearly_nearer_leads_still(self):
        ranking = rank([[0.5, 0.42, 0, 0]], servers=("",) * 4, names=self.NAMES, text="show the alerts")
        assert ranking.indexes[0] == 0

    def test_what_is_of_no_kind_or_of_two_loses_nothing(self):
        ranking = rank([[0, 0, 0.44, 0.43]], servers=("",) * 4, names=self.NAMES, text="update an alert")
        assert ranking.indexes[:2] == (2, 3)
        assert ranking.scores[0] - ranking.scores[2] == pytest.approx(0.44 + 0.05, abs=1e-5)


class TestEvidence:
    def test_it_is_the_best_cosine_of_the_whole_request(self):
        assert rank([[0.1, 0.5, 0, 0], [0, 0, 0.9, 0]]).scores[0] == pytest.approx(0.5, abs=1e-5)

    def test_a_part_that_a_tool_clearly_answers_is_evidence_too_less_six_spreads(self):
        assert rank([[0.1, 0, 0, 0], [0, 0, 0.95, 0]]).scores[0] == pytest.approx(0.95 - 6 * 0.1, abs=1e-5)

    def test_what_a_request_shares_with_those_that_need_no_tool_is_taken_off(self):
        likeness = 0.5 * 0.8 / 4  # the mean of the nearest, of which three share nothing
        ranking = rank([[0, 0.5, 0, 0]], unanswerable=(0, 0.8, 0, 0))
        assert ranking.scores[0] == pytest.approx(0.5 - likeness, abs=1e-5)

    def test_under_the_cut_nothing_is_claimed(self):
        for cut, abstained in [(0.49, False), (0.51, True)]:
            ranking = rank([[0, 0.5, 0, 0]], cut=cut)
            assert (ranking.abstained, ranking.n_claimed == 0) == (abstained, abstained)
