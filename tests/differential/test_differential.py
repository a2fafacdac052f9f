"""Behind the gateway as in front of it: what differs is for a reason that is written down, whatever a server sends."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Event, get_ident

import pytest

from tests.differential.compare import N_LISTED, Found, World, here, listed, world
from tests.differential.plays import Exchange, seed_of
from tests.differential.raw import UPSTREAMS, Client, HttpClient, Message, Told, stdio_client
from tests.differential.reasons import NAMESPACE, REASONS
from tests.every import every
from tests.wire.wires import LEGACY, MODERN

pytestmark = pytest.mark.outside

N_EXCHANGES, N_NIGHTLY = 5_000, 100_000
_AT_ONCE = 5_000
_SHOWN = 12


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("differential"), 0, N_LISTED) as it:
        yield it


@pytest.fixture(scope="module")
def of_lists(served: World) -> Found:
    """What all that the servers list comes to."""
    served.lists(found := Found())
    return found


@pytest.fixture(scope="module")
def of_exchanges(served: World) -> Found:
    """What the exchanges of every run come to."""
    served.exchanges(range(N_EXCHANGES), found := Found())
    return found


def told(found: Found) -> str:
    """Return what to do about differences, and the first of them."""
    seeds = sorted({str(each.seed) for each in found.differences})
    again = f"python -m tests.differential.compare {' '.join(seeds[:_SHOWN])}"
    shown = "\n".join(map(str, found.differences[:_SHOWN]))
    return f"{len(found.differences)} of {found.n_compared} differ; once more: {again}\n{shown}"


@pytest.mark.timeout(600)
class TestEveryRun:
    def test_nothing_that_is_listed_differs_but_for_a_reason(self, of_lists: Found) -> None:
        assert not of_lists.differences, told(of_lists)

    def test_nothing_that_is_answered_differs_but_for_a_reason(self, of_exchanges: Found) -> None:
        assert not of_exchanges.differences, told(of_exchanges)

    def test_no_reason_is_written_down_that_nothing_needs(self, of_lists: Found, of_exchanges: Found) -> None:
        assert set(REASONS) - (of_lists.needed | of_exchanges.needed) == set()

    @every("era", [LEGACY, MODERN])
    def test_a_server_is_listed_whatever_its_neighbours_list(self, served: World, era: str) -> None:
        with closing(HttpClient(served.gateway.process.url, era)) as client:
            tools = listed(client, "tools/list", "tools")
        assert "honest_hello" in [tool["name"] for tool in tools]


def test_an_answer_that_no_end_of_a_line_follows_is_one(served: World) -> None:
    for upstream in UPSTREAMS:
        if upstream.transport != "stdio":
            continue
        params = {"name": "play", "arguments": {"last": True}}
        with stdio_client(upstream, 0, 0) as alone:
            own = alone.ask("tools/call", params).answer
        for era in (LEGACY, MODERN):
            with closing(HttpClient(served.gateway.process.url, era)) as client:
                named = {**params, "name": NAMESPACE.namespaced(upstream.name, "play")}
                answer = client.ask("tools/call", named).answer
            assert own is not None
            assert answer is not None
            assert answer["result"]["content"] == own["result"]["content"]


@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
def test_nothing_differs_in_a_hundred_thousand_new_exchanges(tmp_path: Path) -> None:
    start = random.SystemRandom().randrange(10**9)
    found = Found()
    with world(tmp_path, start, N_LISTED * 5) as it:
        it.lists(found)
        for first in range(start, start + N_NIGHTLY, _AT_ONCE):
            it.exchanges(range(first, first + _AT_ONCE), found)
    assert not found.differences, told(found)
    assert set(REASONS) - found.needed == set()


class Beside(World):
    """A world of clients that answer nothing, in which it shows whether a loud exchange begins beside another."""

    def __init__(self) -> None:
        self.is_loud_beside = Event()
        self.loud: list[int] = []
        self._under_way: set[tuple[int | None, int]] = set()
        super().__init__(None, {each.name: self for each in UPSTREAMS}, 0)  # type: ignore[arg-type, dict-item]

    @contextmanager
    def callers(self, era: str, n_callers: int = 2) -> Iterator[SimpleQueue[Client]]:
        free: SimpleQueue[Client] = SimpleQueue()
        for _ in range(n_callers):
            free.put(self)
        yield free

    def ask(self, method: str, params: Message) -> Told:
        if (seed := seed_of(method, params)) is not None and Exchange(seed, method, "fuzz").play(LEGACY).is_loud:
            self.loud.append(seed)
            if self._under_way:
                self.is_loud_beside.set()
        else:
            self._under_way.add(mine := (seed, get_ident()))
            self.is_loud_beside.wait(0.002)
            self._under_way.remove(mine)
        return Told((), {})


def test_exchanges_with_log_messages_begin_once_all_others_have_ended() -> None:
    (it := Beside()).exchanges(range(0, 200, len(UPSTREAMS)), Found())
    assert it.loud
    assert not it.is_loud_beside.is_set()


def test_an_exchange_is_the_same_whenever_its_seed_is_taken() -> None:
    first = Exchange(7, "tools/call", "fuzz")
    assert (first.params, first.play(MODERN)) == (Exchange(7, "tools/call", "fuzz").params, first.play(MODERN))
    assert here(first, UPSTREAMS[0])["name"] == "s25_play"
