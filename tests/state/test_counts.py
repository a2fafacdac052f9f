"""What one process counts: by windows, all or nothing, in no more room than it has."""

from __future__ import annotations

import gc
import weakref
from contextvars import ContextVar, copy_context

import pytest

from agent_utilities.state import counts
from agent_utilities.state.counts import Counts, Wanted

pytestmark = pytest.mark.anyio


class Clock:
    """The time that windows go by, which stands until it is set forward."""

    now = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(counts, "monotonic", lambda: clock.now)
    return clock


def calls(of: str = "ann", n: int = 1, limit: int | None = 2) -> Wanted:
    return Wanted(of, "calls", n, limit)


class TestWindows:
    async def test_take_so_many_and_say_when_they_end(self, clock: Clock) -> None:
        kept = Counts(60, 10)
        assert [await kept.take([calls()]) for _ in range(2)] == [{}, {}]
        clock.now += 20
        assert await kept.take([calls()]) == kept.full([calls()]) == {calls(): 40}

    async def test_begin_with_what_is_counted_first_and_end_for_all_of_it(self, clock: Clock) -> None:
        kept = Counts(60, 10)
        await kept.take([calls(n=0)])
        clock.now += 30
        await kept.take([calls()])
        clock.now += 59
        await kept.take([calls()])
        assert kept.full([calls()]) == {calls(): 1}
        clock.now += 1
        assert kept.full([calls()]) == {}
        assert await kept.take([calls(limit=1)]) == {}
        assert kept.full([calls(limit=1)]) == {calls(limit=1): 60}

    async def test_bound_nothing_where_no_limit_is_given(self) -> None:
        kept = Counts(60, 10)
        assert [await kept.take([calls(n=1000, limit=None)]) for _ in range(3)] == [{}] * 3
        assert calls(limit=3000) in kept.full([calls(limit=3000), calls(limit=3001)])
        assert calls(limit=3001) not in kept.full([calls(limit=3000), calls(limit=3001)])

    async def test_of_others_and_of_other_things_are_others(self) -> None:
        kept = Counts(60, 10)
        await kept.take([calls(n=2)])
        assert kept.full([calls("bob"), Wanted("ann", "bytes", 1, 2)]) == {}


async def test_nothing_is_counted_where_anything_is_full() -> None:
    kept = Counts(60, 10)
    await kept.take([calls("ann", n=2)])
    for _ in range(5):
        assert list(await kept.take([calls("tool"), calls("ann")])) == [calls("ann")]
    assert kept.full([calls("tool", limit=1)]) == {}


async def test_of_more_than_there_is_room_for_the_one_not_asked_for_the_longest_begins_anew() -> None:
    kept = Counts(60, 2)
    for name in ("ann", "bob"):
        await kept.take([calls(name, n=2)])
    kept.full([calls("ann")])
    await kept.take([calls("eve", n=2)])
    assert len(kept._kept) == 2
    assert list(kept.full([calls("eve"), calls("ann"), calls("bob")])) == [calls("eve"), calls("ann")]


async def test_nothing_of_the_context_that_counts_is_kept() -> None:
    class Request:
        """What a context leads to."""

    in_force: ContextVar[Request] = ContextVar("in_force")
    kept, context, request = Counts(60, 10), copy_context(), Request()
    context.run(in_force.set, request)
    with pytest.raises(StopIteration):
        context.run(kept.take([calls()]).send, None)
    seen = weakref.ref(request)
    del context, request
    gc.collect()
    assert seen() is None
