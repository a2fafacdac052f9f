"""Rules as a settings file has them: they are known by their line, and a project's file has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_utilities.access.rules import rules_of
from agent_utilities.errors import InputError, SettingsError
from agent_utilities.server.surface.operator import Operator
from tests.every import every


def operator(tmp_path: Path, rules: str, **environ: str) -> Operator:
    path = tmp_path / "settings.toml"
    path.write_text(f"[profiles.readers]\nread_only = true\n{rules}")
    return Operator({"MCP_CONFIG_FILE": str(path), **environ})


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


TWO_ISSUERS = '[auth]\nissuer = "https://login.example"\ntokens = "tokens.json"\n'


class TestTwoIssuers:
    """One subject of two issuers is two people, so that each rule says of whom it is."""

    @every("who", ['subject = "ann"', 'issuer = "https://other.example"', 'issuer = ["local", "*"]', 'issuer = "loc*"'])
    def test_refuse_a_rule_that_names_neither(self, who: str, tmp_path: Path) -> None:
        message = refused(tmp_path, f'{TWO_ISSUERS}[[access]]\nwho = {{ {who} }}\nprofile = "all"\n')
        assert "a rule of access without its issuer" in message
        assert "issuer = one of 'https://login.example', 'local'" in message

    @every("who", ['issuer = "local"', 'issuer = ["local", "https://login.example"]'])
    def test_take_a_rule_that_names_one_or_both(self, who: str, tmp_path: Path) -> None:
        held = operator(tmp_path, f'{TWO_ISSUERS}[[access]]\nwho = {{ {who} }}\nprofile = "all"\n')
        assert len(rules_of(held.settings, held.files).rules) == 1

    def test_that_are_one_need_no_name(self, tmp_path: Path) -> None:
        for auth in ('[auth]\ntokens = "tokens.json"\n', '[auth]\nissuer = "https://login.example"\n'):
            held = operator(tmp_path, f'{auth}[[access]]\nwho = {{ subject = "ann" }}\nprofile = "all"\n')
            assert len(rules_of(held.settings, held.files).rules) == 1


def test_rules_beside_a_policy_by_which_callers_override_bounds_are_refused(tmp_path: Path) -> None:
    held = operator(tmp_path, '[[access]]\nwho = {}\nprofile = "all"\n', MCP_SELECTION_POLICY="override")
    with pytest.raises(SettingsError, match="rules of access beside selection_policy=override"):
        rules_of(held.settings, held.files)
    held = operator(tmp_path, "", MCP_SELECTION_POLICY="override")
    assert rules_of(held.settings, held.files).rules == ()


def test_a_rule_is_read_with_all_that_it_says(tmp_path: Path) -> None:
    rule = 'who = { subject = ["ann", "b*"], group = "staff" }\nprofile = "readers"\nmay = ["metrics", "page.read"]'
    held = operator(tmp_path, f'[auth]\ngroups = "roles"\nabsent = " roles, ,team"\n[[access]]\n{rule}\n')
    found = rules_of(held.settings, held.files)
    assert (found.groups, found.absent) == ("roles", {"roles", "team"})
    (read,) = found.rules
    assert (read.number, read.who, read.profile, read.may, read.where.replace(str(tmp_path), "")) == (
        1,
        {"subject": {"ann", "b*"}, "group": {"staff"}},
        "readers",
        {"metrics", "page.read"},
        "rule 1 (/settings.toml, line 6)",
    )
