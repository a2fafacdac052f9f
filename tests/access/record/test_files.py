"""The files of a record: what may stand in the place of one, and when another is begun."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_utilities.access.record.chain import Head, write_line
from agent_utilities.access.record.log import RecordFile, all_files, full_files
from tests.every import every

DAY_S = 86_400.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "audit.jsonl"


def line(at_s: float, text: str = "") -> bytes:
    return write_line(Head.of_new_chain(), at_s, {"event": "call", "text": text})[0]


def append(path: Path, *texts: bytes, max_bytes: int = 1 << 20, max_age_s: float = DAY_S) -> None:
    """Add to a record as a process does that has just started."""
    file = RecordFile(path, max_bytes, max_age_s)
    for text in texts:
        file.append(text)
    file.close()


class TestRoom:
    def test_is_as_much_as_was_said_to_the_byte(self, path: Path) -> None:
        append(path, b"a" * 50 + b"\n", b"b" * 48 + b"\n", max_bytes=100)
        assert [file.stat().st_size for file in all_files(path)] == [100]
        append(path, b"c\n", max_bytes=100)
        assert [file.read_bytes()[:1] for file in all_files(path)] == [b"a", b"c"]

    def test_of_a_batch_that_is_longer_than_a_file_is_made_all_the_same(self, path: Path) -> None:
        append(path, b"x" * 500 + b"\n", b"y" * 500 + b"\n", max_bytes=100)
        assert [file.read_bytes()[:1] for file in all_files(path)] == [b"x", b"y"]
        assert len(full_files(path)) == 1

    def test_is_the_same_for_several_that_have_it_open(self, path: Path) -> None:
        one, other = (RecordFile(path, 100, DAY_S) for _ in range(2))
        for file, letter in ((one, b"a"), (other, b"b"), (one, b"c"), (other, b"d"), (one, b"e")):
            file.append(letter * 59 + b"\n")
        one.close()
        other.close()
        assert [file.read_bytes()[:1] for file in all_files(path)] == [b"a", b"b", b"c", b"d", b"e"]


class TestNames:
    def test_are_of_the_next_moment_where_the_clock_was_put_back(self, path: Path) -> None:
        path.parent.mkdir()
        path.with_name("audit-20990101T000000.000007Z.jsonl").touch()
        append(path, *(letter * 59 + b"\n" for letter in (b"a", b"b", b"c")), max_bytes=100)
        stamps = [file.name.removeprefix("audit-20990101T000000.").removesuffix("Z.jsonl") for file in full_files(path)]
        assert stamps == ["000007", "000008", "000009"]


class TestAge:
    @every(("age_s", "n_full"), [(120.0, 1), (30.0, 0)])
    def test_is_that_of_the_first_line_after_a_start(self, age_s: float, n_full: int, tmp_path: Path) -> None:
        path = tmp_path / "made" / "audit.jsonl"
        append(path, line(time.time() - age_s), line(time.time()))
        append(path, line(time.time()), max_age_s=60)
        assert len(full_files(path)) == n_full

    def test_is_that_of_the_process_where_the_first_line_is_nobodys(self, path: Path) -> None:
        append(path, b"somebody else's\n")
        append(path, line(time.time()), max_age_s=60)
        assert full_files(path) == []
        append(path, line(time.time()), max_age_s=-1)
        assert len(full_files(path)) == 1


class TestAPiece:
    @every(
        ("before", "after"),
        [(b"", b"new\n"), (b"old\n", b"old\nnew\n"), (b"piece", b"piece\nnew\n"), (b"x", b"x\nnew\n")],
    )
    def test_is_ended_before_what_comes_next(self, before: bytes, after: bytes, tmp_path: Path) -> None:
        path = tmp_path / "made" / "audit.jsonl"
        path.parent.mkdir()
        path.write_bytes(before)
        append(path, b"new\n")
        assert path.read_bytes() == after

    def test_of_what_could_not_be_written_whole_is_taken_out_again(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        append(path, b"first\n")
        file = RecordFile(path, 1 << 20, DAY_S)

        def fail(_: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", fail)
            with pytest.raises(OSError, match="No space left"):
                file.append(b"second\n")
        assert path.read_bytes() == b"first\n"
        append(path, b"by another\n")  # which finds it free
        file.append(b"third\n")
        file.close()
        assert path.read_bytes() == b"first\nby another\nthird\n"


class TestWhatIsNoFile:
    """Nobody has a record written to where they like by putting something in its place."""

    @every(
        ("put", "why"),
        [
            (lambda path: os.mkfifo(path), "not a file"),
            (lambda path: path.symlink_to("elsewhere"), "Too many levels of symbolic links"),
            (lambda path: path.symlink_to(os.devnull), "Too many levels of symbolic links"),
            (lambda path: path.mkdir(), "Is a directory"),
        ],
        ids="pipe link device folder".split(),
    )
    def test_is_refused_and_left_as_it_is(self, put: Callable[[Path], None], why: str, tmp_path: Path) -> None:
        path = tmp_path / "made" / "audit.jsonl"
        path.parent.mkdir()
        put(path)
        before = path.lstat()
        with pytest.raises(OSError, match=why):
            append(path, b"line\n")
        assert [each.name for each in path.parent.iterdir()] == [path.name]
        assert path.lstat() == before or path.is_fifo()

    def test_is_no_hindrance_once_it_is_gone(self, path: Path) -> None:
        path.parent.mkdir()
        os.mkfifo(path)
        file = RecordFile(path, 1 << 20, DAY_S)
        with pytest.raises(OSError, match="not a file"):
            file.append(b"line\n")
        path.unlink()
        file.append(b"line\n")
        file.close()
        assert path.read_bytes() == b"line\n"

    def test_is_begun_anew_where_somebody_took_it_away_or_put_another_in_its_place(self, path: Path) -> None:
        file = RecordFile(path, 1 << 20, DAY_S)
        file.append(b"first\n")
        path.unlink()
        file.append(b"second\n")
        assert path.read_bytes() == b"second\n"
        path.with_name("other").write_bytes(b"other\n")
        path.with_name("other").replace(path)
        file.append(b"third\n")
        file.close()
        assert path.read_bytes() == b"other\nthird\n"
