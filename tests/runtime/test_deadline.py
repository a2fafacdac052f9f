"""A deadline is one point in time: steps take shares of what is left of it."""

from __future__ import annotations

import asyncio

import pytest

from agent_utilities.runtime.deadline import Deadline

pytestmark = pytest.mark.anyio


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch):
    """Set the event loop's time."""

    def set_time(seconds: float) -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: seconds)

    return set_time


async def test_what_is_left_goes_down_and_never_below_nothing(at):
    deadline = Deadline(100.0)
    at(90.0)
    assert deadline.left_s == 10.0
    at(101.0)
    assert deadline.left_s == 0.0


async def test_a_share_is_of_what_is_left_not_of_what_there_was(at):
    at(90.0)
    deadline = Deadline.after(10.0)
    at(96.0)
    assert deadline.share(0.5) == Deadline(98.0)


async def test_a_share_is_no_less_than_its_least(at):
    at(100.0)
    assert Deadline(100.0).share(0.5, least_s=0.25) == Deadline(100.25)


async def test_its_timeout_ends_at_the_same_point_wherever_it_begins():
    deadline = Deadline.after(0)
    with pytest.raises(TimeoutError):
        async with deadline.timeout():
            await asyncio.Event().wait()
