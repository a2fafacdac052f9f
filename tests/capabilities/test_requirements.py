"""What a capability requires is looked for and never run, whatever its scripts and names say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_utilities.capabilities.model import Capability
from agent_utilities.capabilities.requirements import HEAD_BYTES, Checked, Requirement, check_all, read_requirement


@pytest.fixture
def tap(tmp_path: Path) -> Path:
    folder = tmp_path / "tap"
    (folder / "capabilities").mkdir(parents=True)
    (folder / "deps" / "lib").mkdir(parents=True)
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


def toolchain(*require: str) -> Capability:
    return Capability("docker", "docker/default.toml", Path("docker"), require=require)


def checked(tap: Path, path: str, *require: str) -> Checked:
    (one,) = check_all(toolchain(*require), tap, path)
    return one


class TestReading:
    def test_the_head_comment_says_what_is_looked_for(self, tap: Path) -> None:
        file = script(tap, "docker/docker", head("docker"))
        assert read_requirement("docker/docker", tap) == Requirement("docker/docker", "docker", file, "Installs it")

    def test_what_stands_after_the_head_comment_is_no_part_of_it(self, tap: Path) -> None:
        script(tap, "a/b", "#!/bin/sh\n\n# description: x\nset -e\n# check: docker\n")
        assert read_requirement("a/b", tap).check == ""

    def test_the_first_check_of_several_counts(self, tap: Path) -> None:
        script(tap, "a/b", "# check: docker\n# check: podman\n")
        assert read_requirement("a/b", tap).check == "docker"

    def test_line_ends_of_another_system_and_a_byte_order_mark_are_no_part_of_it(self, tap: Path) -> None:
        script(tap, "a/b", "\ufeff# check: docker\r\nset -e\r\n")
        assert read_requirement("a/b", tap).check == "docker"

    def test_bytes_that_are_no_text_do_no_harm(self, tap: Path) -> None:
        script(tap, "a/b", "# description: \udcff\udcfe\n# check: docker\n")
        assert read_requirement("a/b", tap).check == "docker"

    def test_a_description_has_nothing_that_a_terminal_obeys(self, tap: Path) -> None:
        script(tap, "a/b", "# description: \x1b[2Jit\x07 is é\n")
        assert read_requirement("a/b", tap).description == "[2Jit is é"

    def test_no_more_than_the_beginning_is_read(self, tap: Path) -> None:
        script(tap, "a/b", f"# {'x' * HEAD_BYTES}\n# check: docker\n")
        assert read_requirement("a/b", tap).check == ""

    @pytest.mark.parametrize(
        ("said", "looked_for"),
        [
            ("docker", "docker"),
            ("docker compose version", "docker"),
            ("docker --version >/dev/null 2>&1", "docker"),
            ("command -v docker", "docker"),
            ("command -v docker >/dev/null || [ -d ~/.docker ]", "docker"),
            ("which docker", "docker"),
            ("/opt/tools/bin/docker", "/opt/tools/bin/docker"),
            ("g++", "g++"),
            ("", ""),
            ("test -d ~/.docker", ""),
            ("[ -d ~/.docker ]", ""),
            ("./docker", ""),
            ("../docker", ""),
            ("--version", ""),
        ],
    )
    def test_the_program_is_the_first_word_of_the_check(self, said: str, looked_for: str) -> None:
        assert Requirement("a/b", said).program == looked_for


class TestLooking:
    def test_a_program_in_the_path_is_there(self, tap: Path, path: str) -> None:
        script(tap, "docker/docker", head("docker"))
        one = checked(tap, path, "docker/docker")
        assert (one.is_there, one.where, one.why) == (True, os.path.join(path, "docker"), "")

    def test_a_program_that_is_not_in_the_path_is_told(self, tap: Path, path: str) -> None:
        script(tap, "a/b", head("no-such-program"))
        one = checked(tap, path, "a/b")
        assert (one.is_there, one.why) == (False, "'no-such-program' is not installed")

    def test_a_file_that_may_not_be_run_is_no_program(self, tap: Path, path: str) -> None:
        script(tap, "docker/docker", head("docker"))
        (Path(path) / "docker").chmod(0o644)
        assert not checked(tap, path, "docker/docker").is_there

    def test_a_script_without_a_check_is_told(self, tap: Path, path: str) -> None:
        script(tap, "a/b", "#!/bin/sh\nset -e\n")
        assert checked(tap, path, "a/b").why == "deps/a/b.sh has no line '# check: COMMAND', so it can't be looked for"

    def test_each_requirement_is_checked_once_in_its_order(self, tap: Path, path: str) -> None:
        script(tap, "docker/docker", head("docker"))
        script(tap, "a/b", head("b"))
        found = check_all(toolchain("a/b", "docker/docker", "a/b"), tap, path)
        assert [(each.requirement.name, each.is_there) for each in found] == [("a/b", False), ("docker/docker", True)]


class TestHostile:
    @pytest.mark.parametrize(
        "said",
        [
            "$(touch {mark})",
            "`touch {mark}`",
            "docker; touch {mark}",
            "docker && touch {mark}",
            "touch {mark}",
            "| touch {mark}",
            "${{X:-$(touch {mark})}}",
            "docker\x00; touch {mark}",
            "bash -c 'touch {mark}'",
        ],
    )
    def test_nothing_that_a_check_says_is_run(self, tap: Path, path: str, tmp_path: Path, said: str) -> None:
        mark = tmp_path / "mark"
        script(tap, "a/b", head(said.format(mark=mark)) + f"touch {mark}\n")
        checked(tap, f"{path}:/usr/bin:/bin", "a/b")
        assert not mark.exists()

    @pytest.mark.parametrize("said", ["$(touch x)", "`touch x`", "docker;rm", "$docker", "-x", "do\x00cker"])
    def test_a_check_that_names_no_command_is_told_and_finds_nothing(self, tap: Path, path: str, said: str) -> None:
        script(tap, "a/b", head(said))
        one = checked(tap, path, "a/b")
        assert (one.is_there, "names no command" in one.why) == (False, True)

    @pytest.mark.parametrize(
        "name",
        [
            *("../../outside", "..", "a/..", "../b", "/etc/passwd", "~/b", "a\\b", ".a/b", "a/.b", "a/..b"),
            *("a/b/c", "a", "", "a/b\n", "a/b;c", "a/$(c)", "-a/b", "ä/b", f"a/{'b' * 300}"),
        ],
    )
    def test_a_name_that_is_no_owner_and_tool_finds_no_file(self, tap: Path, path: str, name: str) -> None:
        script(tap.parent, "outside", head("docker"))
        one = checked(tap, path, name)
        assert (one.is_there, one.requirement.script) == (False, None)
        assert "write OWNER/TOOL" in one.why

    def test_a_link_that_leads_out_of_deps_is_not_followed(self, tap: Path, path: str, tmp_path: Path) -> None:
        outside = program(tmp_path / "outside.sh", head("docker"))
        (tap / "deps" / "a").mkdir()
        (tap / "deps" / "a" / "b.sh").symlink_to(outside)
        one = checked(tap, path, "a/b")
        assert (one.requirement.script, "leads out of deps/" in one.why) == (None, True)

    def test_a_folder_that_is_a_link_out_of_deps_is_not_followed(self, tap: Path, path: str, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        program(tmp_path / "elsewhere" / "b.sh", head("docker"))
        (tap / "deps" / "a").symlink_to(tmp_path / "elsewhere")
        assert checked(tap, path, "a/b").requirement.script is None

    def test_a_link_within_deps_is_followed(self, tap: Path, path: str) -> None:
        script(tap, "docker/docker", head("docker"))
        (tap / "deps" / "a").mkdir()
        (tap / "deps" / "a" / "b.sh").symlink_to("../docker/docker.sh")
        assert checked(tap, path, "a/b").is_there

    def test_a_link_to_itself_is_told(self, tap: Path, path: str) -> None:
        (tap / "deps" / "a").mkdir()
        (tap / "deps" / "a" / "b.sh").symlink_to("b.sh")
        assert "there is no deps/a/b.sh" in checked(tap, path, "a/b").why

    def test_a_missing_script_says_which_and_where(self, tap: Path, path: str) -> None:
        assert "there is no deps/a/b.sh beside capabilities/" in checked(tap, path, "a/b").why

    def test_a_tap_without_deps_is_told(self, tmp_path: Path, path: str) -> None:
        assert "there is no deps/a/b.sh" in checked(tmp_path, path, "a/b").why

    def test_a_pipe_in_the_place_of_a_script_is_not_waited_for(self, tap: Path, path: str) -> None:
        (tap / "deps" / "a").mkdir()
        os.mkfifo(tap / "deps" / "a" / "b.sh")
        assert checked(tap, path, "a/b").why == "deps/a/b.sh can't be read: it is no file"

    def test_a_folder_in_the_place_of_a_script_is_told(self, tap: Path, path: str) -> None:
        (tap / "deps" / "a" / "b.sh").mkdir(parents=True)
        assert checked(tap, path, "a/b").why == "deps/a/b.sh can't be read: it is no file"
