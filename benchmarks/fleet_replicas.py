"""What one, two and three replicas serve, each held to a quarter of a processor: `fleet.py --replicas`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import fmean
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from benchmarks.fleet_load import ask_at_random, ask_on, connected
from benchmarks.fleet_processes import OTHERS, PERIOD_S, QUOTA_S, Fleet
from benchmarks.http_lane import ERAS, Era
from benchmarks.measure import quantile, spread

N_REPLICAS = 3
GOAL_RATIO, SESSION_BYTES = 2.8, 2048
N_EACH = 8
"""Callers for each replica: enough that it always has something to do, and few enough that none waits for long."""
_WARM_S = 2.0
MOST_OTHERS, _N_TRIES = 0.15, 3
"""Of a processor, what others may use while something is measured; else it is measured again, so often at most."""


@dataclass
class Block:
    """What was served in one block.

    Args:
        took_s: how long it was.
        walls: seconds that each request took.
        cpu_s: processor time used, by part.
        redis: calls of each of Redis's commands.
        redis_bytes: read and written by Redis.
        n_bytes: sent and received by callers.
    """

    took_s: float
    walls: list[float]
    cpu_s: Mapping[str, float]
    redis: Mapping[str, int]
    redis_bytes: int
    n_bytes: int

    @property
    def per_s(self) -> float:
        """Requests a second."""
        return len(self.walls) / self.took_s

    @property
    def others(self) -> float:
        """Of a processor, what others on this machine used."""
        return self.cpu_s[OTHERS] / self.took_s


@dataclass
class Measured:
    """The blocks of one era, by how many replicas served, and what a session takes in Redis.

    Args:
        blocks: by the number of replicas.
        session_bytes: of each session.
    """

    blocks: dict[int, list[Block]] = field(default_factory=dict)
    session_bytes: Sequence[int] = ()

    def per_s(self, n: int) -> float:
        """Return the requests a second of so many replicas: the median of the blocks."""
        return spread([each.per_s for each in self.blocks[n]]).median


def _redis_used(fleet: Fleet) -> tuple[dict[str, int], int]:
    stats = cast(dict[str, Any], fleet.redis.admin.info("commandstats"))
    traffic = cast(dict[str, Any], fleet.redis.admin.info("stats"))
    calls = {name.removeprefix("cmdstat_"): int(each["calls"]) for name, each in stats.items()}
    calls.pop("info", None)
    return calls, int(traffic["total_net_input_bytes"]) + int(traffic["total_net_output_bytes"])


async def block(
    fleet: Fleet, port: int, era: Era, n_callers: int, seconds: float, *, at: float = 0, seed: int = 0
) -> Block:
    """Return what was served for some seconds, after two that warm up.

    Args:
        port: of the balancer.
        n_callers: on a connection each.
        at: requests a second that come at random times; where 0 each caller asks anew once it is answered.
        seed: of those times.
    """
    callers = await connected(n_callers, port, era)
    try:
        await (ask_at_random(callers, at, _WARM_S, -1 - seed) if at else ask_on(callers, _WARM_S))
        cpu, (calls, n_redis), began_s = fleet.cpu_s(), _redis_used(fleet), time.perf_counter()
        n_before = sum(each.n_bytes for each in callers)
        walls = await (ask_at_random(callers, at, seconds, seed) if at else ask_on(callers, seconds))
        took_s, now, (calls_now, n_redis_now) = time.perf_counter() - began_s, fleet.cpu_s(), _redis_used(fleet)
        n_bytes = sum(each.n_bytes for each in callers) - n_before
    finally:
        for each in callers:
            each.close()
    used = {part: now[part] - cpu[part] for part in cpu}
    asked = {name: n for name, all_n in calls_now.items() if (n := all_n - calls.get(name, 0))}
    return Block(took_s, walls, used, asked, n_redis_now - n_redis, n_bytes)


def quiet_block(
    fleet: Fleet, n: int, era: Era, n_callers: int, seconds: float, *, at: float = 0, seed: int = 0
) -> Block:
    """Return what the first replicas served, as `block` has it: of a few tries the one that others disturbed least."""
    blocks: list[Block] = []
    while not blocks or (blocks[-1].others > MOST_OTHERS and len(blocks) < _N_TRIES):
        blocks.append(asyncio.run(block(fleet, fleet.over(n), era, n_callers, seconds, at=at, seed=seed)))
    return min(blocks, key=lambda each: each.others)


def warm_up(fleet: Fleet) -> None:
    """Have every replica answer in both eras before any is held, so that none imports anything while measured."""
    for port in fleet.ports:
        for era in ERAS:
            asyncio.run(block(fleet, port, era, 2, 1))


def measure(fleet: Fleet, eras: Sequence[Era], rounds: int, seconds: float) -> dict[Era, Measured]:
    """Return what one, two and three replicas serve, in turns, in an order drawn anew each round."""
    measured = {era: Measured({n: [] for n in range(1, N_REPLICAS + 1)}) for era in eras}
    turns = [(era, n) for era in eras for n in range(1, N_REPLICAS + 1)]
    for number in range(rounds):
        Random(number).shuffle(turns)
        for era, n in turns:
            measured[era].blocks[n].append(quiet_block(fleet, n, era, n * N_EACH, seconds))
    sizes = fleet.session_bytes()
    for each in measured.values():
        each.session_bytes = sizes
    return measured


def show(measured: Mapping[Era, Measured], console: Console) -> None:
    """Print what `measure` gives, beside the goals."""
    for era, each in measured.items():
        table = Table(
            title=f"{era}: replicas at {QUOTA_S / PERIOD_S:.0%} of a processor, {N_EACH} callers each",
            title_justify="left",
        )
        headings = "replicas|requests/s|: one|p50 ms|p99 ms|cpu s per 1,000: replicas|each other|nginx|redis|client|"
        headings += "bytes a request"
        for heading in headings.split("|"):
            table.add_column(heading, justify="right")
        for n, blocks in each.blocks.items():
            walls = [wall for one in blocks for wall in one.walls]
            ratio = spread([one.per_s / base.per_s for one, base in zip(blocks, each.blocks[1], strict=True)])
            goal = f" (goal {GOAL_RATIO})" if n == N_REPLICAS else ""
            busy = [_cpu_s(blocks, f"replica {i}") for i in range(N_REPLICAS)]
            parts = [f"{_cpu_s(blocks, part):.2f}" for part in ("nginx", "redis", "client")]
            table.add_row(
                str(n),
                spread([one.per_s for one in blocks]).text("{:.1f}"),
                ratio.text("{:.2f}") + goal,
                *(f"{1000 * quantile(walls, q):.1f}" for q in (0.5, 0.99)),
                f"{sum(busy[:n]):.2f}",
                f"{fmean(busy[n:]):.2f}" if n < N_REPLICAS else "-",
                *parts,
                f"{sum(one.n_bytes for one in blocks) / len(walls):,.0f}",
            )
        console.print(table)
        _show_redis(each, console)


def _cpu_s(blocks: Sequence[Block], part: str) -> float:
    """Return the seconds of processor time of a part for a thousand requests."""
    return 1000 * sum(each.cpu_s[part] for each in blocks) / sum(len(each.walls) for each in blocks)


def _show_redis(measured: Measured, console: Console) -> None:
    for n, blocks in measured.blocks.items():
        n_requests = sum(len(each.walls) for each in blocks)
        calls: dict[str, int] = {}
        for one in blocks:
            for name, count in one.redis.items():
                calls[name] = calls.get(name, 0) + count
        told = {name: round(1000 * count / n_requests) for name, count in sorted(calls.items(), key=lambda x: -x[1])}
        n_bytes = sum(each.redis_bytes for each in blocks) / n_requests
        text = f"{n} replicas: Redis commands per 1,000 requests {told}, {n_bytes:,.0f} bytes a request"
        shares = {
            part: sum(each.cpu_s[part] for each in blocks) / sum(each.took_s for each in blocks)
            for part in ("nginx", "redis", "client", OTHERS)
        }
        console.print(
            f"{text}; of a processor { ({part: f'{share:.1%}' for part, share in shares.items()}) }", highlight=False
        )
    sizes = measured.session_bytes
    if sizes:
        console.print(
            f"{len(sizes)} sessions, {fmean(sizes):,.0f} bytes each in Redis, goal {SESSION_BYTES}", highlight=False
        )
