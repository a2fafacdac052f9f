"""What a bundle's files may have at the most, and what of too much is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_utilities.capabilities import tap
from agent_utilities.capabilities.bundle import MAX_TRIGGER
from agent_utilities.capabilities.tap import read_capabilities
from tests.capabilities.written import BROWSER, SEARCH, TOOLCHAIN, write


def triggers_of(n_characters: int) -> str:
    return f'triggers = ["{"x" * n_characters}"]\n'


@pytest.mark.parametrize(("n_characters", "is_told"), [(MAX_TRIGGER, False), (MAX_TRIGGER + 1, True)])
def test_a_trigger_that_is_too_long_is_cut_and_told(tmp_path: Path, n_characters: int, is_told: bool) -> None:
    write(tmp_path, {"docker/docker.toml": TOOLCHAIN, "docker/config.toml": triggers_of(n_characters)})
    read = read_capabilities([tmp_path])
    assert read.by_name["docker"].triggers == ("x" * MAX_TRIGGER,)
    assert [f"over {MAX_TRIGGER} characters" in notice for notice in read.notices] == ([True] if is_told else [])


@pytest.mark.parametrize(("most", "is_told"), [(2, False), (1, True)])
def test_of_too_many_bundles_the_first_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, is_told: bool
) -> None:
    monkeypatch.setattr(tap, "MAX_BUNDLES", most)
    write(tmp_path, {"browser/chrome.toml": BROWSER, "docker/docker.toml": TOOLCHAIN})
    read = read_capabilities([tmp_path])
    assert list(read.by_name) == ["browser", "docker"][:most]
    assert ["has 2 bundles" in problem for problem in read.problems] == ([True] if is_told else [])


@pytest.mark.parametrize("n_characters", [200, 201])
def test_a_title_that_is_too_long_is_shortened(tmp_path: Path, n_characters: int) -> None:
    write(tmp_path, {"docker/docker.toml": f'title = "{"x" * n_characters}"\n{TOOLCHAIN}'})
    title = read_capabilities([tmp_path]).by_name["docker"].title
    assert title == ("x" * 200 if n_characters == 200 else "x" * 199 + "\N{HORIZONTAL ELLIPSIS}")


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("docker.toml", "[mcp]\nserver = 1\n", "docker.toml: mcp: the key 'server' is not known"),
        ("docker.toml", "[roles.mpc]\nx = 1\n", "docker.toml: roles: the key 'mpc' is not known"),
        ("docker.toml", "[roles.mcp]\nservers = 1\n", "docker.toml: roles.mcp: the key 'servers' is not known"),
        ("docker.toml", "[dep]\nx = 1\n", "docker.toml: the key 'dep' is not known"),
        ("config.toml", "trigger = []\n", "config.toml: the key 'trigger' is not known"),
    ],
)
def test_a_key_that_nothing_reads_is_told_wherever_it_stands(tmp_path: Path, file: str, text: str, told: str) -> None:
    write(tmp_path, {"docker/docker.toml": TOOLCHAIN})
    path = tmp_path / "docker" / file
    path.write_text(f"{path.read_text() if path.exists() else ''}\n{text}")
    read = read_capabilities([tmp_path])
    assert "docker" in read.by_name
    (notice,) = read.notices
    assert told in notice


def test_requirements_of_bundles_in_any_folder_stand_beside_them(tmp_path: Path) -> None:
    bundles = write(tmp_path / "mine", {"docker/docker.toml": TOOLCHAIN})
    assert read_capabilities([bundles]).taps["docker"] == bundles


def test_requirements_of_a_taps_bundles_stand_beside_their_folder(tmp_path: Path) -> None:
    bundles = write(tmp_path / "tap" / "capabilities", {"docker/docker.toml": TOOLCHAIN})
    assert read_capabilities([bundles]).taps["docker"] == bundles.parent
    assert read_capabilities([bundles.parent]).taps["docker"] == bundles.parent


def test_a_folder_without_a_file_of_toml_is_no_bundle(tmp_path: Path) -> None:
    write(tmp_path, {"docker/docker.toml": TOOLCHAIN, "pictures of mine/one.png": b"", "README.md": "words"})
    read = read_capabilities([tmp_path])
    assert (list(read.by_name), read.problems) == (["docker"], ())


@pytest.mark.parametrize(
    ("name", "what"),
    [("gone.toml", "is no provider"), ("../other/x.toml", "it leads out of the folder")],
)
def test_a_default_that_is_no_provider_is_told_for_what_it_is(tmp_path: Path, name: str, what: str) -> None:
    write(tmp_path, {"web/a.toml": SEARCH, "web/b.toml": BROWSER, "web/default.toml": name})
    (problem,) = read_capabilities([tmp_path]).problems
    assert what in problem
    assert ("leads out" in problem) == name.startswith("..")
