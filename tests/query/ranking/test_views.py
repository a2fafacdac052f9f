"""Views of a catalog: one for each set of permitted tools, kept while there is room, and freed with the catalog."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

import numpy as np
import pytest

from agent_utilities.query.ranking.base import SPARE_BYTES
from agent_utilities.query.ranking.base import views_of as kept_views
from agent_utilities.query.ranking.hybrid import HybridRanker
from agent_utilities.query.ranking.lexical import LexicalRanker
from tests.every import every
from tests.query.ranking.catalogs import TOOLS, Concepts

N_TOOLS = 8


@dataclass(eq=False)
class Part:
    """A view that says what it weighs."""

    places: tuple[int, ...]
    n_bytes: int


class Maker:
    """Makes parts of one weight, and remembers which it was asked for and which of them still live."""

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes = n_bytes
        self.asked: list[tuple[int, ...]] = []
        self.alive: weakref.WeakSet[Part] = weakref.WeakSet()

    def __call__(self, places: np.ndarray) -> Part:
        self.asked.append(tuple(places.tolist()))
        part = Part(self.asked[-1], self.n_bytes)
        self.alive.add(part)
        return part


def views_of(make: Maker, whole_bytes: int = 0) -> Callable[[Sequence[int] | None], Part]:
    return kept_views(Part(tuple(range(N_TOOLS)), whole_bytes), N_TOOLS, make)


class TestMaking:
    def test_a_view_is_made_once_for_its_tools(self):
        views = views_of(make := Maker(n_bytes=1))
        assert views((1, 2)) is views([1, 2])
        assert make.asked == [(1, 2)]

    def test_places_are_ascending_and_stand_once(self):
        views = views_of(make := Maker(n_bytes=1))
        assert views((3, 1, 3)).places == (1, 3)
        assert make.asked == [(1, 3)]

    def test_where_all_is_permitted_nothing_is_made(self):
        for permitted in [None, tuple(range(N_TOOLS)), [*range(N_TOOLS)][::-1]]:
            views = views_of(make := Maker(n_bytes=1))
            assert views(permitted) is views(None)
            assert make.asked == []


class TestRoom:
    def test_no_more_is_kept_than_there_is_room_for(self):
        views = views_of(make := Maker(n_bytes=SPARE_BYTES // 4))
        for place in range(N_TOOLS):
            views((place,))
        assert sorted(part.places for part in make.alive) == [(5,), (6,), (7,)]

    def test_the_view_used_least_recently_goes_first(self):
        views = views_of(make := Maker(n_bytes=SPARE_BYTES // 4))
        for permitted in ((0,), (1,), (2,), (0,), (3,)):
            views(permitted)
        assert sorted(part.places for part in make.alive) == [(0,), (2,), (3,)]

    def test_views_as_large_as_a_large_catalog_have_room(self):
        views = views_of(make := Maker(n_bytes=10 * SPARE_BYTES), whole_bytes=10 * SPARE_BYTES)
        assert views((1,)) is views((1,))
        views((2,))
        assert [part.places for part in make.alive] == [(2,)]

    def test_views_of_few_bytes_are_not_kept_without_end(self):
        views = views_of(make := Maker(n_bytes=0))
        for permitted in islice(product(range(N_TOOLS), repeat=5), 10_000):
            views(permitted)
        assert len(make.alive) <= SPARE_BYTES // 4096


@pytest.fixture
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collection")
@every("ranker", [LexicalRanker(), HybridRanker(Concepts)], ids=["lexical", "hybrid"])
def test_an_index_that_is_swapped_out_is_freed_without_a_collection(ranker):
    index = ranker.index(TOOLS)
    index.rank("newest commits", permitted=(0, 1, 2))
    swapped_out = weakref.ref(index)
    del index
    assert swapped_out() is None
