"""When an upstream that failed is tried again."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.gateway.upstreams.errors import Cause, UpstreamError
from agent_utilities.gateway.upstreams.supervision.backoff import BackoffRule, Counts, Health, Policy

pytestmark = pytest.mark.anyio
RULE = BackoffRule(first_s=1, factor=2, limit_s=8, n_until_open=6, probe_s=100, sustained_s=30, spread=0.25)


def middle() -> float:
    return 0.5


def fail(health: Health, up_s: float = 0.0, cause: Cause = "died") -> float:
    """Return the seconds until the next try after one more failure, to the second."""
    health.failed(UpstreamError("a", cause, ""), up_s)
    assert health.next_try_s is not None
    return round(health.next_try_s - asyncio.get_running_loop().time())


class TestWaits:
    async def test_double_up_to_their_limit_and_then_only_a_slow_probe_is_made(self):
        health = Health(Policy(RULE, dice=middle), Counts())
        assert [fail(health) for _ in range(7)] == [1, 2, 4, 8, 8, 100, 100]

    @given(n=st.integers(1, 100_000), dice=st.floats(0, 1, exclude_max=True))
    def test_are_spread_and_bounded(self, n: int, dice: float):
        calm = RULE.wait_s(n, middle)
        assert 0.75 * calm <= RULE.wait_s(n, lambda: dice) <= 1.25 * calm <= 125

    async def test_of_one_that_is_told_to_stay_out_are_a_probes(self):
        assert fail(Health(Policy(RULE, dice=middle), Counts()), cause="refused") == 100


async def test_a_call_that_was_never_sent_waits_for_no_first_failure_but_for_the_second():
    health = Health(Policy(RULE, dice=middle), Counts())
    for is_refused in (False, True):
        fail(health)
        health.allow_one()
        assert (health.refusal() is not None) == is_refused


async def test_only_time_that_it_was_up_resets_what_failed_before():
    health = Health(Policy(RULE, dice=middle), Counts())
    for up_s, n_failures, wait_s in ((0, 1, 1), (29.9, 2, 2), (30, 1, 0), (0, 2, 2)):
        assert (fail(health, up_s), health.n_failures) == (wait_s, n_failures)
