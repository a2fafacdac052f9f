"""A crowd works over three gateways while two of them are killed, and while Redis fails in each of its ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_utilities.upstream.sealed_store import new_key
from tests.fleet.crowd import Crowd, gateways
from tests.fleet.services import nginx, redis_server
from tests.wire.processes import Launch, served

pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.timeout(240)]


async def test_loses_what_was_under_way_where_two_gateways_are_killed(tmp_path: Path) -> None:
    with (
        served(Launch(script="bounded_server.py")) as upstream,
        redis_server(tmp_path) as redis,
        gateways(tmp_path, upstream.url, redis, new_key()) as run,
        nginx(tmp_path / "nginx", run.until_ready()) as balancer,
    ):
        async with Crowd(balancer.url, run.tokens, 100) as crowd:
            await crowd.until_each_got(2)
            for each in run.processes[:2]:
                each.process.kill()
                await crowd.until_each_got(3)
        print(crowd.seen)
    assert crowd.wrong == []
