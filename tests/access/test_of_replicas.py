"""Quotas of replicas that share a Redis: two servers of one process, each with a client and counts of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from tests.access.bounded import Bounded, said
from tests.fleet.processes.replicas import Shared, shared_redis

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

CALLS = "[quota]\ncalls_per_minute = 4\n"
REFUSED = "! refused by a quota"


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    with shared_redis(tmp_path) as shared:
        yield shared


@asynccontextmanager
async def replicas(shared: Shared, team: Bounded) -> AsyncIterator[list[Client[Any]]]:
    """Two callers who are one person, each at a replica of their own."""
    one, other = (team.server(shared.environ) for _ in range(2))
    header = {"authorization": team.token("ann")["authorization"]}
    team.token = lambda *_: header  # type: ignore[method-assign]
    async with team.callers("ann", server=one) as (here,), team.callers("ann", server=other) as (there,):
        yield [here, there]


def n_done(texts: list[str]) -> int:
    assert all(text == "done" or text.startswith(REFUSED) for text in texts), texts
    return texts.count("done")


class TestCallsAMinute:
    async def test_are_of_all_replicas_together(self, shared: Shared, tmp_path: Path) -> None:
        async with replicas(shared, Bounded(tmp_path, CALLS)) as callers:
            texts = [await said(callers[number % 2]) for number in range(6)]
        assert texts[:4] == ["done"] * 4
        assert n_done(texts) == 4
        assert texts[5].endswith(("in 60 s", "in 59 s"))

    async def test_are_not_passed_by_calls_that_come_together(self, shared: Shared, tmp_path: Path) -> None:
        async with replicas(shared, Bounded(tmp_path, CALLS)) as callers:
            assert n_done(await asyncio.gather(*(said(callers[number % 2]) for number in range(20)))) == 4

    async def test_hold_at_each_replica_where_redis_is_gone_or_its_counts_are_another(
        self, shared: Shared, tmp_path: Path
    ) -> None:
        async with replicas(shared, Bounded(tmp_path, CALLS)) as (here, there):
            assert [await said(here) for _ in range(3)] == ["done"] * 3
            for key in shared.admin.scan_iter("*:counts:*"):
                shared.admin.set(key, -1000)
            assert n_done([await said(here) for _ in range(3)]) == 1
            shared.kill()
            began_s = time.monotonic()
            assert n_done([await said(here), *[await said(there) for _ in range(5)]]) == 4
            assert time.monotonic() - began_s < 2
            shared.start()


class TestBytesAMinute:
    async def test_are_of_all_replicas_together(self, shared: Shared, tmp_path: Path) -> None:
        async with replicas(shared, Bounded(tmp_path, "[quota]\nbytes_per_minute = 1000\n")) as (here, there):
            assert await said(here, text="x" * 2000) == "x" * 2000
            assert (await said(there)).startswith(REFUSED)


class TestRedis:
    async def test_is_told_no_name(self, shared: Shared, tmp_path: Path) -> None:
        quotas = '[quota]\ncalls_per_minute = 9\n[quota.tools."*"]\ncalls_per_minute = 9\n'
        quotas += '[quota.servers."*"]\ncalls_per_minute = 9\n'
        async with replicas(shared, Bounded(tmp_path, quotas)) as (here, _):
            await said(here, "look")
            keys = list(shared.admin.scan_iter("*:counts:*"))
        assert len(keys) == 3
        assert not any(name in shared.told() for name in (b"ann", b"look", b"archive"))
