"""The program of an upstream: where it is looked for, and why it can't be run."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_utilities.gateway.upstreams.processes.program import CommandError, child_path, find_program
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

    @every("place", [".local/bin", ".cargo/bin", ".volta/bin", ".asdf/shims", ".local/share/mise/shims", ".bun/bin"])
    def test_the_usual_places_are_looked_in_too(self, place: str, tmp_path: Path):
        there = program(tmp_path / place / "tool-of-mine")
        assert self.find("tool-of-mine", tmp_path) == there

    def test_of_nvm_it_is_the_newest_version_or_the_default(self, tmp_path: Path):
        for version in ("v9.9.9", "v22.1.0", "v18.20.1"):
            program(tmp_path / ".nvm/versions/node" / version / "bin/npx-of-mine")
        assert "v22.1.0" in str(self.find("npx-of-mine", tmp_path))
        program(tmp_path / ".nvm/alias/default", "18\n")
        assert "v18.20.1" in str(self.find("npx-of-mine", tmp_path))

    def test_a_path_is_relative_to_the_folder_or_the_home(self, tmp_path: Path):
        there = program(tmp_path / "bin" / "tool")
        assert self.find("./bin/tool", tmp_path).resolve() == there
        assert self.find("~/bin/tool", tmp_path) == there

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

    def test_what_would_do_is_told(self, tmp_path: Path):
        for name, text, mode, command, told in [
            ("mcp-server-weather", "#!/bin/sh\n", 0o755, "mcp-sever-weather", "did you mean 'mcp-server-weather'?"),
            ("server", "#!/bin/sh\n", 0o755, "./sever", f"did you mean '{tmp_path}/1/server'?"),
            ("other", "", 0o644, "npx-of-mine -y package", "write the program alone into 'command'"),
            ("third", "", 0o644, "./bin/other -y @of/package", "write the program alone into 'command'"),
            ("tool", "#!/bin/sh\n", 0o644, "./tool", "is not executable"),
            ("tool", "#!/bin/sh\n", 0o644, "tool", "is not executable"),
            ("tool/within", "", 0o644, "./tool", "is a folder"),
            ("tool/within", "", 0o644, "tool", "is a folder"),
        ]:
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            program(folder / name, text, mode)
            assert told in self.why(command, folder, str(folder))

    def test_a_file_that_lies_in_the_folder_itself_is_told(self, tmp_path: Path):
        program(tmp_path / "server-of-mine")
        assert self.why("server-of-mine", tmp_path).endswith("write './server-of-mine' to run that")

    def test_a_missing_folder_is_told(self, tmp_path: Path):
        assert self.why("tool", tmp_path / "gone") == (
            f"its folder '{tmp_path}/gone' does not exist: set 'cwd' to one that exists"
        )

    def test_an_empty_command_is_told(self, tmp_path: Path):
        assert self.why(" ", tmp_path) == "its command is empty"
