"""The simulation of a fleet does what queueing theory says, where that has a formula."""

from __future__ import annotations

from statistics import fmean

import pytest

from benchmarks.simulation import Model, simulate
from tests.every import every

MEAN_S = 0.01


def exponential(**more: float) -> Model:
    return Model(lambda draw: draw.expovariate(1 / MEAN_S), **more)


def constant(seconds: float = MEAN_S, **more: float) -> Model:
    return Model(lambda _: seconds, **more)


def mean_s(model: Model, n: int, load: float, n_requests: int = 30_000) -> float:
    return fmean(simulate(model, n, load * n / MEAN_S, n_requests, seed=7).walls)


class TestOneReplica:
    @every("load", [0.3, 0.6])
    def test_of_exponential_work_takes_what_m_m_1_says(self, load: float):
        assert mean_s(exponential(), 1, load) == pytest.approx(MEAN_S / (1 - load), rel=0.08)

    @every("load", [0.3, 0.6])
    def test_of_constant_work_waits_half_as_long_as_m_d_1_says(self, load: float):
        waits_s = mean_s(constant(), 1, load) - MEAN_S
        assert waits_s == pytest.approx(MEAN_S * load / (2 * (1 - load)), rel=0.08)

    def test_is_busy_for_its_load(self):
        assert simulate(constant(), 1, 50, 20_000).busy == pytest.approx(0.5, rel=0.03)


class TestSeveral:
    def test_with_the_fewest_under_way_take_no_less_than_one_queue_for_all_would(self):
        m_m_2_s = MEAN_S / (1 - 0.7**2)
        assert 0.97 * m_m_2_s < mean_s(exponential(), 2, 0.7) < MEAN_S / (1 - 0.7)

    def test_wait_for_one_redis_that_has_no_more_room(self):
        model = constant(0.0, redis_s=MEAN_S)
        assert mean_s(model, 4, 0.2) > 1.5 * MEAN_S


class TestAQuota:
    def test_throttles_until_the_next_period(self):
        walls = simulate(constant(0.06, quota_s=0.025, period_s=0.1), 1, 0.01, 20, seed=1).walls
        assert all(0.135 - 1e-6 < wall < 0.21 + 1e-6 for wall in walls)

    def test_is_no_burden_to_what_fits(self):
        assert simulate(constant(0.01, quota_s=0.025), 1, 0.01, 20).walls == pytest.approx([0.01] * 18)

    def test_is_what_a_full_replica_serves_by(self):
        held = simulate(constant(0.002, quota_s=0.025), 1, 500, 5_000)
        assert held.busy == pytest.approx(0.25, rel=0.03)


def test_the_same_seed_gives_the_same_figures():
    once, again = (simulate(exponential(), 2, 100, 500, seed=3).walls for _ in range(2))
    assert once == again
