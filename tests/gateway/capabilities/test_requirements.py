"""What a capability requires is looked for and never run, whatever its scripts and names say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_utilities.gateway.capabilities.installers import Requirement, read_requirement


@pytest.fixture
def tap(tmp_path: Path) -> Path:
    folder = tmp_path / "tap"
    (folder / "deps" / "a").mkdir(parents=True)
    return folder


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A folder that has one program, `docker`."""
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "docker")
    return str(tmp_path / "bin")


def program(file: Path, text: str = "#!/bin/sh\n") -> Path:
    file.write_text(text)
    file.chmod(0o755)
    return file


def script(tap: Path, name: str, text: str) -> Path:
    file = tap / "deps" / f"{name}.sh"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    return file


def head(check: str) -> str:
    return f"#!/usr/bin/env bash\n# dep: a/b\n# type: dep\n# description: Installs it\n# check: {check}\nset -e\n"


def why_missing(tap: Path, path: str, name: str = "a/b") -> str:
    return read_requirement(name, tap).why_missing(path)


class TestReading:
    def test_the_head_comment_says_what_is_looked_for(self, tap: Path) -> None:
        file = script(tap, "docker/docker", head("docker"))
        assert read_requirement("docker/docker", tap) == Requirement("docker/docker", "docker", file)

    def test_the_check_is_the_first_in_the_head_comment(self, tap: Path) -> None:
        for text, check in [
            ("#!/bin/sh\n\n# description: x\nset -e\n# check: docker\n", ""),
            ("# check: docker\n# check: podman\n", "docker"),
            ("\ufeff# check: docker\r\nset -e\r\n", "docker"),
        ]:
            script(tap, "a/b", text)
            assert read_requirement("a/b", tap).check == check, text

    def test_the_program_is_the_first_word_of_the_check(self) -> None:
        looked_for = {
            "docker": "docker",
            "docker compose version": "docker",
            "docker --version >/dev/null 2>&1": "docker",
            "command -v docker": "docker",
            "command -v docker >/dev/null || [ -d ~/.docker ]": "docker",
            "which docker": "docker",
            "/opt/tools/bin/docker": "/opt/tools/bin/docker",
            "g++": "g++",
        }
        no_program = ["", "test -d ~/.docker", "[ -d ~/.docker ]", "./docker", "../docker", "--version"]
        assert {said: Requirement("a/b", said).program for said in looked_for} == looked_for
        assert [said for said in no_program if Requirement("a/b", said).program] == []


class TestLooking:
    def test_a_program_in_the_path_is_there_where_it_may_be_run(self, tap: Path, path: str) -> None:
        script(tap, "a/b", head("docker"))
        assert why_missing(tap, path) == ""
        (Path(path) / "docker").chmod(0o644)
        assert why_missing(tap, path) == "'docker' is not installed"

    def test_a_script_without_a_check_is_told(self, tap: Path, path: str) -> None:
        script(tap, "a/b", "#!/bin/sh\nset -e\n")
        assert why_missing(tap, path) == "deps/a/b.sh has no line '# check: COMMAND', so it can't be looked for"


class TestHostile:
    def test_nothing_that_a_check_says_is_run(self, tap: Path, path: str, tmp_path: Path) -> None:
        mark = tmp_path / "mark"
        for said in [
            "$(touch {mark})",
            "`touch {mark}`",
            "docker; touch {mark}",
            "docker && touch {mark}",
            "touch {mark}",
            "| touch {mark}",
            "${{X:-$(touch {mark})}}",
            "docker\x00; touch {mark}",
            "bash -c 'touch {mark}'",
        ]:
            script(tap, "a/b", head(said.format(mark=mark)) + f"touch {mark}\n")
            why_missing(tap, f"{path}:/usr/bin:/bin")
            assert not mark.exists(), said

    def test_a_check_that_names_no_command_is_told_and_finds_nothing(self, tap: Path, path: str) -> None:
        for said in ["$(touch x)", "`touch x`", "docker;rm", "$docker", "-x", "do\x00cker"]:
            script(tap, "a/b", head(said))
            assert "names no command" in why_missing(tap, path), said

    def test_a_name_that_is_no_owner_and_tool_finds_no_file(self, tap: Path, path: str) -> None:
        script(tap.parent, "outside", head("docker"))
        outside = ["../../outside", "..", "a/..", "../b", "/etc/passwd", "~/b", "a\\b", ".a/b", "a/.b", "a/..b"]
        odd = ["a/b/c", "a", "", "a/b\n", "a/b;c", "a/$(c)", "-a/b", "ä/b", f"a/{'b' * 300}"]
        for name in [*outside, *odd]:
            assert read_requirement(name, tap).script is None, name
            assert "write OWNER/TOOL" in why_missing(tap, path, name)

    def test_a_link_that_leads_out_of_deps_is_not_followed(self, tap: Path, path: str, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        outside = program(tmp_path / "elsewhere" / "b.sh", head("docker"))
        (tap / "deps" / "a" / "b.sh").symlink_to(outside)
        (tap / "deps" / "c").symlink_to(outside.parent)
        assert "leads out of its folder" in why_missing(tap, path)
        assert "leads out of its folder" in why_missing(tap, path, "c/b")

    def test_a_link_within_deps_is_followed(self, tap: Path, path: str) -> None:
        script(tap, "docker/docker", head("docker"))
        (tap / "deps" / "a" / "b.sh").symlink_to("../docker/docker.sh")
        assert why_missing(tap, path) == ""

    def test_a_script_that_is_not_there_is_told(self, tap: Path, path: str) -> None:
        assert "there is no deps/a/b.sh beside capabilities/" in why_missing(tap, path)
        assert "there is no deps/a/b.sh" in why_missing(tap.parent, path)
        (tap / "deps" / "a" / "b.sh").symlink_to("b.sh")
        assert "there is no deps/a/b.sh" in why_missing(tap, path)

    def test_a_pipe_or_folder_in_the_place_of_a_script_is_told_and_not_waited_for(self, tap: Path, path: str) -> None:
        os.mkfifo(tap / "deps" / "a" / "b.sh")
        assert "deps/a/b.sh: can't read the file (no regular file)" in why_missing(tap, path)
        (tap / "deps" / "a" / "c.sh").mkdir()
        assert "deps/a/c.sh: can't read the file (is a directory)" in why_missing(tap, path, "a/c")
