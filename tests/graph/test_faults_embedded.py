"""An embedded file that can't be used: the graph is in memory, or the file is made anew, and every list answers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_utilities.graph.embedded import EmbeddedGraph
from agent_utilities.graph.sync import sync
from tests.graph.agents import PERMITTED, SLOW_S, Agent, serving
from tests.graph.conftest import Measured
from tests.graph.records import expected, held, numbered

N_LISTS = 20
_HOLDER = """
import sys, ladybug
database = ladybug.Database(sys.argv[1], max_db_size=1 << 30, buffer_pool_size=64 << 20)
connection = ladybug.Connection(database)
connection.execute("CREATE NODE TABLE IF NOT EXISTS Held(name STRING PRIMARY KEY)")
print("held", flush=True)
sys.stdin.read()
"""
_FILL = """
import asyncio, sys
from pathlib import Path
from agent_utilities.graph.embedded import EmbeddedGraph
from agent_utilities.graph.sync import server_state, sync
from tests.graph.records import held, expected, numbered

async def main(path, n_tools):
    graph = EmbeddedGraph(Path(path))
    await graph.open()
    for round in range(3):
        tools = numbered(n_tools, "x" * 2000 + f" round {round} number " + "{}")
        await sync(graph, "s", tools, round)
        assert await held(graph, "s") == expected(tools, "s")
    print("memory" if graph.path is None else "file", (await server_state(graph, "s")).n_tools)
    await graph.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def check_narrows(agent: Agent, measured: Measured, name: str) -> None:
    """The graph answers after all: queries narrow, and no list waits."""
    agent.until_ready()
    for _ in range(N_LISTS):
        listed = agent.tools(agent.fresh_query())
        assert listed.status == "fresh"
        assert "dns_read" in listed.names
        assert set(listed.names) < PERMITTED
        assert listed.took_s < SLOW_S
    assert agent.ready()["status"] == "ready"
    measured(f"tools/list?q=, {name}", agent.took_s)


@contextmanager
def tmpfs(folder: Path, size: str, *options: str) -> Iterator[Path]:
    """Mount a small file system; where that is not allowed, the test is skipped."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", *options]), "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can't be mounted here: that takes root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where an agent keeps its graph."""
    found = tmp_path / "graphs"
    found.mkdir()
    return found


def environ(folder: Path) -> dict[str, str]:
    return {"MCP_GRAPH_FOLDER": str(folder)}


class TestLocked:
    def test_by_another_process_it_is_in_memory(self, folder: Path, measured: Measured) -> None:
        path = folder / "graphed.lbdb"
        command = [sys.executable, "-c", _HOLDER, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with serving(environ(folder)) as agent:
                check_narrows(agent, measured, "embedded file locked")
                assert len(agent.said("can't use .*graphed.lbdb .*lock.*in memory")) == 1
                assert len(agent.said("")) == 1
            holder.kill()
        with serving(environ(folder)) as agent:
            check_narrows(agent, measured, "lock freed by kill -9")
            assert agent.said("") == []

    @pytest.mark.nightly
    def test_two_agents_of_one_name_both_answer(self, folder: Path, measured: Measured) -> None:
        with serving(environ(folder)) as first, serving(environ(folder)) as second:
            check_narrows(first, measured, "first of two")
            check_narrows(second, measured, "second of two")
            assert len(second.said("in memory")) == 1


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    match how:
        case "no database":
            path.write_bytes(b"this is no database" * 1000)
        case "cut off":
            path.write_bytes(content[: len(content) // 2])
        case "body overwritten":
            path.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))
        case "header overwritten":
            path.write_bytes(b"\xa5" * 4096 + content[4096:])
        case "log overwritten":
            path.with_name(f"{path.name}.wal").write_bytes(b"\xa5" * 8192)


SET_ASIDE = ("no database", "header overwritten", "log overwritten")


class TestCorrupt:
    @pytest.mark.parametrize(
        "how",
        [
            *SET_ASIDE,
            "cut off",
            "body overwritten",
        ],
    )
    def test_is_set_aside_and_made_anew(self, folder: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
        path, tools = folder / "g.lbdb", numbered(200)

        async def once() -> None:
            graph = EmbeddedGraph(path)
            await graph.open()
            await sync(graph, "s", tools, 1)
            assert await held(graph, "s") == expected(tools, "s")
            await graph.close()

        asyncio.run(once())
        damage(path, how)
        asyncio.run(once())
        assert [each.levelname for each in caplog.records] == ["WARNING"]
        assert "is corrupt" in caplog.text
        assert "set aside as" in caplog.text
        assert len(list(folder.glob("g.lbdb.corrupt-*"))) >= 1
        caplog.clear()
        asyncio.run(once())
        assert caplog.records == []

    def test_of_a_server_is_set_aside_and_every_list_answers(self, folder: Path, measured: Measured) -> None:
        path = folder / "graphed.lbdb"
        path.write_bytes(b"this is no database" * 1000)
        with serving(environ(folder)) as agent:
            check_narrows(agent, measured, "embedded file corrupt")
            said = agent.said("")
            assert len(said) == 1, said
            assert "is corrupt" in said[0]
            aside = list(folder.glob("graphed.lbdb.corrupt-*"))
            assert [each.read_bytes()[:19] for each in aside] == [b"this is no database"]

    @pytest.mark.nightly
    def test_an_empty_file_is_as_none(self, folder: Path, measured: Measured) -> None:
        (folder / "graphed.lbdb").touch()
        with serving(environ(folder)) as agent:
            check_narrows(agent, measured, "embedded file empty")
            assert agent.said("") == []

    def test_a_folder_in_its_place_is_passed_over(self, folder: Path, measured: Measured) -> None:
        (folder / "graphed.lbdb").mkdir()
        with serving(environ(folder)) as agent:
            check_narrows(agent, measured, "a folder in place of the embedded file")
            assert len(agent.said("in memory")) == 1


class TestDisk:
    def test_full_at_start(self, tmp_path: Path, measured: Measured) -> None:
        with tmpfs(tmp_path / "small", "64k") as small:
            (small / "ballast").write_bytes(b"x" * 60_000)
            with serving(environ(small)) as agent:
                check_narrows(agent, measured, "disk full at start")
                assert len(agent.said("in memory")) == 1

    def test_full_while_running(self, tmp_path: Path) -> None:
        with tmpfs(tmp_path / "small", "2m") as small:
            command = [sys.executable, "-c", _FILL, str(small / "g.lbdb"), "1500"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
            assert done.returncode == 0, done.stderr[-2000:]
            assert done.stdout == "memory 1500\n"
            assert done.stderr.count("in memory until the next start") == 1

    def test_that_takes_no_writes(self, tmp_path: Path, measured: Measured) -> None:
        with tmpfs(tmp_path / "small", "64k", "ro") as small, serving(environ(small)) as agent:
            check_narrows(agent, measured, "disk read-only")
            assert len(agent.said("in memory")) == 1

    @pytest.mark.nightly
    def test_folder_that_can_not_be_made(self, tmp_path: Path, measured: Measured) -> None:
        (tmp_path / "file").write_text("not a folder")
        with serving(environ(tmp_path / "file" / "graphs")) as agent:
            check_narrows(agent, measured, "no folder")
            assert len(agent.said("in memory")) == 1
