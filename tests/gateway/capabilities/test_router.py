"""Routing what users say to capabilities, behind which vectors come and go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from agent_utilities.errors import RankerError
from agent_utilities.gateway.capabilities.model import Route
from agent_utilities.gateway.capabilities.router import BY_MODEL, BY_WORDS, CapabilityRouter
from agent_utilities.query.ranking.embedding import Embedder
from agent_utilities.query.ranking.minilm import PLAIN_NAME
from agent_utilities.query.ranking.open import open_rankers
from agent_utilities.settings import Settings

pytestmark = pytest.mark.anyio
TRIGGERS = {
    "docker": ("list running docker containers", "build a docker image"),
    "maps": ("give me directions on the map",),
}
BOTH = frozenset(TRIGGERS)
SAID = "list the docker containers that run"


class Model:
    """A model whose vectors hold nothing but what is counted; it says which texts it was asked for.

    Args:
        name: whose gate holds.
        cause: why it embeds nothing; empty where it does.
    """

    claim_distance = 0.0

    def __init__(self, name: str = PLAIN_NAME, cause: str = "") -> None:
        self.name, self.cause = name, cause
        self.asked: list[str] = []
        self.may_embed = threading.Event()
        self.may_embed.set()
        self.is_asked = threading.Event()

    def embed(self, texts: Sequence[str], role: str) -> np.ndarray:
        self.is_asked.set()
        self.may_embed.wait()
        if self.cause:
            raise RankerError(self.cause)
        self.asked += texts
        rows = [["docker" in text or "container" in text, "map" in text, 0.1] for text in texts]
        return np.array(rows, dtype=np.float32)


async def ready(router: CapabilityRouter, triggers: dict[str, tuple[str, ...]] = TRIGGERS) -> CapabilityRouter:
    router.use(triggers)
    await router.wait_until_ready()
    return router


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_utilities.gateway.capabilities.router._VECTORS_S", 60)


def of(model: Model) -> CapabilityRouter:
    return CapabilityRouter(Embedder(lambda: model))


class TestRoute:
    async def test_leads_to_what_is_called_for(self) -> None:
        route = await (await ready(of(Model()))).route(SAID, BOTH)
        assert (route.activated, route.by_words) == ("docker", False)
        assert route.gate == BY_MODEL[PLAIN_NAME].for_best(route.scores[0][1], 4)

    async def test_is_by_words_where_there_is_no_model(self) -> None:
        route = await (await ready(CapabilityRouter())).route(SAID, BOTH)
        assert (route.activated, route.by_words) == ("docker", True)
        assert route.gate == BY_WORDS.for_best(route.scores[0][1], 4)

    async def test_leads_nowhere_where_too_little_is_said(self) -> None:
        router = await ready(of(Model()))
        for said in ("", "docker", "<log>list running docker containers</log> do it"):
            assert await router.route(said, BOTH) == Route(cause="fewer than 8 characters were said")

    async def test_leads_nowhere_by_what_was_pasted(self) -> None:
        router = await ready(CapabilityRouter())
        log = "2026-03-02 10:11:12 ERROR list of running docker containers failed"
        assert (await router.route(log, BOTH)).scores == ()
        assert (await router.route(f"give me directions on the map\n{log}", BOTH)).activated == "maps"

    async def test_leads_nowhere_where_little_is_said_that_fits_two(self) -> None:
        triggers = {"mail": ("send a mail", "search mails"), "chat": ("send a message", "search messages")}
        router, both = await ready(CapabilityRouter(), triggers), frozenset({"mail", "chat"})
        assert (await router.route("search and send a mail", both)).activated == "mail"
        vague = await router.route("send it to her", both)
        assert (vague.activated, vague.outcome) == (None, "ambiguous")

    async def test_scores_what_may_be_used_alone(self) -> None:
        wide = await ready(of(Model()))
        narrow = await ready(of(Model()), {"maps": TRIGGERS["maps"]})
        only = frozenset({"maps"})
        assert await wide.route(SAID, only) == await narrow.route(SAID, BOTH)

    async def test_before_anything_is_taken_leads_nowhere(self) -> None:
        assert await of(Model()).route(SAID, BOTH) == Route(cause="the triggers are not read yet")

    async def test_where_ranking_is_off_leads_nowhere(self) -> None:
        router = await ready(CapabilityRouter.of(open_rankers(Settings(ranker="off"))))
        assert await router.route(SAID, BOTH) == Route(cause="ranking is off")

    async def test_without_triggers_leads_nowhere(self) -> None:
        route = await (await ready(of(Model()), {"x": ()})).route(SAID, BOTH)
        assert (route.activated, route.scores) == (None, ())


class TestMakingReady:
    async def test_routes_by_words_until_vectors_are_there(self) -> None:
        model = Model()
        model.may_embed.clear()
        router = of(model)
        router.use(TRIGGERS)
        await asyncio.to_thread(model.is_asked.wait)
        assert not router.is_ready
        assert (await router.route(SAID, BOTH)).by_words
        model.may_embed.set()
        await router.wait_until_ready()
        assert (router.is_ready, router.cause) == (True, "")
        assert not (await router.route(SAID, BOTH)).by_words

    async def test_takes_up_what_changed_while_it_worked(self) -> None:
        model = Model()
        model.may_embed.clear()
        router = of(model)
        router.use(TRIGGERS)
        router.use({**TRIGGERS, "containers": ("docker containers that run",)})
        model.may_embed.set()
        await router.wait_until_ready()
        names = frozenset({*BOTH, "containers"})
        assert {name for name, _ in (await router.route(SAID, names)).scores} == names

    async def test_does_nothing_where_nothing_changed(self) -> None:
        router = await ready(of(model := Model()))
        n_asked = len(model.asked)
        await ready(router, dict(TRIGGERS))
        assert len(model.asked) == n_asked

    async def test_forgets_what_is_gone(self) -> None:
        router = await ready(await ready(of(Model())), {"maps": TRIGGERS["maps"]})
        assert [name for name, _ in (await router.route(SAID, BOTH)).scores] == ["maps"]


class TestFaults:
    async def test_a_model_that_cannot_be_had_leaves_words_and_is_tried_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("agent_utilities.gateway.capabilities.router.RETRY_S", 0)
        router = await ready(of(model := Model(cause="absent")))
        assert router.cause == "routed by words alone"
        model.cause = ""
        await router.route(SAID, BOTH)
        await router.wait_until_ready()
        assert not (await router.route(SAID, BOTH)).by_words

    async def test_a_model_that_fails_for_a_message_leaves_words_for_that_one(self) -> None:
        router = await ready(of(model := Model()))
        model.cause = "down"
        assert (await router.route(SAID, BOTH)).by_words
        model.cause = ""
        assert not (await router.route(SAID, BOTH)).by_words

    async def test_a_model_that_hangs_costs_the_vectors_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("agent_utilities.gateway.capabilities.router._VECTORS_S", 0.01)
        router = await ready(of(model := Model()))
        model.may_embed.clear()
        try:
            assert (await router.route(SAID, BOTH)).activated == "docker"
        finally:
            model.may_embed.set()

    async def test_a_model_without_a_gate_routes_by_words_and_says_so(self) -> None:
        router = await ready(of(Model("unheard-of")))
        assert "no gate was measured for the model 'unheard-of'" in router.cause
        assert (await router.route(SAID, BOTH)).by_words

    async def test_text_that_no_encoding_has_is_routed(self) -> None:
        assert (await (await ready(of(Model()))).route(f"{SAID} \ud800", BOTH)).activated == "docker"


class TestCost:
    async def test_a_message_is_embedded_once_for_ranker_and_router(self) -> None:
        model = Model()
        embedder = Embedder(lambda: model)
        router = await ready(CapabilityRouter(embedder))
        n_asked = len(model.asked)
        await router.route(SAID, BOTH)
        embedder.embed_request((SAID,))
        assert model.asked[n_asked:] == [SAID]

    async def test_what_is_said_again_is_not_compared_again(self) -> None:
        router = await ready(of(Model()))
        assert await router.route(SAID, BOTH) is await router.route(SAID, BOTH)

    async def test_a_message_of_megabytes_leaves_the_loop_free(self) -> None:
        router = await ready(of(Model()))
        n_turns = 0

        async def count() -> None:
            nonlocal n_turns
            while True:
                n_turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await router.route("<a>x</a>" * 200_000 + SAID, BOTH)
        counting.cancel()
        assert n_turns > 10
