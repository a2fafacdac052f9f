"""One database on one file in a process, though servers stop while theirs is opened."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import ladybug
import pytest

from agent_utilities import create_mcp_server
from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.query.graph.sync import sync
from tests.parts import query_of
from tests.query.graph.embedded_files import check_works, contents
from tests.query.graph.records import expected, held, numbered
from tests.query.graph.wrapped import until

pytestmark = pytest.mark.anyio

TOOLS = numbered(50)


class SlowDatabase(ladybug.Database):
    """A real database whose opening waits for the test."""

    reached, go_on = threading.Event(), threading.Event()

    def __init__(self, *given: Any, **options: Any) -> None:
        self.reached.set()
        assert self.go_on.wait(60)
        super().__init__(*given, **options)


@pytest.fixture
def slow_opening(monkeypatch: pytest.MonkeyPatch) -> type[SlowDatabase]:
    """Lets openings wait until `go_on` is set."""
    SlowDatabase.reached.clear()
    SlowDatabase.go_on.clear()
    monkeypatch.setattr(ladybug, "Database", SlowDatabase)
    return SlowDatabase


async def cancelled_opening(path: Path) -> EmbeddedGraph:
    """Return a graph whose opening was begun, and whose caller was cancelled."""
    graph = EmbeddedGraph(path)
    opening = asyncio.create_task(graph.open())
    await asyncio.to_thread(SlowDatabase.reached.wait)
    opening.cancel()
    await asyncio.wait([opening])
    return graph


async def test_closing_waits_for_an_opening_that_nobody_waits_for(
    tmp_path: Path, slow_opening: type[SlowDatabase]
) -> None:
    path = tmp_path / "g.lbdb"
    graph = await cancelled_opening(path)
    closing = asyncio.create_task(graph.close())
    await asyncio.sleep(0)
    assert not closing.done()
    slow_opening.go_on.set()
    await closing
    await check_works(EmbeddedGraph(path), TOOLS)
    after = EmbeddedGraph(path)
    await after.open()
    assert await held(after, "s") == expected(TOOLS, "s")
    await after.close()


async def test_an_opening_that_outlasts_the_stop_is_waited_for_by_the_next_and_closes_itself(
    tmp_path: Path, slow_opening: type[SlowDatabase]
) -> None:
    path = tmp_path / "g.lbdb"
    graph, after = await cancelled_opening(path), EmbeddedGraph(path)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await graph.close()
    opening = asyncio.create_task(after.open())
    slow_opening.go_on.set()
    await opening
    await sync(after, "s", TOOLS, 1)
    assert (after.path, await held(after, "s")) == (path, expected(TOOLS, "s"))
    with pytest.raises(Exception, match="'NoneType'"):
        await graph.read("RETURN 1 AS one", {})
    await after.close()


async def test_a_second_graph_on_a_file_in_use_is_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "g.lbdb"
    first, second = EmbeddedGraph(path), EmbeddedGraph(path)
    await first.open()
    await check_works(second, numbered(20))
    assert second.path is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "this process has it open already" in caplog.text
    await sync(first, "s", TOOLS, 1)
    await first.close()
    await check_works(EmbeddedGraph(path), TOOLS)
    assert list(contents(tmp_path)) == ["g.lbdb"]


async def test_a_server_stopped_while_it_opens_its_graph_and_started_again_keeps_it(
    tmp_path: Path, slow_opening: type[SlowDatabase]
) -> None:
    mcp = create_mcp_server("g", environ={"MCP_GRAPH_FOLDER": str(tmp_path), "MCP_RANKER": "off"})
    mcp.tool(lambda: "x", name="balloon", description="thing")

    async def start_and_stop(*, wait: bool) -> None:
        app = mcp.http_app()
        async with app.router.lifespan_context(app):
            await until(lambda: query_of(mcp).resolver.pipeline is not None, "there")
            pipeline = query_of(mcp).resolver.pipeline
            assert pipeline is not None
            await pipeline.resolve("thing")
            if wait:
                await until(lambda: pipeline.keeper.health()["status"] == "ready", "filled")
                assert isinstance(pipeline.keeper.graph, EmbeddedGraph)
                assert pipeline.keeper.graph.path is not None
            else:
                await asyncio.to_thread(slow_opening.reached.wait)
                asyncio.get_running_loop().call_later(0.01, slow_opening.go_on.set)

    await start_and_stop(wait=False)
    await start_and_stop(wait=True)
    await start_and_stop(wait=True)
    assert list(contents(tmp_path)) == ["g.lbdb"], "nothing was set aside, and no log is left"
    graph = EmbeddedGraph(tmp_path / "g.lbdb")
    await graph.open()
    assert len(await held(graph, "g")) == 1
    await graph.close()
