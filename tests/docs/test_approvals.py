"""The page on approvals: its rules are read as they stand, and its transcript is what a model and a person read."""

from __future__ import annotations

import json
import re
from pathlib import Path

from agent_utilities.approvals.rules import WORDS, table_of
from agent_utilities.approvals.store import N_OF_CALLER, N_WAITING
from agent_utilities.gateway.upstreams.configuration.config_files import read_servers
from agent_utilities.settings import ApproveRule, read_settings
from agent_utilities.settings_file import read_files
from tests.docs.tables import ROOT, with_tables

TEXT = (ROOT / "docs/approvals.md").read_text(encoding="utf-8")


def test_the_rules_of_a_settings_file_are_some(tmp_path: Path) -> None:
    match = re.search(r"<!-- example: approve -->\n```toml\n(.*?)```", TEXT, re.DOTALL)
    assert match is not None
    file = tmp_path / "agent-utilities.toml"
    file.write_text(match[1])
    files = read_files({"MCP_CONFIG_FILE": str(file)})
    table = table_of(read_settings({}, [each.settings for each in files.files]), files)
    assert (table.tools, table.tags) == (("destructive", "github_create_*"), ("production",))
    assert table.profiles == {"interns": ApproveRule(tools=("writes",), how="page")}


def test_the_rule_of_a_servers_entry_is_one() -> None:
    match = re.search(r"```json\n(.*?)```", TEXT, re.DOTALL)
    assert match is not None
    (upstream,) = read_servers(json.loads(match[1]), {}).upstreams
    assert upstream.approve == ApproveRule(tools=("delete_*", "merge_pull_request"), by="other")


def test_every_word_and_bound_is_told() -> None:
    assert [word for word in WORDS if f"| `{word}` |" not in TEXT] == []
    assert (f"{N_OF_CALLER} questions" in TEXT, f"of all {N_WAITING:,}" in TEXT) == (True, True)


def test_the_transcript_is_what_a_model_and_a_person_read() -> None:
    assert with_tables(TEXT) == TEXT
