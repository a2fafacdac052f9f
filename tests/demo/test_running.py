"""What a demo's servers are given of the user's environment, and what a demo says at its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from demo.running import demo_environment, print_ending


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MCP_USAGE", "MCP_USAGE_FILE"):
        monkeypatch.delenv(name, raising=False)


class TestEnvironment:
    def test_has_none_of_the_users_settings(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MCP_READ_ONLY", "true")
        assert "MCP_READ_ONLY" not in demo_environment()

    def test_logs_nothing_in_the_logs_of_the_users_own_servers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for usage in ["", "counts", "words"]:
            monkeypatch.setenv("MCP_USAGE", usage)
            assert demo_environment()["MCP_USAGE"] == "off"

    def test_logs_in_the_file_that_the_user_names(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("MCP_USAGE_FILE", str(tmp_path / "usage.db"))
        environ = demo_environment()
        assert (environ["MCP_USAGE"], environ["MCP_USAGE_FILE"]) == ("counts", str(tmp_path / "usage.db"))

    def test_names_the_file_from_any_folder(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("MCP_USAGE_FILE", "usage.db")
        assert demo_environment()["MCP_USAGE_FILE"] == str(tmp_path / "usage.db")


class TestEnding:
    def test_says_how_to_read_what_was_logged(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        monkeypatch.setenv("MCP_USAGE_FILE", str(tmp_path / "my log.db"))
        print_ending(Console(width=40))
        first = capsys.readouterr().out.splitlines()[0]
        assert first == f"What was called: agent-utilities usage --file '{tmp_path}/my log.db'"

    def test_says_nothing_of_a_log_where_there_is_none(self, capsys: pytest.CaptureFixture[str]) -> None:
        print_ending(Console(width=80))
        assert capsys.readouterr().out == "Everything that was started has been stopped.\n"
