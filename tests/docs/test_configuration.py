"""The page on settings files: its example is read, and its list of what is refused is the code's."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from agent_utilities.selection.profiles import SettingsFiles, read_fields
from agent_utilities.settings import Settings, read_settings
from agent_utilities.settings_file import _REFUSED

TEXT = (Path(__file__).parents[2] / "docs/configuration.md").read_text(encoding="utf-8")


def test_the_example_is_read_whole() -> None:
    match = re.search(r"<!-- example: file -->\n```toml\n(.*?)```", TEXT, re.DOTALL)
    assert match is not None
    fields = read_fields(tomllib.loads(match[1]), "agent-utilities.toml", "file", Settings.model_fields)
    assert read_settings({}, [fields.settings]).list_ttl_ms == 30_000
    assert sorted(fields.profiles) == ["release", "review"]
    held = SettingsFiles((fields,)).for_operator(fields.selection)
    assert {name for (name, _), setting in held.slots if "profiles.review" in str(setting.origins)} == {
        "allow_tools",
        "read_only",
        "top_k",
    }


def test_what_a_projects_file_may_not_say_is_told() -> None:
    section = TEXT.partition("## What a project's file may not say")[2].partition("\n## ")[0]
    assert [name for name in _REFUSED if f"`{name}`" not in section] == []
