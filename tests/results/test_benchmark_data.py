"""The data of `benchmarks/result_budget.py`: what its questions may and may not give away."""

import json
import re

import pytest

from benchmarks.result_data import HALVES, made, results

N = 10
"""Results of each half, spread over its kinds."""


@pytest.fixture(scope="module")
def some():
    return [one for half in HALVES for one in results(half, N)]


def test_results_and_questions_are_the_same_for_a_seed():
    assert made("development", 7) == made("development", 7)


def test_halves_have_no_text_of_a_question_in_common(some):
    questions = [{question.text for one in half for question in one.questions} for half in (some[:N], some[N:])]
    assert not set.intersection(*questions)


def test_half_of_the_results_have_a_second_question(some):
    assert sum(len(one.questions) for one in some) == 3 * N


def test_a_gold_value_is_in_the_whole(some):
    assert [q for one in some for q in one.questions if q.gold not in one.text] == []


def test_a_gold_value_is_in_one_place_of_the_whole(some):
    apart = [(q, one.text.rfind(q.gold) - one.text.find(q.gold)) for one in some for q in one.questions]
    assert [question for question, characters in apart if characters > 3_000] == []


def test_a_question_has_not_its_answer(some):
    assert [q for one in some for q in one.questions if q.gold in q.text] == []


def test_a_question_reveals_no_place(some):
    place = re.compile(r"\b(line|item|index|offset|character|position|page|select|find|start|count)s?\b \d", re.I)
    assert [q for one in some for q in one.questions if place.search(q.text)] == []


def test_a_result_is_as_servers_send_it(some):
    wire = [one.result for one in some]
    assert [result for result in wire if json.loads(json.dumps(result)) != result or not result["content"]] == []
