"""The laws every index keeps: permitted only, deterministic, ties in catalog order."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.query.ranking.hybrid import HybridRanker
from agent_utilities.query.ranking.lexical import LexicalRanker
from tests.query.ranking.catalogs import PLACES, TOOLS, Concepts, rank_samples
from tests.query.ranking.strategies import catalogs, documents, texts

RANKERS = {"lexical": LexicalRanker, "hybrid": lambda: HybridRanker(Concepts)}
KINDS = st.sampled_from(sorted(RANKERS))


class TestEveryIndex:
    @given(kind=KINDS, catalog=catalogs, query=texts, data=st.data())
    @settings(max_examples=150)
    def test_it_ranks_only_what_is_permitted_and_no_tool_twice(self, kind, catalog, query, data):
        permitted = data.draw(st.lists(st.integers(0, len(catalog) - 1), unique=True)) if catalog else []
        indexes = RANKERS[kind]().index(catalog).rank(query, permitted=permitted).indexes
        assert set(indexes) <= set(permitted)
        assert len(set(indexes)) == len(indexes)

    @given(kind=KINDS, catalog=catalogs, query=texts, limit=st.integers(0, 30))
    @settings(max_examples=150)
    def test_scores_never_rise_and_ties_stand_in_catalog_order(self, kind, catalog, query, limit):
        ranking = RANKERS[kind]().index(catalog).rank(query, limit=limit)
        assert list(ranking.scores) == sorted(ranking.scores, reverse=True)
        assert len(ranking.indexes) == len(ranking.scores) == len(ranking.matched) <= limit
        pairs = list(zip(ranking.scores, ranking.indexes, strict=True))
        assert pairs == sorted(pairs, key=lambda pair: (-pair[0], pair[1]))

    @given(kind=KINDS, catalog=catalogs, query=texts, limit=st.integers(1, 6))
    @settings(max_examples=150)
    def test_a_lower_limit_cuts_the_same_ranking_short(self, kind, catalog, query, limit):
        index = RANKERS[kind]().index(catalog)
        assert index.rank(query, limit=limit).indexes == index.rank(query).indexes[:limit]

    @given(kind=KINDS, catalog=catalogs, query=texts, limit=st.integers(0, 6))
    @settings(max_examples=150)
    def test_what_is_claimed_leads_and_does_not_depend_on_the_limit(self, kind, catalog, query, limit):
        index = RANKERS[kind]().index(catalog)
        whole = index.rank(query)
        assert whole.n_claimed <= len(whole.indexes)
        assert (whole.n_claimed == 0) == whole.abstained
        assert index.rank(query, limit=limit).n_claimed == min(limit, whole.n_claimed)

    @given(kind=KINDS, catalog=catalogs, query=texts)
    @settings(max_examples=150)
    def test_equal_scores_are_claimed_together(self, kind, catalog, query):
        ranking = RANKERS[kind]().index(catalog).rank(query)
        claimed = set(ranking.scores[: ranking.n_claimed])
        assert not claimed & set(ranking.scores[ranking.n_claimed :])

    def test_a_tool_named_in_the_request_is_claimed_and_so_is_what_fits_the_rest(self):
        for kind in RANKERS:
            ranking = RANKERS[kind]().index(TOOLS).rank("deleteFolder, list the newest commits")
            claimed = ranking.indexes[: ranking.n_claimed]
            assert claimed[0] == PLACES["deleteFolder"]
            assert PLACES["git_log"] in claimed

    def test_a_tool_far_behind_the_best_is_not_claimed(self):
        for kind in RANKERS:
            catalog = [
                ToolDocument("count_client_requests", description="Count the requests of each client, newest first"),
                *(ToolDocument(f"tool{letter}", description="Show the client") for letter in "abcdef"),
            ]
            ranking = RANKERS[kind]().index(catalog).rank("count the newest requests of each client")
            assert (ranking.n_claimed, len(ranking.indexes)) == (1, 7)

    @given(kind=KINDS, before=catalogs, catalog=catalogs, query=texts)
    @settings(max_examples=150)
    def test_an_index_made_from_another_is_the_one_made_anew(self, kind, before, catalog, query):
        ranker = RANKERS[kind]()
        ranker.index(before)
        assert ranker.index(catalog).rank(query) == RANKERS[kind]().index(catalog).rank(query)

    @given(kind=KINDS, catalog=catalogs, query=st.text(max_size=60))
    @settings(max_examples=150)
    def test_any_text_can_be_asked(self, kind, catalog, query):
        assert len(RANKERS[kind]().index(catalog).rank(query).indexes) <= len(catalog)

    @given(kind=KINDS, catalog=catalogs, query=texts, data=st.data())
    @settings(max_examples=300)
    def test_what_is_denied_moves_nothing(self, kind, catalog, query, data):
        places = st.integers(0, len(catalog) - 1)
        permitted = data.draw(st.lists(places, unique=True)) if catalog else []
        alone = RANKERS[kind]().index([catalog[place] for place in sorted(permitted)]).rank(query)
        among = RANKERS[kind]().index(catalog).rank(query, permitted=permitted)
        assert among == replace(alone, indexes=tuple(sorted(permitted)[place] for place in alone.indexes))

    @given(kind=KINDS, catalog=catalogs, other=documents, query=texts, data=st.data())
    @settings(max_examples=150)
    def test_a_denied_tool_that_changes_changes_nothing(self, kind, catalog, other, query, data):
        place = data.draw(st.integers(0, len(catalog)))
        permitted = [permitted for permitted in range(len(catalog) + 1) if permitted != place]
        before, after = (
            RANKERS[kind]().index([*catalog[:place], denied, *catalog[place:]]).rank(query, permitted=permitted)
            for denied in (ToolDocument("denied"), other)
        )
        assert before == after

    def test_the_order_of_what_is_permitted_is_no_matter(self):
        for kind in RANKERS:
            index = RANKERS[kind]().index(TOOLS)
            rankings = [
                index.rank("git log of the file", permitted=order) for order in ([0, 1, 3], (3, 1, 0), [1, 0, 3])
            ]
            assert rankings[0] == rankings[1] == rankings[2]

    def test_equal_tools_stand_in_catalog_order(self):
        for kind in RANKERS:
            catalog = [ToolDocument(f"tool{chr(97 + i % 26)}", description="Read the log") for i in range(26)]
            same = [ToolDocument("reader", description="Read the log")] * 10
            assert RANKERS[kind]().index([*catalog, *same]).rank("reader", limit=10).indexes == tuple(range(26, 36))

    def test_an_empty_catalog_ranks_nothing(self):
        for kind in RANKERS:
            ranking = RANKERS[kind]().index([]).rank("anything")
            assert (ranking.indexes, ranking.abstained) == ((), True)

    def test_ten_thousand_identical_descriptions_are_ranked_in_catalog_order(self):
        for kind in RANKERS:
            catalog = [ToolDocument("tool", description="Count the requests")] * 10_000
            assert RANKERS[kind]().index(catalog).rank("count requests", limit=5).indexes == (0, 1, 2, 3, 4)

    def test_a_description_of_200_kilobytes_is_no_matter(self):
        for kind in RANKERS:
            long = ToolDocument("essay", description="lorem ipsum dolor " * 11_000)
            assert RANKERS[kind]().index([long, *TOOLS]).rank("git_status").indexes[0] == 1


_SCRIPT = """
import json
from tests.query.ranking.catalogs import rank_samples
print(json.dumps(rank_samples()))
"""


class TestDeterminism:
    def test_a_process_with_another_hash_seed_ranks_the_same(self, request):
        elsewhere = subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            env={"PYTHONHASHSEED": "4242", "PYTHONPATH": str(request.config.rootpath)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        assert json.loads(elsewhere) == json.loads(json.dumps(rank_samples()))
