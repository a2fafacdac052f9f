"""A fleet on paper: replicas behind a balancer, each held to a part of a processor, and one Redis, as queues.

    python benchmarks/simulation.py     # what many sessions and gateways need, from figures measured on one replica

`fleet.py --predict` measures those figures, and holds what this predicts of three replicas against what they do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import simpy

Steps = Generator[simpy.Event, Any, None]
_EPSILON_S = 1e-9


@dataclass(frozen=True)
class Model:
    """What a request takes, and what a replica may.

    Args:
        work_s: returns the processor time that one request takes at its replica, in seconds.
        around_s: seconds that each request takes besides, where nobody waits: sockets, the balancer, Redis' answers.
        quota_s: seconds that a replica may run for in each period; as long as it likes where infinite.
        period_s: of the quota.
        idle_share: of a processor, what a replica uses though it is asked nothing.
        cold: how many times its work a request takes that finds its replica idle: caches are cold, and steps of the
            event loop that requests else share are its own.
        redis_s: seconds of Redis' one processor that a request takes: half before the work, half after it.
    """

    work_s: Callable[[Random], float]
    around_s: float = 0.0
    quota_s: float = inf
    period_s: float = 0.1
    idle_share: float = 0.0
    cold: float = 1.0
    redis_s: float = 0.0


class Replica:
    """One processor that works on requests in the order they came, for as long as its quota of the period lasts."""

    def __init__(self, env: simpy.Environment, model: Model, phase_s: float) -> None:
        self._env, self._model, self._phase_s = env, model, phase_s
        self._turn = simpy.Resource(env)
        self._period, self._left_s = -1, 0.0
        self.n_open = 0
        """Requests that it has been sent and has not answered."""
        self.busy_s = 0.0

    def work(self, seconds: float) -> Steps:
        """Work for so many seconds of processor time."""
        with self._turn.request() as turn:
            yield turn
            yield from self._run(seconds)

    def _run(self, seconds: float) -> Steps:
        model, self.busy_s = self._model, self.busy_s + seconds
        if model.quota_s == inf:
            yield self._env.timeout(seconds)
            return
        while seconds > _EPSILON_S:
            at_s = self._env.now - self._phase_s + _EPSILON_S
            period = int(at_s // model.period_s)
            if period != self._period:
                self._period, self._left_s = period, model.quota_s - model.idle_share * model.period_s
            ends_s = (period + 1) * model.period_s + self._phase_s
            run_s = min(seconds, self._left_s, max(_EPSILON_S, ends_s - self._env.now))
            if run_s > _EPSILON_S:
                yield self._env.timeout(run_s)
                seconds, self._left_s = seconds - run_s, self._left_s - run_s
            if seconds > _EPSILON_S:  # it is throttled until the next period, or that begins
                yield self._env.timeout(max(_EPSILON_S, ends_s - self._env.now))


@dataclass(frozen=True)
class Simulated:
    """What came of it.

    Args:
        walls: seconds that each request took.
        busy: of the time, what a replica worked on the average.
    """

    walls: list[float]
    busy: float


def simulate(model: Model, n_replicas: int, per_s: float, n_requests: int, *, seed: int = 0) -> Simulated:
    """Return what becomes of requests that come at Poisson times and go to the replica with the fewest under way.

    Of several such it is the one whose turn it is, as nginx has it. The first tenth only fills the queues.

    Args:
        model: of requests and replicas.
        n_replicas: how many.
        per_s: requests a second.
        n_requests: how many.
        seed: of times and of work.
    """
    env, draw, walls = simpy.Environment(), Random(seed), []
    replicas = [Replica(env, model, draw.random() * model.period_s) for _ in range(n_replicas)]
    redis = simpy.Resource(env)

    def asked_of_redis(seconds: float) -> Steps:
        if seconds:
            with redis.request() as turn:
                yield turn
                yield env.timeout(seconds)

    def served(number: int) -> Steps:
        began_s = env.now
        at = min(range(n_replicas), key=lambda i: (replicas[i].n_open, (i - number) % n_replicas))
        work_s = model.work_s(draw) * (1 if replicas[at].n_open else model.cold)
        replicas[at].n_open += 1
        yield from asked_of_redis(model.redis_s / 2)
        yield from replicas[at].work(work_s)
        yield from asked_of_redis(model.redis_s / 2)
        replicas[at].n_open -= 1
        if number >= n_requests // 10:
            walls.append(env.now - began_s + model.around_s)

    def arriving() -> Steps:
        for number in range(n_requests):
            yield env.timeout(draw.expovariate(per_s))
            env.process(served(number))

    env.process(arriving())
    env.run()
    return Simulated(walls, sum(each.busy_s for each in replicas) / n_replicas / env.now)
