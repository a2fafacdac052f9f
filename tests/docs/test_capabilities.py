"""The page on capabilities: its table is that of the starter tap, its commands run, its links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from agent_utilities.cli.app import main
from agent_utilities.gateway.capabilities.caller import CallerCapabilities
from agent_utilities.gateway.capabilities.model import Gate, Route
from agent_utilities.gateway.capabilities.tap import starter_tap
from agent_utilities.settings import Settings, variable
from tests.command_line import run_command
from tests.docs.tables import ROOT
from tests.every import every

PAGE = ROOT / "docs/capabilities.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
ROWS = re.findall(r"^\| `([\w-]+)` \| `([\w@/-]+)` \| (\d+) \| (.*) \|$", TEXT, re.MULTILINE)
"""Of the table of the starter tap: name, package, tools, and what it works on."""


def provider(name: str) -> str:
    folder = starter_tap() / "capabilities" / name
    return (folder / (folder / "default.toml").read_text(encoding="utf-8").strip()).read_text(encoding="utf-8")


class TestStarterTap:
    def test_its_table_names_every_capability_once(self):
        names = [folder.name for folder in (starter_tap() / "capabilities").iterdir()]
        assert sorted(row[0] for row in ROWS) == sorted(names)

    def test_its_table_counts_the_tools(self):
        told = {name: int(n_tools) for name, _, n_tools, _ in ROWS}
        assert told == {name: len(tomllib.loads(provider(name))["roles"]["mcp"]["allowed_tools"]) for name in told}

    def test_its_table_names_the_packages(self):
        for name, package, *_ in ROWS:
            (server,) = tomllib.loads(provider(name))["mcp"]["servers"]
            assert [each for each in server["args"] if re.match(rf"{re.escape(package)}(@|==)", each)], name

    def test_its_table_names_each_variable_that_may_be_set(self):
        for name, _, _, about in ROWS:
            assert set(re.findall(r"`([A-Z_]+)`", about)) == set(re.findall(r"\$\{([A-Z_]+):-", provider(name))), name


def test_its_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", TEXT)
    assert [link for link in links if not (PAGE.parent / link).exists()] == []


def test_what_is_told_of_words_has_the_keys_that_it_shows() -> None:
    shown = re.search(r"<!-- output: meta -->\n```json\n(.*?)```", TEXT, re.DOTALL)
    assert shown is not None
    told = json.loads(shown[1])["capabilities"]
    active = ("billing", "shipping")
    route = Route((("shipping", 1.0), ("billing", 0.0), ("calendar", 0.0)), "shipping", Gate(0.5, 0.1), by_words=True)
    taken = CallerCapabilities(active, added=("shipping",), removed=("calendar",), route=route)
    summary = taken.summary()
    assert list(told) == list(summary)
    assert list(told["route"]) == list(summary["route"])
    assert (told["active"], told["value"]) == (summary["active"], summary["value"])


def test_its_table_of_options_is_that_of_the_code() -> None:
    told = set(re.findall(r"^\| (?:`(--[\w-]+).*?`)? ?\| `(MCP_\w+)` \|", TEXT, re.MULTILINE))
    options = {f"--{field.replace('_', '-')}" for field in ("capabilities", "capability", "max_capabilities")}
    assert {option for option, _ in told} == {*options, "--allow-install", ""}
    assert {name for _, name in told} <= {variable(name) for name in Settings.model_fields}


@pytest.mark.outside
@every("line", [line for line in COMMANDS if " demo " not in line])
def test_each_command_is_taken(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {}}', encoding="utf-8")
    arguments = shlex.split(line, comments=True)
    listing = ["--list"] if arguments[1] == "gateway" else []
    environ = {**os.environ, "MCP_GRAPH": "off", "MCP_GATEWAY_FOLDER": str(tmp_path / "gateway")}
    done = run_command(main, [*arguments, *listing], environ, capfd)
    assert done.returncode == 0, done.stderr
