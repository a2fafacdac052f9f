"""Rules as a settings file has them: they are known by their line, and a project's file has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_utilities.access.rules import rules_of
from agent_utilities.errors import InputError, SettingsError
from agent_utilities.mcp.surface.operator import Operator


def operator(tmp_path: Path, rules: str) -> Operator:
    path = tmp_path / "settings.toml"
    path.write_text(f"[profiles.readers]\nread_only = true\n{rules}")
    return Operator({"MCP_CONFIG_FILE": str(path)})


def refused(tmp_path: Path, rules: str) -> str:
    held = operator(tmp_path, rules)
    with pytest.raises(InputError) as told:
        rules_of(held.settings, held.files)
    return str(told.value).replace(str(tmp_path), "")


def test_what_cant_be_read_is_refused_where_it_stands(tmp_path: Path) -> None:
    good = '[[access]]\nwho = {}\nprofile = "readers"\n'
    message = refused(tmp_path, f'{good}[[access]]\nwho = {{ subject = "ann" }}\nprofile = "reader"\n')
    assert "unknown profile: 'reader' (from rule 2 (/settings.toml, line 6))" in message


def test_rules_that_are_no_list_of_tables_are_refused(tmp_path: Path) -> None:
    assert "access can't be read" in refused(tmp_path, "[access]\nwho = {}\n")


def test_a_projects_file_may_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MCP_CONFIG_FILE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    Path("agent-utilities.toml").write_text('[[access]]\nwho = {}\nprofile = "all"\n')
    with pytest.raises(SettingsError, match="a project's file does not say who may what"):
        _ = Operator().settings
