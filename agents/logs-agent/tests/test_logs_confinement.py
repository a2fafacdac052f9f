"""No path leads out of the roots, and no message tells what is outside."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.every import every

READING = ("tail_log", "count_by_level", "summarize_errors", "log_histogram", "find_slow_requests")
EVERY = (*READING, "rotate_log", "delete_log")
SECRET = "top secret line"


@pytest.fixture
def outside(logs: Path) -> Path:
    secret = logs.parent / "outside" / "secret.log"
    secret.write_text(SECRET)
    return secret


class TestPaths:
    @every("tool", EVERY)
    @every(
        "path",
        [
            "../outside/secret.log",
            "a/../../outside/secret.log",
            "..",
            "./../outside/secret.log",
            "/etc/passwd",
            "secret.log\0.txt",
            ".",
            "/",
            "//etc/passwd",
            "~/secret.log",
            "x" * 4000,
            "a/" * 2000 + "b",
        ],
    )
    def test_no_spelling_leads_out(self, tool: str, path: str, outside: Path, refusal: Callable[..., str]) -> None:
        assert "Error calling tool" not in refusal(tool, path=path)
        assert outside.read_text() == SECRET

    def test_a_prefix_of_the_roots_name_is_not_the_root(self, logs: Path, refusal: Callable[..., str]) -> None:
        beside = logs.parent / "logs-private"
        beside.mkdir()
        (beside / "a.log").write_text(SECRET)
        assert "outside the allowed roots" in refusal("tail_log", path=str(beside / "a.log"))

    def test_a_root_may_be_a_link_under_both_names_or_the_working_folder(
        self, logs: Path, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        link = logs.parent / "link"
        link.symlink_to(logs)
        (logs / "app.log").write_text("hello\n")
        monkeypatch.setenv("LOGS_AGENT_ROOTS", str(link))
        for path in ("app.log", str(link / "app.log"), str(logs / "app.log")):
            assert call("tail_log", path=path)["lines"] == ["hello"], path
        monkeypatch.delenv("LOGS_AGENT_ROOTS")
        monkeypatch.chdir(logs)
        for path in ("app.log", str(logs / "app.log")):
            assert call("tail_log", path=path)["lines"] == ["hello"], path

    def test_a_path_as_listed_from_a_second_root_can_be_read(
        self, logs: Path, outside: Path, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LOGS_AGENT_ROOTS", os.pathsep.join([str(logs), str(outside.parent)]))
        (path,) = [log["path"] for log in call("list_logs")["logs"]]
        assert call("tail_log", path=path)["lines"] == [SECRET]


class TestLinks:
    @every("tool", EVERY)
    @every("path", ["app.log", "sub/secret.log", "inner.log"])
    def test_a_symlink_is_refused_as_a_file_on_the_way_and_within_the_root(
        self, logs: Path, outside: Path, refusal: Callable[..., str], path: str, tool: str
    ) -> None:
        if not (logs / "real.log").exists():
            (logs / "real.log").write_text("x\n")
            (logs / "inner.log").symlink_to("real.log")
            (logs / "app.log").symlink_to(outside)
            (logs / "sub").symlink_to(outside.parent)
        assert "symlink, which is never followed" in refusal(tool, path=path)
        assert outside.read_text() == SECRET

    @every(("path", "name"), [("sub/secret.log", "sub"), ("app.log", "app.log")])
    def test_what_becomes_a_link_between_the_look_and_the_opening_is_not_opened(
        self, logs: Path, outside: Path, refusal: Callable[..., str], path: str, name: str
    ) -> None:
        (logs / path).parent.mkdir(exist_ok=True)
        (logs / path).write_text("mine")
        look = os.stat

        def look_and_exchange(looked_at: Any, **options: Any) -> os.stat_result:
            status = look(looked_at, **options)
            if looked_at == name and "dir_fd" in options and not (logs / name).is_symlink():
                (logs / name).rename(logs / f"{name}.mine")
                (logs / name).symlink_to(outside.parent if name == "sub" else outside)
            return status

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "stat", look_and_exchange)
            assert refusal("tail_log", path=path).startswith(f"cannot open {name!r}")
        assert (logs / name).is_symlink()

    def test_listing_shows_neither_links_nor_what_they_lead_to(
        self, logs: Path, outside: Path, call: Callable[..., Any]
    ) -> None:
        (logs / "app.log").symlink_to(outside)
        (logs / "sub").symlink_to(outside.parent)
        assert call("list_logs")["logs"] == []

    def test_a_symlinked_sibling_is_left_out_and_that_is_said(
        self, logs: Path, outside: Path, call: Callable[..., Any]
    ) -> None:
        (logs / "app.log").write_text("hello\n")
        (logs / "app.log.1").symlink_to(outside)
        found = call("search_logs", path="app.log", query="e", include_rotated=True)
        assert [hit["text"] for hit in found["hits"]] == ["hello"]
        assert "1 rotated files were not read" in found["read"]["notes"][0]

    def test_rotation_does_not_write_through_a_symlinked_sibling(
        self, logs: Path, outside: Path, refusal: Callable[..., str]
    ) -> None:
        (logs / "app.log").write_text("hello\n")
        (logs / "app.log.1").symlink_to(outside)
        refusal("rotate_log", path="app.log")
        assert outside.read_text() == SECRET
        assert (logs / "app.log").read_text() == "hello\n"


class TestSpecialFiles:
    def test_a_pipe_a_socket_and_a_folder_are_refused_without_waiting(
        self, logs: Path, refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(logs)
        os.mkfifo("pipe.log")
        Path("folder.log").mkdir()
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("socket.log")
            for tool in EVERY:
                for kind in ("pipe", "socket", "folder"):
                    assert f"is a {kind}" in refusal(tool, path=f"{kind}.log"), tool


class TestMessages:
    def test_a_missing_log_is_answered_with_the_nearest_name(self, logs: Path, refusal: Callable[..., str]) -> None:
        (logs / "access.log").write_text("x\n")
        assert "did you mean 'access.log'" in refusal("tail_log", path="acces.log")

    def test_a_missing_root_is_told_by_number_not_by_path(
        self, logs: Path, refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LOGS_AGENT_ROOTS", str(logs / "hidden-place"))
        assert "hidden-place" not in refusal("tail_log", path="app.log")

    def test_an_outside_path_is_refused_alike_whether_it_exists_or_not(
        self, outside: Path, refusal: Callable[..., str]
    ) -> None:
        there = refusal("tail_log", path=str(outside)).replace(str(outside), "")
        missing = str(outside) + "x"
        assert refusal("tail_log", path=missing).replace(missing, "") == there


class TestChanges:
    @every("tool", ["rotate_log", "delete_log"])
    @every("name", ["main.py", ".env", "data.db", "notes.txt", ".app.log", "pyproject.toml"])
    def test_only_what_is_named_like_a_log_is_changed(
        self, tool: str, name: str, logs: Path, refusal: Callable[..., str]
    ) -> None:
        (logs / name).write_text("precious")
        assert "not a log by its name" in refusal(tool, path=name)
        assert (logs / name).read_text() == "precious"
