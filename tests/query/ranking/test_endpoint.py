"""An embeddings endpoint: a real one on loopback, and every way it can fail."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from agent_utilities.errors import RankerError
from agent_utilities.query.ranking.endpoint import KEY_VARIABLE, Endpoint
from agent_utilities.query.ranking.hybrid import HybridRanker
from tests.every import every
from tests.query.ranking.catalogs import PLACES, TOOLS
from tests.query.ranking.endpoint_server import Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def endpoint(server: Server, now: list[float], monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv(KEY_VARIABLE, "secret")
    endpoint = Endpoint(server.url, "tiny", clock=lambda: now[0])
    endpoint.request_timeout_s = 0.3
    yield endpoint
    endpoint.close()


class TestEndpoint:
    def test_vectors_come_in_the_order_of_the_texts(self, endpoint, server):
        texts = [f"text {n}" for n in range(130)]
        assert endpoint.embed(texts, "document").tolist() == server.model.embed(texts, "document").tolist()
        assert server.n_asked == 3

    @every("role", ["document", "query"])
    def test_every_batch_that_is_indexed_has_its_own_time(self, server, role):
        clock = lambda: 4.0 * server.n_asked  # noqa: E731
        endpoint = Endpoint(server.url, "tiny", clock)
        endpoint.request_timeout_s, endpoint.indexing_timeout_s = 1, 5
        assert len(endpoint.embed(["a"] * 130, role)) == 130
        endpoint.close()

    def test_it_names_the_model_and_shows_the_key(self, endpoint, server):
        endpoint.embed(["a"], "query")
        assert server.sent == {"model": "tiny", "input": ["a"], "encoding_format": "float"}
        assert server.authorization == "Bearer secret"

    def test_a_fault_is_said(self, endpoint, server, now, subtests):
        causes = {
            "broken": "answered 500",
            "limited": "answered 429",
            "shape": "answers no embeddings",
            "few": "gives 1 vectors for 2 texts",
            "text": "gives vectors that are none",
        }
        for fault, cause in causes.items():
            now[0] += 100
            server.fault = fault
            with subtests.test(fault), pytest.raises(RankerError, match=cause):
                endpoint.embed(["a", "b"], "query")

    def test_a_slow_one_is_given_up(self, endpoint, server):
        server.fault = "slow"
        with pytest.raises(RankerError, match="can't be asked"):
            endpoint.embed(["a"], "request")

    def test_one_whose_answer_has_no_end_is_given_up(self, server):
        server.fault = "long"
        seconds = count()
        endpoint = Endpoint(server.url, "tiny", clock=lambda: float(next(seconds)))
        endpoint.request_timeout_s = 10
        with pytest.raises(RankerError, match="the answer takes too long"):
            endpoint.embed(["a"], "request")
        endpoint.close()

    def test_one_that_is_down_is_said(self):
        with pytest.raises(RankerError, match="can't be asked"):
            Endpoint("http://127.0.0.1:9", "tiny").embed(["a"], "query")

    @every(("fault", "rest_s"), [("broken", 30), ("limited", 7), ("banned", 600), ("vague", 30)])
    def test_after_a_fault_it_is_left_alone_for_a_while(self, endpoint, server, now, fault, rest_s):
        server.fault, server.n_asked, now[0] = fault, 0, now[0] + 1000
        began_s = now[0]
        with pytest.raises(RankerError):
            endpoint.embed(["a"], "query")
        server.fault = ""
        now[0] = began_s + rest_s - 0.1
        with pytest.raises(RankerError):
            endpoint.embed(["a"], "query")
        assert server.n_asked == 1
        now[0] = began_s + rest_s + 0.1
        assert endpoint.embed(["a"], "query").shape == (1, 96)

    def test_the_key_is_in_no_error(self, endpoint, server):
        server.fault = "broken"
        with pytest.raises(RankerError) as raised:
            endpoint.embed(["a"], "query")
        assert "secret" not in str(raised.value)


class TestInARanker:
    def test_it_finds_by_meaning(self, endpoint):
        ranking = HybridRanker(lambda: endpoint).index(TOOLS).rank("who is hammering the api")
        assert (ranking.indexes[0], ranking.cause) == (PLACES["top_clients"], "")

    def test_a_fault_leaves_the_words(self, endpoint, server, now, subtests):
        index = HybridRanker(lambda: endpoint).index(TOOLS)
        for fault in ("broken", "limited", "dimension", "shape", "few", "text", "slow"):
            now[0] += 100
            server.fault = fault
            with subtests.test(fault):
                ranking = index.rank("list the newest commits and then count the requests")
                assert ranking.indexes[0] in (PLACES["git_log"], PLACES["top_clients"])
                assert ranking.cause.startswith("ranked by words alone: ")
