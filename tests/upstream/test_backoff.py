"""When an upstream that failed is tried again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.upstream.supervision.backoff import BackoffRule, Failures

RULE = BackoffRule(first_s=1, factor=2, limit_s=8, n_until_open=6, probe_s=100, sustained_s=30, spread=0.25)


def middle() -> float:
    return 0.5


def after(n_failures: int, up_s: float = 0.0) -> Failures:
    failures = Failures()
    for _ in range(n_failures):
        failures = failures.after_failure(RULE, 0.0, up_s, middle)
    return failures


class TestWaits:
    def test_double_up_to_their_limit_and_then_only_a_slow_probe_is_made(self):
        assert [after(n).next_try_s for n in range(1, 8)] == [1, 2, 4, 8, 8, 100, 100]

    @given(n=st.integers(1, 100_000), dice=st.floats(0, 1, exclude_max=True))
    def test_are_spread_and_bounded(self, n: int, dice: float):
        calm = RULE.wait_s(n, middle)
        assert 0.75 * calm <= RULE.wait_s(n, lambda: dice) <= 1.25 * calm <= 125

    def test_of_one_that_is_told_to_stay_out_are_a_probes(self):
        assert Failures().after_failure(RULE, 0.0, 0.0, middle, is_refused=True).next_try_s == 100


class TestReset:
    def test_a_start_resets_nothing(self):
        assert after(3, up_s=29.9).n_failures == 3

    def test_time_that_it_was_up_does_and_the_next_try_may_be_at_once(self):
        assert after(5).after_failure(RULE, 7.0, 30.0, middle) == Failures(1, 7.0)
