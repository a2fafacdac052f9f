"""A damaged embedded file is set aside and made anew, and no good one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_utilities.query.graph import embedded
from agent_utilities.query.graph.base import GraphError
from agent_utilities.query.graph.embedded import EmbeddedGraph, is_damage
from agent_utilities.query.graph.sync import sync
from tests.every import every
from tests.query.graph.embedded_files import check_works, contents
from tests.query.graph.records import expected, held, numbered

pytestmark = pytest.mark.anyio


def aside_in(folder: Path) -> dict[str, bytes]:
    """Return what was set aside."""
    return {name: content for name, content in contents(folder).items() if ".corrupt-" in name}


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


class TestDamaged:
    @every("how", ["no database", "header overwritten", "cut off", "body overwritten"])
    async def test_is_set_aside_and_made_anew(self, tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
        path, tools = tmp_path / "g.lbdb", numbered(200)
        await check_works(EmbeddedGraph(path), tools)
        damage(path, how)
        damaged = contents(tmp_path).values()
        graph = EmbeddedGraph(path)
        await check_works(graph, tools)
        assert graph.path == path
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "is corrupt" in caplog.text
        assert "set aside as" in caplog.text
        aside = aside_in(tmp_path)
        assert aside
        assert all(content in damaged for content in aside.values()), "as it was"
        caplog.clear()
        await check_works(EmbeddedGraph(path), tools)
        assert caplog.records == []

    async def test_an_unreadable_log_leaves_the_file_as_it_was(self, tmp_path: Path) -> None:
        path, tools = tmp_path / "g.lbdb", numbered(200)
        await check_works(EmbeddedGraph(path), tools)
        (tmp_path / "g.lbdb.wal").write_bytes(b"\xa5" * 8192)
        graph = EmbeddedGraph(path)
        await graph.open()
        assert await held(graph, "s") == expected(tools, "s")
        await graph.close()
        assert aside_in(tmp_path) == {}

    async def test_a_log_of_another_database_is_set_aside_with_the_file(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path, other = tmp_path / "g.lbdb", EmbeddedGraph(tmp_path / "other.lbdb")
        await check_works(EmbeddedGraph(path), numbered(20))
        await other.open()
        await sync(other, "s", numbered(30), 1)
        log = (tmp_path / "other.lbdb.wal").read_bytes()
        await other.close()
        (tmp_path / "g.lbdb.wal").write_bytes(log)
        await check_works(EmbeddedGraph(path), numbered(20))
        assert len(caplog.records) == 1
        assert len(aside_in(tmp_path)) == 2, "the file and its log"
        assert log in aside_in(tmp_path).values()

    async def test_short_memory_is_no_damage(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "g.lbdb"
        await check_works(EmbeddedGraph(path), numbered(20))
        before = contents(tmp_path)
        monkeypatch.setattr(embedded, "_MAX_BYTES", 1 << 50)
        with pytest.raises(GraphError):
            await EmbeddedGraph(path).open()
        assert contents(tmp_path) == before


def test_what_the_engine_says_of_a_damaged_file_and_of_other_trouble() -> None:
    """As ladybug 0.22 said it, of files overwritten at random and of machines short of something."""
    said: list[tuple[Exception, bool]] = [
        (RuntimeError("Runtime exception: Load table failed: table 3 doesn't exist in catalog."), True),
        (RuntimeError('Assertion failed in file "column_chunk_data.cpp" on line 7: UNREACHABLE_CODE'), True),
        (RuntimeError("Storage exception: Unknown compression type with ID 77"), True),
        (ValueError("vector::reserve"), True),
        (IndexError("unordered_map::at"), True),
        (RuntimeError("IO exception: Could not set lock on file : /g (Lock is held by PID 1)"), False),
        (RuntimeError("Buffer manager exception: Mmap for size 268435456 failed."), False),
        (RuntimeError("Could not find lbug C API shared library. Set LBUG_C_API_LIB_PATH"), False),
        (ValueError("Invalid backend 'x'. Expected one of: auto, capi, pybind."), False),
        (MemoryError("std::bad_alloc"), False),
        (PermissionError(13, "Permission denied"), False),
        (ImportError("libladybug.so: cannot open shared object file"), False),
    ]
    assert [is_damage(error) for error, _ in said] == [expected for _, expected in said]
