"""What a settings file says of quotas is read whole, or told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_utilities.access.quotas import QuotaTable, of_name, quotas_of, smallest
from agent_utilities.errors import InputError
from agent_utilities.selection.profiles import SettingsFiles
from agent_utilities.settings import Quota, Settings
from agent_utilities.settings_file import read_files
from tests.access.bounded import Bounded
from tests.every import every

ONE, TWO = Quota(calls_per_minute=1), Quota(calls_per_minute=2, calls_at_once=1)


class TestTheSmallest:
    def test_of_each_bound_holds(self) -> None:
        assert smallest(ONE, TWO, Quota()) == Quota(calls_per_minute=1, calls_at_once=1)

    def test_of_none_is_no_bound(self) -> None:
        assert smallest() == Quota()

    def test_of_all_that_fit_a_tool_holds_in_any_case(self) -> None:
        table = QuotaTable(tools={"git_*": ONE, "*_log": TWO, "Read": TWO})
        assert [of_name(table.tools, name) for name in ("Git_Log", "read", "write")] == [
            smallest(ONE, TWO),
            TWO,
            Quota(),
        ]

    def test_of_a_person_holds_with_those_of_their_profiles(self) -> None:
        table = QuotaTable(calls_per_minute=2, calls_at_once=1, profiles={"a": ONE, "b": Quota(calls_at_once=9)})
        assert [table.of_person(names) for names in ((), ("a",), ("b", "c"))] == [TWO, smallest(ONE, TWO), TWO]


class TestWhatCantBeRead:
    @every(
        ("quota", "told"),
        [
            ("[quota]\ncalls_per_minut = 1", "quota); did you mean calls_per_minute?"),
            ("[quota]\ntool = 1", "did you mean tools?"),
            ("[quota]\nzzz = 1", "there are: calls_per_minute, bytes_per_minute, calls_at_once, tools, servers"),
            ("[quota]\ncalls_at_once = 0", "calls_at_once can't be read: '0'"),
            ("[quota]\ncalls_at_once = true", "write a whole number above 0"),
            ('[quota]\ncalls_at_once = "3"', "calls_at_once can't be read: '3'"),
            ("[quota]\ncalls_at_once = 1.5", "calls_at_once can't be read: '1.5'"),
            ("[quota]\ntools = 3", 'write [quota.tools."NAME"] with its bounds below'),
            ("[quota.tools]\ngit_log = 3", "git_log can't be read: '3'"),
            ('[quota.tools."git_*"]\ncalls = 3', "quota.tools.git_*); there are"),
            ("[quota.servers.jira]\ncalls_at_once = -1", "quota.servers.jira); write a whole number above 0"),
            ("[profiles.readers.quota]\ncalls_at_one = 1", "profiles.readers.quota); did you mean calls_at_once?"),
            ("[profiles.readers.quota.tools]\nx = 1", "profiles.readers.quota); "),
            ("[profiles.readers]\nquota = 1", "profiles.readers); write it as a table with any of"),
            ("[quota.profiles.readers]\ncalls_at_once = 1", "write each as [profiles.NAME.quota]"),
            ("quota = 1", "quota can't be read"),
        ],
    )
    def test_is_told_with_its_place_and_what_would_do(self, quota: str, told: str, tmp_path: Path) -> None:
        server = Bounded(tmp_path, "").server
        (tmp_path / "agent-utilities.toml").write_text(quota)
        with pytest.raises(InputError) as error:
            server().http_app()
        assert told in str(error.value)
        assert "agent-utilities.toml: " in str(error.value)

    @every("quota", ["[quota]\ncalls_at_once = 9", "[profiles.a.quota]\ncalls_at_once = 9"])
    def test_is_all_in_a_projects_file(self, quota: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "agent-utilities.toml").write_text(quota)
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("MCP_CONFIG_FILE", raising=False)
        with pytest.raises(InputError, match="a project's file does not say how much is called"):
            read_files()


def test_quotas_of_profiles_stand_beside_the_others(tmp_path: Path) -> None:
    given: dict[str, Any] = {"calls_per_minute": 1, "profiles": {"a": {"calls_at_once": 1, "calls_per_minute": 2}}}
    given["servers"] = {"Jira": {"calls_per_minute": 1}}
    table = quotas_of(Settings(quota=given), SettingsFiles())
    assert table == QuotaTable(calls_per_minute=1, profiles={"a": TWO}, servers={"Jira": ONE})
