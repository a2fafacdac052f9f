"""Which config file is taken where none was named."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_utilities.gateway.upstreams.configuration.host_files import (
    Found,
    find_config,
    own_file,
    searched,
    user_files,
)

SERVERS = '{"mcpServers": {"git": {"command": "git-mcp"}}}'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "repository"


def write(path: Path, text: str = SERVERS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


class TestFound:
    def test_is_none_where_there_is_none(self, folder: Path, home: Path) -> None:
        assert find_config(folder, home, {}) is None
        assert searched(folder, home, {})[:4] == (
            folder / ".mcp.json",
            folder / "mcp.json",
            folder / ".vscode/mcp.json",
            folder / ".cursor/mcp.json",
        )

    def test_is_the_folders_first_then_the_users_own_then_the_hosts(self, folder: Path, home: Path) -> None:
        own = write(own_file(home, {}))
        of_hosts = [write(path) for path in user_files(home, {}).values()]
        of_folder = [write(folder / name) for name in (".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")]
        ordered = [*of_folder, own, *of_hosts]
        for place, path in enumerate(ordered):
            is_of_folder = path in of_folder
            assert find_config(folder, home, {}) == Found(path, is_of_folder, tuple(ordered[place + 1 :]))
            path.unlink()

    def test_is_a_folders_file_even_where_it_is_broken_so_that_this_is_told(self, folder: Path, home: Path) -> None:
        write(home / ".cursor" / "mcp.json")
        broken = write(folder / ".mcp.json", "{")
        found = find_config(folder, home, {})
        assert found is not None
        assert found.path == broken

    def test_is_no_hosts_file_without_servers(self, folder: Path, home: Path) -> None:
        for text in ["{", "", '{"theme": "dark"}', '{"mcpServers": {}}']:
            write(home / ".claude.json", text)
            cursors = write(home / ".cursor" / "mcp.json")
            assert find_config(folder, home, {}) == Found(cursors, False)

    def test_is_the_users_own_where_the_folder_is_the_home(self, home: Path) -> None:
        path = write(home / ".cursor" / "mcp.json")
        assert find_config(home, home, {}) == Found(path, False)

    def test_is_no_folder_of_the_name(self, folder: Path, home: Path) -> None:
        (folder / ".mcp.json").mkdir(parents=True)
        path = write(folder / "mcp.json")
        assert find_config(folder, home, {}) == Found(path, True)

    def test_follows_the_systems_settings_folder(self, folder: Path, home: Path, tmp_path: Path) -> None:
        path = write(tmp_path / "xdg" / "agent-utilities" / "mcp.json")
        assert find_config(folder, home, {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}) == Found(path, False)
