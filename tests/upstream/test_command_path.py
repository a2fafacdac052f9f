"""The program of an upstream: where it is looked for, and why it can't be run."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_utilities.upstream.processes.program import CommandError, child_path, find_program
from tests.every import every


def program(path: Path, text: str = "#!/bin/sh\n", mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    path.chmod(mode)
    return path


class TestFinding:
    def find(self, command: str, home: Path, path: str = "/no/such") -> Path:
        return find_program(command, path=path, folder=home, home=home)

    def test_the_folders_of_path_come_first_in_their_order(self, tmp_path: Path):
        first, _, _ = (program(tmp_path / name / "tool") for name in ("a", "b", ".local/bin"))
        assert self.find("tool", tmp_path, f"{tmp_path}/a:{tmp_path}/b") == first

    @pytest.mark.parametrize(
        "place", [".local/bin", ".cargo/bin", ".volta/bin", ".asdf/shims", ".local/share/mise/shims", ".bun/bin"]
    )
    def test_the_usual_places_are_looked_in_too(self, place: str, tmp_path: Path):
        there = program(tmp_path / place / "tool-of-mine")
        assert self.find("tool-of-mine", tmp_path) == there

    def test_of_nvm_it_is_the_newest_version(self, tmp_path: Path):
        for version in ("v9.9.9", "v22.1.0", "v18.20.1"):
            program(tmp_path / ".nvm/versions/node" / version / "bin/npx-of-mine")
        assert "v22.1.0" in str(self.find("npx-of-mine", tmp_path))

    def test_of_nvm_it_is_the_default_version_where_there_is_one(self, tmp_path: Path):
        for version in ("v22.1.0", "v18.20.1"):
            program(tmp_path / ".nvm/versions/node" / version / "bin/npx-of-mine")
        program(tmp_path / ".nvm/alias/default", "18\n")
        assert "v18.20.1" in str(self.find("npx-of-mine", tmp_path))

    def test_a_path_is_relative_to_the_folder(self, tmp_path: Path):
        there = program(tmp_path / "bin" / "tool")
        assert self.find("./bin/tool", tmp_path).resolve() == there

    def test_a_path_may_begin_with_the_home_folder(self, tmp_path: Path):
        assert self.find("~/bin/tool", program(tmp_path / "bin/tool").parents[1]) == tmp_path / "bin/tool"

    def test_what_it_starts_by_name_is_found_beside_it(self, tmp_path: Path):
        there = program(tmp_path / ".nvm/versions/node/v22.1.0/bin/npx")
        assert child_path("/bin", there, tmp_path, is_configured=False).split(":")[:2] == ["/bin", str(there.parent)]
        assert child_path("/bin", there, tmp_path, is_configured=True) == f"/bin:{there.parent}"


class TestErrors:
    def why(self, command: str, folder: Path, path: str = "/no/such") -> str:
        with pytest.raises(CommandError) as raised:
            find_program(command, path=path, folder=folder, home=folder)
        return str(raised.value)

    def test_where_was_looked_is_told(self, tmp_path: Path):
        (tmp_path / ".cargo/bin").mkdir(parents=True)
        told = self.why("no-such-tool", tmp_path, f"{tmp_path}/a:{tmp_path}/b")
        assert told.startswith(f"no command 'no-such-tool'; looked in {tmp_path}/a, {tmp_path}/b, /usr/local/bin, ")
        assert f"{tmp_path}/.cargo/bin" in told

    def test_the_nearest_name_is_told(self, tmp_path: Path):
        program(tmp_path / "a" / "mcp-server-weather")
        assert self.why("mcp-sever-weather", tmp_path, f"{tmp_path}/a").endswith("did you mean 'mcp-server-weather'?")

    def test_the_nearest_file_is_told(self, tmp_path: Path):
        program(tmp_path / "server")
        assert self.why("./sever", tmp_path).endswith(f"did you mean '{tmp_path}/server'?")

    def test_arguments_in_the_command_are_told(self, tmp_path: Path):
        assert "write the program alone into 'command'" in self.why("npx-of-mine -y package", tmp_path)

    def test_a_file_that_lies_in_the_folder_itself_is_told(self, tmp_path: Path):
        program(tmp_path / "server-of-mine")
        assert self.why("server-of-mine", tmp_path).endswith("write './server-of-mine' to run that")

    @every("command", ["./tool", "tool"])
    def test_one_that_is_not_executable_is_told(self, command: str, tmp_path: Path):
        program(tmp_path / "tool", mode=0o644)
        assert "is not executable" in self.why(command, tmp_path, str(tmp_path))

    @pytest.mark.parametrize("command", ["./tool", "tool"])
    def test_a_folder_is_told(self, command: str, tmp_path: Path):
        (tmp_path / "tool").mkdir()
        assert "is a folder" in self.why(command, tmp_path, str(tmp_path))

    def test_a_missing_interpreter_is_told(self, tmp_path: Path):
        program(tmp_path / "tool", "#!/usr/bin/no-such-python -u\n")
        assert "wants the interpreter '/usr/bin/no-such-python'" in self.why("./tool", tmp_path)

    def test_windows_line_ends_are_told(self, tmp_path: Path):
        program(tmp_path / "tool", "#!/bin/sh\r\n")
        assert "save it with Unix line ends" in self.why("./tool", tmp_path)

    def test_a_missing_folder_is_told(self, tmp_path: Path):
        assert self.why("tool", tmp_path / "gone") == (
            f"its folder '{tmp_path}/gone' does not exist: set 'cwd' to one that exists"
        )

    def test_an_empty_command_is_told(self, tmp_path: Path):
        assert self.why(" ", tmp_path) == "its command is empty"
