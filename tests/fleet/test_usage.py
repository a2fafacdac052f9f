"""Usage of one replica is logged by the others too: each once, and nothing that somebody else wrote."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from agent_utilities.usage.report import read_report
from tests.fleet.processes.replicas import Shared
from tests.fleet.test_sessions import Talk, replica
from tests.server.in_process import web_of
from tests.usage.logs import until

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


def n_calls(path: Path) -> int:
    return sum(row.n_calls for row in read_report(path, int(time.time() * 1000)).tools)


async def test_of_one_replica_is_in_the_log_of_another(redis_here: Shared, tmp_path: Path) -> None:
    paths = [tmp_path / "one.db", tmp_path / "other.db", tmp_path / "late.db"]
    one, other, late = (replica(redis_here, MCP_USAGE="counts", MCP_USAGE_FILE=str(path)) for path in paths)
    async with web_of(one) as web, web_of(other) as web_of_other:
        talk = Talk()
        await talk.begin(web)
        for _ in range(3):
            await talk.call(web, "read_note")
        await talk.call(web_of_other, "write_note")
        await until(lambda: n_calls(paths[0]) == n_calls(paths[1]) == 4)
    async with web_of(late):  # begins with what there is
        await until(lambda: n_calls(paths[2]) == 4)
    async with web_of(replica(redis_here, MCP_USAGE="counts", MCP_USAGE_FILE=str(paths[2]))) as web:
        await Talk().begin(web)
        await asyncio.sleep(0)
        redis_here.admin.xadd("agent-utilities:notes:usage", {"by": "x", "events": b'[{"kind": "Call"}]'})
        talk = Talk()
        await talk.begin(web)
        await talk.call(web, "read_note")
        await until(lambda: n_calls(paths[2]) == 5)  # and what it had was not logged twice
