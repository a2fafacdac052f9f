"""A crowd works over three gateways while two of them are killed, and while Redis fails in each of its ways."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_utilities.gateway.upstreams.sealed_store import new_key
from tests.every import every
from tests.fleet.processes.crowd import Crowd, Gateways, gateways
from tests.fleet.processes.services import RedisServer, nginx, redis_server
from tests.wire.processes import HttpProcess, Launch, served

pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.timeout(900)]


EVERY_KIND = 32
"""Clients of which each is of another kind, by their era, who they are, and the tools that are active for them."""


class Fleet:
    """Redis, three gateways, and the crowd that works over them."""

    def __init__(self, redis: RedisServer, run: Gateways, crowd: Crowd) -> None:
        self.redis, self.gateways, self.crowd = redis, run, crowd


def failures(process: HttpProcess) -> str:
    """Return what a server's log tells of the first that failed in it, if anything did."""
    _, found, rest = process.log.partition("Traceback")
    return (found + rest)[:6_000]


@asynccontextmanager
async def fleet(folder: Path, n_clients: int) -> AsyncIterator[Fleet]:
    with (
        served(Launch(script="bounded_server.py")) as upstream,
        redis_server(folder) as redis,
        gateways(folder, upstream.url, redis, new_key()) as run,
        nginx(folder / "nginx", run.until_ready()) as balancer,
    ):
        async with Crowd(balancer.url, run.tokens, n_clients) as crowd:
            await crowd.until_each_got(2)
            yield Fleet(redis, run, crowd)
        print({kind: n for kind, n in crowd.seen.items() if not kind.startswith("wrong")})
        assert crowd.wrong == [], "\n".join([*crowd.wrong, *map(failures, run.processes)])
        assert crowd.n_unanswered == 0


async def test_loses_what_was_under_way_where_two_gateways_are_killed(tmp_path: Path) -> None:
    async with fleet(tmp_path, EVERY_KIND) as it:
        for each in it.gateways.processes[:2]:
            each.process.kill()
            await it.crowd.until_each_got(3)
    assert it.crowd.seen["lost"]


@pytest.mark.nightly
@every("seconds", [60, 600])
async def test_of_300_loses_what_was_under_way(seconds: int, tmp_path: Path) -> None:
    async with fleet(tmp_path, 300) as it:
        for each in it.gateways.processes[:2]:
            end_s = time.monotonic() + seconds / 3
            while time.monotonic() < end_s:
                await it.crowd.until_each_got(1)
            each.process.kill()
        end_s = time.monotonic() + seconds / 3
        while time.monotonic() < end_s:
            await it.crowd.until_each_got(1)


@pytest.mark.parametrize("n_clients", [EVERY_KIND, pytest.param(120, marks=pytest.mark.nightly)])
async def test_goes_on_while_redis_fails_in_each_of_its_ways(n_clients: int, tmp_path: Path) -> None:
    async with fleet(tmp_path, n_clients) as it:
        redis, got = it.redis, it.crowd.until_each_got
        redis.slow(2)
        await got(2)
        redis.fill()
        await got(2)
        redis.make_room()
        it.crowd.redis_loses(redis.flush)
        await got(2)
        redis.pause()
        await got(2)
        redis.go_on()
        redis.kill()
        await got(2)
        it.crowd.redis_loses(redis.start)
        await got(2)
    assert it.crowd.seen["apart"]
