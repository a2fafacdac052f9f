"""Which requests a catalog is said to answer at all: the cut is measured on the catalog, by whatever model it has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.query.ranking.answerability import Answerability
from agent_utilities.query.ranking.lexical import LEAST_CUT, LexicalRanker

N_DIMENSIONS = 64
RANDOM = np.random.default_rng(7)
VARIED = RANDOM.normal(size=(40, N_DIMENSIONS))
UNANSWERABLE = RANDOM.normal(size=(64, N_DIMENSIONS))
THEME = RANDOM.normal(size=N_DIMENSIONS)


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def answerability(vectors: np.ndarray, common: float = 0.0) -> Answerability:
    """Return that of tools by a model which lets all texts have something in common."""
    rows = np.arange(len(vectors))
    return Answerability.of(unit(vectors + common * THEME), rows, unit(UNANSWERABLE + common * THEME))


def evidence(of: Answerability, request: np.ndarray) -> float:
    return of.evidence(request[None, :], of.cosines(request[None, :])[0], 0.0)


class TestVectors:
    def test_what_is_asked_of_a_catalog_about_one_thing_must_be_near_to_many_tools(self):
        about_one_thing = answerability(VARIED + THEME)
        assert about_one_thing.cut > answerability(VARIED).cut + 0.1
        assert evidence(about_one_thing, unit(THEME)) > about_one_thing.cut

    def test_a_model_whose_texts_are_all_alike_abstains_from_the_same_requests(self):
        for common in [0.0, 1.0, 2.0]:
            of = answerability(VARIED, common)
            foreign = unit(np.random.default_rng(8).normal(size=(500, N_DIMENSIONS)) + common * THEME)
            own = unit(VARIED + 0.8 * np.random.default_rng(9).normal(size=VARIED.shape) + common * THEME)
            assert np.mean([evidence(of, request) < of.cut for request in foreign]) >= 0.9
            assert np.mean([evidence(of, request) > of.cut for request in own]) == 1

    def test_servers_of_many_tools_that_are_alike_do_not_make_a_catalog_about_one_thing(self):
        random = np.random.default_rng(3)
        servers = np.repeat(VARIED[:4], 12, axis=0)
        of = answerability(servers + 0.3 * random.normal(size=servers.shape))
        own = unit(servers + 1.5 * random.normal(size=servers.shape))
        assert np.mean([evidence(of, request) > of.cut for request in own]) >= 0.9

    def test_a_few_tools_are_never_known_to_be_about_one_thing(self):
        assert answerability(VARIED[:32] + THEME).cut < answerability(VARIED + THEME).cut - 0.1

    def test_requests_that_the_catalog_happens_to_answer_do_not_raise_the_cut(self):
        some_answered = np.vstack([VARIED, UNANSWERABLE[:8]])
        assert answerability(some_answered).cut < answerability(VARIED).cut + 0.1

    def test_a_part_of_a_catalog_is_measured_as_a_catalog_of_it_alone(self):
        places = np.arange(0, 40, 3)
        part, alone = answerability(VARIED).within(places), answerability(VARIED[places])
        assert (part.cut, part.spread) == (alone.cut, alone.spread)


NOUNS = "invoice bucket queue branch order secret report table alert user team message backup file".split()


class TestWords:
    def test_tools_that_all_say_the_same_ask_for_more_than_a_common_word(self):
        tools = [
            ToolDocument(f"{verb}_{noun}", description=f"{verb} {noun} records of a storage account")
            for noun in NOUNS
            for verb in ("list", "create", "restore", "delete")
        ]
        varied = [replace(tool, description="") for tool in tools]
        asked = "which account holds my grandmother's holiday photographs and letters"
        assert LexicalRanker().index(tools).rank(asked).abstained
        assert LexicalRanker().index(tools).view(None).cut > LexicalRanker().index(varied).view(None).cut

    def test_few_tools_have_the_least_cut(self):
        index = LexicalRanker().index([ToolDocument("git_log"), ToolDocument("git_diff")])
        assert index.rank("show the log").cut == LEAST_CUT

    def test_words_that_no_tool_has_count_against_those_that_some_have(self):
        index = LexicalRanker().index([ToolDocument(f"list_{noun}") for noun in NOUNS])
        plain, drowned = (index.rank(f"list the invoice{rest}") for rest in ("", " of a violin sonata in autumn"))
        assert drowned.scores[0] < plain.scores[0] / 4
