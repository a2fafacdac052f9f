"""Background work lives as long as its server, and neither harms the other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent_utilities.server.stopping import with_background
from tests.query.graph.wrapped import until

pytestmark = pytest.mark.anyio


async def fail() -> None:
    raise ValueError("broken")


async def test_a_job_that_raises_is_logged_and_stops_neither_the_server_nor_other_jobs(
    caplog: pytest.LogCaptureFixture,
):
    others_work, go_on = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await go_on.wait()
        others_work.set()

    async with with_background(lambda: [fail, work], None)(None):
        await until(lambda: caplog.records, "logged")
        go_on.set()
        await others_work.wait()
    assert [(record.levelno, str(record.exc_info[1])) for record in caplog.records if record.exc_info] == [
        (logging.ERROR, "broken")
    ]


async def test_jobs_are_cancelled_when_the_server_stops():
    ended: list[str] = []
    running = asyncio.Event()

    async def work() -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("job")

    async with with_background(lambda: [work], None)(None):
        await running.wait()
    assert ended == ["job"]


async def test_jobs_run_while_the_authors_own_lifespan_does_and_its_result_is_kept():
    order: list[str] = []
    running = asyncio.Event()

    @asynccontextmanager
    async def own(server: Any) -> AsyncIterator[dict[str, str]]:
        order.append("entered")
        yield {"server": server}
        order.append("left")

    async def work() -> None:
        try:
            running.set()
            await asyncio.Event().wait()
        finally:
            order.append("job ended")

    async with with_background(lambda: [work], own)("s") as result:
        await running.wait()
        assert result == {"server": "s"}
    assert order == ["entered", "left", "job ended"]
