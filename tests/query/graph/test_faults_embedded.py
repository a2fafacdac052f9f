"""An embedded file that can't be used: the graph is in memory, and every list answers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_utilities.query.graph.base import GraphError
from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.query.graph.sync import sync
from tests.query.graph.agents import PATIENT, PERMITTED, Agent, serving
from tests.query.graph.conftest import Measured
from tests.query.graph.embedded_files import check_works, contents, locked, tmpfs
from tests.query.graph.records import expected, held, numbered

pytestmark = pytest.mark.anyio

N_LISTS = 10
_FILL = """
import asyncio, shutil, sys
from pathlib import Path
from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.query.graph.sync import server_state, sync
from tests.query.graph.records import held, expected, numbered

async def main(path, n_tools):
    graph = EmbeddedGraph(path)
    await graph.open()
    for round in range(2):
        tools = numbered(n_tools, "x" * 2000 + f" round {round} number " + "{}")
        await sync(graph, "s", tools, round)
        assert await held(graph, "s") == expected(tools, "s")
        print("memory" if graph.path is None else "file", (await server_state(graph, "s")).n_tools)
        free = shutil.disk_usage(path.parent).free
        (path.parent / f"ballast {round}").write_bytes(b"x" * max(0, free - 100_000))
    await graph.close()

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


async def check_in_memory(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The graph works in memory, and one warning says so."""
    graph = EmbeddedGraph(path)
    await check_works(graph, numbered(20))
    assert graph.path is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "in memory until the next start" in caplog.text


def check_narrows(agent: Agent, measured: Measured, name: str) -> None:
    """The graph answers after all: queries narrow."""
    agent.until_ready()
    for _ in range(N_LISTS):
        listed = agent.tools(agent.fresh_query())
        assert listed.status == "fresh"
        assert "dns_read" in listed.names
        assert set(listed.names) < PERMITTED
    assert agent.ready()["status"] == "ready"
    measured(f"tools/list?q=, {name}", agent.took_s)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where an agent keeps its graph."""
    graphs = tmp_path / "graphs"
    graphs.mkdir()
    return graphs


def environ(folder: Path) -> dict[str, str]:
    return {**PATIENT, "MCP_GRAPH_FOLDER": str(folder)}


class TestLocked:
    async def test_by_another_process_it_is_in_memory_until_that_is_killed(
        self, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = folder / "g.lbdb"
        with locked(path):
            await check_in_memory(path, caplog)
            assert "lock" in caplog.text
            with pytest.raises(GraphError) as caught:
                await EmbeddedGraph(path, or_memory=False).open()
            assert caught.value.cause == "busy"
        caplog.clear()
        graph = EmbeddedGraph(path)
        await check_works(graph, numbered(20))
        assert graph.path == path
        assert caplog.records == []

    @pytest.mark.nightly
    def test_a_server_narrows_in_memory(self, folder: Path, measured: Measured) -> None:
        path = folder / "graphed.lbdb"
        with locked(path), serving(environ(folder)) as agent:
            check_narrows(agent, measured, "embedded file locked")
            assert len(agent.said("can't use .*graphed.lbdb .*lock.*in memory")) == 1
            assert len(agent.said("")) == 1
        with serving(environ(folder)) as agent:
            check_narrows(agent, measured, "lock freed by kill -9")
            assert agent.said("") == []

    @pytest.mark.nightly
    def test_two_agents_of_one_name_both_answer(self, folder: Path, measured: Measured) -> None:
        with serving(environ(folder)) as first, serving(environ(folder)) as second:
            check_narrows(first, measured, "first of two")
            check_narrows(second, measured, "second of two")
            assert len(second.said("in memory")) == 1


class TestServed:
    def test_of_a_server_is_set_aside_and_every_list_answers(self, folder: Path, measured: Measured) -> None:
        path = folder / "graphed.lbdb"
        path.write_bytes(b"this is no database" * 1000)
        with serving(environ(folder)) as agent:
            check_narrows(agent, measured, "embedded file corrupt")
            said = agent.said("")
            assert len(said) == 1, said
            assert "is corrupt" in said[0]
            aside = list(folder.glob("graphed.lbdb.corrupt-*"))
            assert [file.read_bytes()[:19] for file in aside] == [b"this is no database"]

    @pytest.mark.nightly
    def test_an_empty_file_is_as_none(self, folder: Path, measured: Measured) -> None:
        (folder / "graphed.lbdb").touch()
        with serving(environ(folder)) as agent:
            check_narrows(agent, measured, "embedded file empty")
            assert agent.said("") == []

    async def test_a_folder_in_its_place_is_passed_over(self, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
        (folder / "g.lbdb").mkdir()
        await check_in_memory(folder / "g.lbdb", caplog)


class TestDisk:
    async def test_full_at_start(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with tmpfs(tmp_path / "small", "64k") as small:
            (small / "ballast").write_bytes(b"x" * 60_000)
            await check_in_memory(small / "g.lbdb", caplog)

    async def test_full_before_a_write_it_goes_on_in_memory(
        self, folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without asking the engine, which ends the process where a write fails for want of space."""
        path = folder / "g.lbdb"
        graph = EmbeddedGraph(path)
        await graph.open()
        await sync(graph, "s", numbered(20), 1)
        before = contents(folder)
        full = shutil.disk_usage(folder)._replace(free=1 << 20)
        monkeypatch.setattr(shutil, "disk_usage", lambda where: full)
        await sync(graph, "s", numbered(30), 2)
        assert graph.path is None
        assert await held(graph, "s") == expected(numbered(30), "s")
        await graph.close()
        assert contents(folder) == before, "nothing was written"
        assert ["in memory until the next start" in record.message for record in caplog.records] == [True]

    def test_full_while_running(self, tmp_path: Path) -> None:
        with tmpfs(tmp_path / "small", "40m") as small:
            command = [sys.executable, "-c", _FILL, str(small / "g.lbdb"), "1500"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
            assert done.returncode == 0, done.stderr[-2000:]
            assert done.stdout == "file 1500\nmemory 1500\n"
            assert done.stderr.count("in memory until the next start") == 1

    async def test_that_takes_no_writes(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with tmpfs(tmp_path / "small", "64m", "ro") as small:
            await check_in_memory(small / "g.lbdb", caplog)

    async def test_folder_that_can_not_be_made(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        (tmp_path / "file").write_text("not a folder")
        await check_in_memory(tmp_path / "file" / "graphs" / "g.lbdb", caplog)

    @pytest.mark.nightly
    def test_of_a_server_full_at_start_every_list_answers(self, tmp_path: Path, measured: Measured) -> None:
        with tmpfs(tmp_path / "small", "64k") as small:
            (small / "ballast").write_bytes(b"x" * 60_000)
            with serving(environ(small)) as agent:
                check_narrows(agent, measured, "disk full at start")
                assert len(agent.said("in memory")) == 1


class TestClose:
    async def test_works_the_log_in_and_frees_the_file_for_others(self, folder: Path) -> None:
        path = folder / "g.lbdb"
        graph = EmbeddedGraph(path)
        await check_works(graph, numbered(20))
        assert list(contents(folder)) == ["g.lbdb"]
        with locked(path):
            pass

    async def test_on_a_full_disk_writes_nothing(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        graph = EmbeddedGraph(folder / "g.lbdb")
        await graph.open()
        await sync(graph, "s", numbered(20), 1)
        before = contents(folder)
        full = shutil.disk_usage(folder)._replace(free=1 << 20)
        monkeypatch.setattr(shutil, "disk_usage", lambda where: full)
        await graph.close()
        assert contents(folder) == before

    async def test_can_be_opened_again(self, folder: Path) -> None:
        graph = EmbeddedGraph(folder / "g.lbdb")
        for n_tools in (20, 30):
            await check_works(graph, numbered(n_tools))
            await graph.close()
            with pytest.raises(GraphError):
                await graph.read("RETURN 1 AS one", {})
