"""The page on tool search: its commands run, its numbers and names are those of the code, its links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from fastmcp import Client

from agent_utilities import create_mcp_server, selection_meta
from agent_utilities.cli.app import main
from agent_utilities.policy.deferral import Deferral
from agent_utilities.search.active_set import EventName
from agent_utilities.selection.active import AUTO_OVER
from agent_utilities.server.metrics import Metrics
from demo.office import office_server
from tests.command_line import run_command
from tests.docs.tables import TOOL_SEARCH
from tests.every import every

TEXT = TOOL_SEARCH.read_text(encoding="utf-8")
BIN = Path(sys.executable).parent
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]


def example(name: str) -> str:
    """The code of a marked example."""
    match = re.search(rf"<!-- example: {re.escape(name)} -->\n```\w+\n(.*?)```", TEXT, re.DOTALL)
    assert match is not None, f"the page has no example {name!r}"
    return match[1].strip()


@pytest.mark.outside
@every("line", [line for line in COMMANDS if " demo " not in line])
def test_each_command_is_taken(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {}}), encoding="utf-8")
    arguments = shlex.split(line, comments=True)
    listing = [] if "--list" in arguments else ["--list"]
    environ = {**os.environ, "MCP_GRAPH": "off", "MCP_GATEWAY_FOLDER": str(tmp_path / "gateway")}
    command = [*arguments, *listing]
    if command[0] == "agent-utilities":
        done = run_command(main, command, environ, capfd)
        assert done.returncode == 0, done.stderr
        return
    # An agent's server is one for the whole process, and would stay as its command line says.
    subprocess.run([BIN / command[0], *command[1:]], env=environ, capture_output=True, check=True)


@pytest.mark.anyio
async def test_a_search_answers_what_it_shows() -> None:
    shown = re.search(r"<!-- output: search -->\n```json\n(.*?)```", TEXT, re.DOTALL)
    asked = re.search(r'`tool_search\(query="(.*?)", max_results=(\d+)\)`', TEXT)
    assert shown is not None
    assert asked is not None
    async with Client(office_server(), mode="legacy") as client:
        arguments = {"query": asked[1], "max_results": int(asked[2])}
        result = await client.call_tool("tool_search", arguments, meta=selection_meta(tool_search="on"))
    assert without_scores(result.content[0].text) == without_scores(shown[1])


def without_scores(text: str) -> Any:
    """Return a search's result without its scores, which depend on what ranks here."""
    result = json.loads(text)
    return {**result, "tools": [{key: tool[key] for key in tool if key != "score"} for tool in result["tools"]]}


def test_a_childs_headers_are_what_they_say() -> None:
    scope: dict[str, object] = {}
    exec(compile(example("child"), "tool-search.md", "exec"), scope)
    assert scope["inherits"] == {"x-mcp-active": "git_log,git_diff", "x-mcp-disabled-tags": "write"}
    assert scope["starts_fresh"] == {"x-mcp-tool-search": "on", "x-mcp-pinned-tools": "git_status"}


@every(
    ("said", "value"),
    [
        (r"defers over (\d+) tools", AUTO_OVER),
        (r"first shows\s+the best (\d+)", Deferral().initial_k),
        (r"each later one adds up to (\d+)", Deferral().search_k),
        (r"after (\d+) the set is frozen", Deferral().search_turns),
        (r"at most\s+(\d+) tools: the least recently used", Deferral().max_active),
    ],
)
def test_its_numbers_are_the_defaults(said: str, value: int) -> None:
    assert re.findall(said, TEXT) == [str(value)]


def test_it_tells_of_every_event_and_no_other() -> None:
    told = TEXT.partition("| event | when | counts |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", told, re.MULTILINE)) == sorted(get_args(EventName))


def test_its_metrics_are_those_of_the_code() -> None:
    named = set(re.findall(r"`(mcp_tool_search_\w+)", TEXT))
    server = create_mcp_server("told")
    served = Metrics(server).text(tells_denied=False).decode()
    assert {name for name in named if f"\n{name}" in served} == named
    assert len(named) == 4


class TestLinks:
    def test_those_within_the_project_lead_somewhere(self) -> None:
        links = re.findall(r"\]\((?!https?:)([^)#]+)", TEXT)
        assert [link for link in links if not (TOOL_SEARCH.parent / link).exists()] == []

    def test_every_source_is_used_and_every_use_has_a_source(self) -> None:
        body, sources = (
            re.sub(r"^\[\d+\]: .*$", "", TEXT, flags=re.MULTILINE),
            re.findall(r"^\[(\d+)\]: https://", TEXT, re.M),
        )
        assert sorted(set(re.findall(r"\[(\d+)\]", body)), key=int) == sources

    def test_what_is_said_of_a_host_has_a_source(self) -> None:
        rows = TEXT.partition("| host | `list_changed`")[2].partition("\n\n")[0].splitlines()[2:-1]
        assert [row for row in rows if not re.search(r"\[\d+\]", row.split("|")[2])] == []
