"""No test can write to the user's cache folder: this process and those it starts have one of the run's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from tests import environment

ASK = "import platformdirs; print(platformdirs.user_cache_dir('agent-utilities'))"


def own() -> Path:
    """Return the cache folder that this process has."""
    return platformdirs.user_cache_path(environment.APP)


def test_it_is_in_the_runs_folder() -> None:
    assert own().parents[1].name.startswith("agent-utilities-tests-")


@pytest.mark.outside
def test_a_process_that_is_started_has_it_too() -> None:
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(own())


@pytest.mark.outside
def test_a_process_that_knows_the_home_folder_alone_writes_where_it_is_found_out() -> None:
    kept = {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", ASK], env=kept, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == own().parents[1] / "home" / ".cache" / environment.APP


def test_nothing_of_the_users_selection_is_left() -> None:
    assert {name for name in os.environ if name.startswith("MCP_")} == {"MCP_RANKER", "MCP_CONFIG_FILE"}
    assert os.environ["MCP_CONFIG_FILE"] == "none"


def test_each_test_has_a_state_folder_that_none_had_before() -> None:
    state = platformdirs.user_state_path(environment.APP)
    assert state.parents[2].name.startswith("agent-utilities-tests-")
    assert not state.parent.exists()


def test_what_was_downloaded_is_the_one_thing_that_is_shared() -> None:
    shared = {path.name for path in own().iterdir() if path.is_symlink()}
    assert shared == set(environment.DOWNLOADS)


def test_a_run_gives_the_environment_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_ENABLED_TOOLS", "mine")
    before = dict(os.environ)
    run = environment.begin()
    assert "MCP_ENABLED_TOOLS" not in os.environ
    run.end()
    assert (dict(os.environ), run.folder.exists()) == (before, False)
