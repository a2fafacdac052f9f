"""A new package: passes its own tests, and overwrites nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent_utilities.cli.new import make_package
from agent_utilities.errors import InputError
from tests.every import every

COMMAND = Path(sys.executable).parent / "agent-utilities"


def test_passes_its_own_tests(tmp_path):
    subprocess.run([COMMAND, "new", "weather-agent", "--directory", tmp_path], check=True, capture_output=True)
    folder = tmp_path / "weather-agent"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_its_server_has_the_command_line(tmp_path):
    folder = make_package("weather-agent", tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", "from weather_agent.__main__ import main; main(['--list', '--read-only'])"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "1 of 2 tools visible" in done.stdout


def test_a_name_that_can_not_be_one_is_refused(tmp_path):
    for name in ["", "Weather", "weather_agent", "../up", "a--b", "-x", "class", "1st", "a/b"]:
        with pytest.raises(InputError, match="not a package name"):
            make_package(name, tmp_path)
        assert list(tmp_path.iterdir()) == []


@every("name", ["json", "sys", "typing", "winreg", "fastmcp", "mcp", "agent-utilities", "tests"])
def test_a_name_by_which_another_module_is_imported_is_refused(tmp_path, name):
    with pytest.raises(InputError, match="another module is imported by that name"):
        make_package(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_left_alone(tmp_path):
    (tmp_path / "weather-agent").mkdir()
    with pytest.raises(InputError, match="already there"):
        make_package("weather-agent", tmp_path)
    assert list((tmp_path / "weather-agent").iterdir()) == []
