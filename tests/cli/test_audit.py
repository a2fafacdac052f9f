"""Verifying a record, as an operator's shell does."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_utilities.cli import app
from tests.access.record.records import chain_text, write
from tests.every import every

Run = Callable[..., tuple[object, str, str]]


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command on a terminal of 300 columns, and return its code, output and errors."""

    def run(*arguments: object) -> tuple[object, str, str]:
        monkeypatch.setenv("COLUMNS", "300")
        monkeypatch.setattr(sys, "argv", ["agent-utilities", "audit", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            app.main()
        return (ended.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A record of 20 lines, its heads in a file beside it."""
    lines, heads = chain_text(20)
    (tmp_path / "heads").write_text("\n".join(map(str, heads)))
    (tmp_path / "audit.jsonl").write_bytes(b"".join(lines))
    return tmp_path / "audit.jsonl"


def head_at(path: Path, number: int) -> str:
    return (path.parent / "heads").read_text().splitlines()[number]


class TestHead:
    def test_is_printed_alone(self, audit: Run, path: Path) -> None:
        assert audit("head", path) == (0, f"{head_at(path, 19)}\n", "")

    @pytest.mark.anyio
    async def test_is_printed_of_each_chain_whatever_file_it_is_in(self, audit: Run, tmp_path: Path) -> None:
        path = tmp_path / "audit.jsonl"
        heads = [await write(path, 20, max_bytes=2_000) for _ in range(2)]
        assert audit("head", path)[1].splitlines() == list(map(str, heads))


class TestVerify:
    def test_a_whole_record_ends_with_0(self, audit: Run, path: Path) -> None:
        code, out, _ = audit("verify", path, "--head", head_at(path, 19))
        assert (code, out.splitlines()[-1]) == (0, "20 lines in 1 chain: no tampering")
        assert "compared with its head" in out

    def test_without_a_head_it_says_what_it_can_not_tell(self, audit: Run, path: Path) -> None:
        code, out, _ = audit("verify", path)
        assert code == 0
        assert "no head given, so whether it was cut or written anew can't be told" in out

    def test_a_cut_end_ends_with_1_where_a_head_is_given(self, audit: Run, path: Path) -> None:
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:15]))
        assert audit("verify", path)[0] == 0
        code, out, _ = audit("verify", path, "--head", head_at(path, 19))
        assert code == 1
        assert "lines 15 to 19 are cut off" in out
        assert out.splitlines()[-1] == "15 lines in 1 chain: 1 sign of tampering"

    def test_a_changed_line_is_told_with_its_place(self, audit: Run, path: Path) -> None:
        path.write_bytes(
            path.read_bytes().replace(b'"number":7}', b'"number":8}').replace(b'"number":7,', b'"number":8,')
        )
        code, out, _ = audit("verify", path)
        assert code == 1
        assert re.search(rf"{path}:8: chain \w+: line 7 was changed", out)

    @every("head", ["", "12", "0:1:2"])
    def test_what_is_no_head_ends_with_2(self, audit: Run, path: Path, head: str) -> None:
        code, _, error = audit("verify", path, "--head", head)
        assert (code, error.startswith("error: not a head")) == (2, True)

    @every("command", ["head", "verify"])
    def test_a_file_that_is_not_there_ends_with_2(self, audit: Run, tmp_path: Path, command: str) -> None:
        code, _, error = audit(command, tmp_path / "gone")
        assert (code, error.startswith("error: no record of calls")) == (2, True)

    def test_a_file_of_something_else_ends_with_2(self, audit: Run, tmp_path: Path) -> None:
        (tmp_path / "other").write_text("[audit]\n")
        code, _, error = audit("verify", tmp_path / "other")
        assert (code, error.startswith("error: no record of calls")) == (2, True)
