"""`agent-utilities token` and `agent-utilities access`, as a person runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_utilities.access.token_file import read_tokens
from agent_utilities.cli.app import main
from tests.access.team import SETTINGS, Team
from tests.command_line import run_command
from tests.every import every


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    team = Team(tmp_path, SETTINGS)

    def command(*arguments: str) -> Any:
        environ = {"MCP_CONFIG_FILE": str(team.settings), "HOME": str(tmp_path), "PATH": ""}
        return run_command(main, ["agent-utilities", *arguments], environ, capfd)

    return command


class TestToken:
    def test_a_new_one_is_alone_on_stdout(self, run: Callable[..., Any], tmp_path: Path) -> None:
        done = run("token", "new", "ann", "--profile", "readers", "--expires", "12h")
        (kept,) = read_tokens(tmp_path / "tokens.json").tokens
        assert (done.returncode, len(done.stdout.split())) == (0, 1)
        assert read_tokens(tmp_path / "tokens.json").find(done.stdout.strip()) == kept
        assert (kept.name, kept.profile, bool(kept.expires)) == ("ann", "readers", True)

    def test_a_list_shows_whose_they_are_and_none_of_them(self, run: Callable[..., Any]) -> None:
        token = run("token", "new", "ann").stdout.strip()
        shown, as_json = run("token", "list"), run("token", "list", "--json")
        assert [each["name"] for each in json.loads(as_json.stdout)] == ["ann"]
        assert ("ann" in shown.stdout, token in shown.stdout + as_json.stdout) == (True, False)
        assert ("no end" in shown.stdout, "revoked" in shown.stdout) == (True, False)

    def test_a_profile_that_nobody_wrote_is_refused_before_anything_is_kept(self, run, tmp_path: Path) -> None:
        done = run("token", "new", "ann", "--profile", "nope")
        assert (done.returncode, done.stdout, "no such profile: 'nope'" in done.stderr) == (2, "", True)
        assert not (tmp_path / "tokens.json").exists()

    def test_one_that_no_rule_fits_is_told_when_it_is_made(self, run: Callable[..., Any]) -> None:
        told = "WARNING: no rule of access fits stranger, so this token permits nothing"
        assert told in run("token", "new", "stranger").stderr
        assert "WARNING" not in run("token", "new", "ann").stderr

    def test_a_revoked_one_is_gone(self, run: Callable[..., Any]) -> None:
        run("token", "new", "ann")
        assert run("token", "revoke", "ann").returncode == 0
        done = run("token", "revoke", "ann")
        assert (done.returncode, "no token of this name" in done.stderr) == (2, True)


class TestAccess:
    def test_test_prints_rule_surface_and_reasons(self, run: Callable[..., Any]) -> None:
        claims = json.dumps({"iss": "local", "sub": "intern-7"})
        done = json.loads(run("access", "test", "--as", claims, "--json").stdout)
        assert (done["rule"], done["profile"], done["may"]) == (2, "readers", [])
        assert [reason.partition(")")[2] for reason in done["reasons"]] == [
            " does not fit: 'sub' is not 'ann'",
            " fits, and gives the profile 'readers'",
        ]
        assert len(done["bounds"]) == 1
        assert done["bounds"][0].startswith("not annotated readOnlyHint: true (rule 2 ")

    def test_test_adds_what_the_token_is_bounded_to(self, run: Callable[..., Any]) -> None:
        run("token", "new", "ann", "--profile", "readers")
        done = json.loads(run("access", "test", "--as", '{"iss": "local", "sub": "ann"}', "--json").stdout)
        assert (done["rule"], done["profile"], len(done["bounds"])) == (1, "all", 1)
        assert done["bounds"][0].startswith("not annotated readOnlyHint: true (token ann")

    @pytest.mark.outside
    def test_test_loads_no_host(self, tmp_path: Path) -> None:
        code = "import sys; from agent_utilities.cli.app import main\ntry: main()\n"
        code += "except SystemExit: print('fastmcp' in sys.modules, 'mcp' in sys.modules)"
        command = ["access", "test", "--as", "{}"]
        environ = {"MCP_CONFIG_FILE": "none", "HOME": str(tmp_path), "PATH": ""}
        done = subprocess.run(
            [sys.executable, "-c", code, *command], env=environ, capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == "False False"

    @every("claims", ["", "{", "[]", '"ann"'])
    def test_what_are_no_claims_is_refused(self, claims: str, run: Callable[..., Any]) -> None:
        assert run("access", "test", "--as", claims).returncode == 2
