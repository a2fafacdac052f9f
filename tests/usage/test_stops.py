"""A server that is stopped in the middle of logging and learning stops at once, and the next one finds all whole."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.parts import query_of
from tests.usage.test_learning_server import office, serving, told, written

pytestmark = pytest.mark.anyio

_LIMIT_S = 30.0


async def test_a_stop_at_any_step_of_learning_loses_nothing_and_hangs_nowhere(tmp_path: Path) -> None:
    never_retrieved: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: never_retrieved.append(context))
    n_calls = 0
    for n_steps in (0, 8, 55):
        server = office(tmp_path)
        async with asyncio.timeout(_LIMIT_S), serving(server) as client:
            await told(client, f"bring letter {n_steps}")
            for tool in ("post", "sign"):
                await client.call_tool(tool)
                n_calls += 1
            assert query_of(server).resolver.teaching is not None
            flushing = asyncio.ensure_future(written(server))
            query_of(server).resolver.learn_news()
            for _ in range(n_steps):
                await asyncio.sleep(0)
        await flushing
    gc.collect()
    with closing(sqlite3.connect(tmp_path / "usage.db")) as log:
        assert log.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert log.execute("SELECT count(*) FROM calls").fetchone() == (n_calls,)
    async with serving(office(tmp_path)) as client:
        assert (await told(client))["ranked"][0] == "write_letter"
    assert never_retrieved == []
