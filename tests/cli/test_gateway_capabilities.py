"""`agent-utilities gateway --capabilities`: what an operator types, and what he is told."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_utilities.cli.app import main
from tests.command_line import Done, run_command

COMMAND = str(Path(sys.executable).parent / "agent-utilities")
Command = Callable[..., Done]


@pytest.fixture
def command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a gateway's command in this process, in a folder without any config."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    environ = {**os.environ, **home, "MCP_GATEWAY_FOLDER": str(tmp_path), "MCP_GRAPH": "off", "COLUMNS": "200"}
    return lambda *arguments: run_command(main, [COMMAND, "gateway", *arguments], environ, capfd)


def write(folder: Path, name: str, server: str) -> None:
    """Write a bundle of one server."""
    (folder / name).mkdir(parents=True)
    (folder / name / "config.toml").write_text('triggers = ["do what it is for"]\n')
    (folder / name / "own.toml").write_text(server)


def test_a_gateway_with_capabilities_needs_no_config(command: Command) -> None:
    done = command("--capabilities", "starter", "--list", "--json")
    assert done.returncode == 0
    assert [row["name"] for row in json.loads(done.stdout)["components"]] == ["capability"]


def test_without_either_it_says_what_is_missing(command: Command) -> None:
    done = command("--list")
    assert done.returncode == 2
    assert "no config was found" in done.stderr


def test_a_capability_that_is_to_be_on_must_be_there(command: Command) -> None:
    done = command("--capabilities", "starter", "--capability", "brower", "--list")
    assert done.returncode == 2
    assert "did you mean browser?" in done.stderr


def test_a_bad_bundle_is_told_and_the_others_serve(command: Command, tmp_path: Path) -> None:
    write(tmp_path / "tap", "broken", "[[mcp.servers]\n")
    write(
        tmp_path / "tap", "keyed", '[[mcp.servers]]\nname = "k"\ncommand = "k"\nenv = { K = "{{ENV:NO_SUCH_KEY}}" }\n'
    )
    write(tmp_path / "tap", "sound", '[[mcp.servers]]\nname = "s"\ncommand = "s"\n')
    done = command("--capabilities", str(tmp_path / "tap"), "--list")
    assert done.returncode == 0
    assert "left out" in done.stderr
    assert "broken" in done.stderr
    assert "keyed can't be switched on" in done.stderr
    assert "NO_SUCH_KEY" in done.stderr
    assert "capability" in done.stdout


def test_of_many_that_lack_something_five_say_what_and_the_others_are_named(command: Command, tmp_path: Path) -> None:
    names = [f"keyed{n}" for n in range(7)]
    for name in names:
        server = f'[[mcp.servers]]\nname = "k"\ncommand = "k"\nenv = {{ K = "{{{{ENV:NO_KEY_OF_{name}}}}}" }}\n'
        write(tmp_path / "tap", name, server)
    done = command("--capabilities", str(tmp_path / "tap"), "--list")
    assert done.returncode == 0
    told = [line for line in done.stderr.splitlines() if "can't be switched on" in line]
    assert [name for name in names if any(f"NO_KEY_OF_{name}" in line for line in told)] == names[:5]
    assert told[5:] == [
        "note: 2 more can't be switched on: keyed5, keyed6; agent-utilities capabilities check says why"
    ]


def test_the_users_own_folder_needs_no_option_and_stands_over_what_is_named(command: Command, tmp_path: Path) -> None:
    write(tmp_path / "tap", "sound", "nonsense =\n")
    write(tmp_path / "config" / "agent-utilities" / "capabilities", "sound", '[[mcp.servers]]\nname="s"\ncommand="s"\n')
    done = command("--capabilities", str(tmp_path / "tap"), "--capability", "sound", "--list")
    assert done.returncode == 0
