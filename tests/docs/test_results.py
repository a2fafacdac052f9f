"""The page on results: its rules are read as they stand, and its transcript is what a model reads."""

from __future__ import annotations

import json
import re
import tomllib

from agent_utilities.gateway.upstreams.configuration.config_files import read_servers
from agent_utilities.settings import ResultRule
from tests.docs.tables import ROOT, with_tables

PAGE = ROOT / "docs/results.md"
TEXT = PAGE.read_text(encoding="utf-8")
SELECT = "[].{number: number, title: title}"


def test_the_rule_of_a_settings_file_is_one() -> None:
    match = re.search(r"<!-- example: rule -->\n```toml\n(.*?)```", TEXT, re.DOTALL)
    assert match is not None
    rules = tomllib.loads(match[1])["results"]
    assert ResultRule.model_validate(rules["github_list_issues"]) == ResultRule(
        select=SELECT, tokens=20_000, compact=True
    )


def test_the_rule_of_a_servers_entry_is_one() -> None:
    match = re.search(r"```json\n(.*?)```", TEXT, re.DOTALL)
    assert match is not None
    (upstream,) = read_servers(json.loads(match[1]), {}).upstreams
    assert upstream.results == {"list_issues": ResultRule(select=SELECT)}


def test_the_transcript_is_what_a_model_reads() -> None:
    assert with_tables(TEXT) == TEXT
