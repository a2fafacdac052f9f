"""The README and the pages for callers and clients, run as written."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from agent_utilities.cli.app import main
from agent_utilities.selection.model import NOTHING
from agent_utilities.selection.parse import read_request
from git_agent.status import git_status
from tests.command_line import run_command
from tests.docs.tables import PAGES, README, with_tables
from tests.every import every

ROOT = README.parent
TEXT = README.read_text(encoding="utf-8")
CALLERS = (ROOT / "docs/callers.md").read_text(encoding="utf-8")
CLIENTS = (ROOT / "docs/clients.md").read_text(encoding="utf-8")
LONGEST = 190
BIN = Path(sys.executable).parent


def example(name: str, text: str = TEXT) -> str:
    """The code of a marked example of a page, the README if no other is given."""
    match = re.search(rf"<!-- example: {re.escape(name)} -->\n```\w+\n(.*?)```", text, re.DOTALL)
    assert match is not None, f"the page has no example {name!r}"
    return match[1].strip()


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **more}


@contextmanager
def serving(name: str, folder: Path) -> Iterator[None]:
    """Run a server example on the port that the README names, until its block ends."""
    command = shlex.split(example(name))
    port = int(command[command.index("-p") + 1])
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            pytest.skip(f"port {port}, which the README names, is taken on this machine")
    roots = {f"{agent}_AGENT_ROOTS": str(folder) for agent in ("GIT", "FILESYSTEM", "LOGS")}
    roots["XDG_CACHE_HOME"] = str(folder / "cache")
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(command, env=environment(**roots), stdout=subprocess.DEVNULL, stderr=errors)
        try:
            while process.poll() is None:
                try:
                    if httpx2.get(f"http://127.0.0.1:{port}/ready").status_code == 200:
                        break
                except httpx2.TransportError:
                    time.sleep(0.1)  # for the server to start in
            assert process.poll() is None, (folder / "stderr").read_text()
            yield
        finally:
            process.terminate()
            process.wait()


class TestExamples:
    @pytest.mark.anyio
    async def test_a_shows_exactly_two_tools(self, tmp_path):
        command, *arguments = shlex.split(example("A"))
        transport = StdioTransport(
            str(BIN / command), arguments, env=environment(GIT_AGENT_ROOTS=str(tmp_path)), keep_alive=False
        )
        async with Client(transport) as client:
            assert [tool.name for tool in await client.list_tools()] == ["clone_repo", "git_status"]

    def test_b_shows_exactly_two_tools(self, tmp_path):
        with serving("B server", tmp_path):
            done = subprocess.run(
                [sys.executable, "-c", example("B client")],
                env=environment(),
                capture_output=True,
                text=True,
                check=True,
            )
        assert sorted(re.findall(r"\w+", done.stdout)) == ["edit_file", "view_file"]

    @pytest.mark.skipif(shutil.which("curl") is None, reason="curl, which the README's example C uses, is not here")
    def test_c_shows_no_tool_that_writes_or_deletes(self, tmp_path):
        with serving("C server", tmp_path):
            done = subprocess.run(
                ["bash", "-c", example("C client")], env=environment(), capture_output=True, text=True, check=True
            )
            everything = httpx2.get("http://127.0.0.1:8001/tools").json()["tools"]
        tools = json.loads(done.stdout)["tools"]
        writing = {tool["name"] for tool in everything if {"write", "delete"} & set(tool["tags"])}
        assert writing == {"rotate_log", "delete_log"}
        shown = {tool["name"] for tool in tools}
        assert {"search_logs", "summarize_errors"} <= shown <= {tool["name"] for tool in everything} - writing

    def test_a_callers_selection_is_what_it_says(self):
        scope: dict[str, object] = {}
        exec(compile(example("caller", CALLERS), "callers.md", "exec"), scope)
        assert scope["headers"] == {
            "x-mcp-enabled-tools": "git_log,git_diff",
            "x-mcp-disabled-tags": "write",
            "x-mcp-top-k": "5",
        }
        assert scope["sub_agents_url"] == ("http://127.0.0.1:8001/mcp?query=what+changed+last+week%3F&read_only=true")

    def test_the_first_example_is_a_server_that_runs_as_it_is_written(self, tmp_path):
        (code,) = re.findall(r"```python\n(from agent_utilities import create_mcp_server.*?)```", TEXT, re.DOTALL)
        (tmp_path / "server.py").write_text(code)
        command = [sys.executable, "server.py", "--list"]
        done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True)
        assert "1 of 1 tools visible" in done.stdout

    @every("query", re.findall(r"`http://127\.0\.0\.1:8001/mcp(\?[^`]*)`", TEXT))
    def test_every_url_selects(self, query):
        assert read_request(query[1:].encode(), ()) != NOTHING

    @every("line", re.findall(r"^uvx --from \. (agent-utilities .*?)(?: +#.*)?$", TEXT, re.MULTILINE))
    def test_every_command_over_an_mcp_json_is_one(self, line, tmp_path, capfd):
        (tmp_path / "mcp.json").write_text('{"mcpServers": {}}')
        words = [word.replace("~/.cursor", str(tmp_path)) for word in shlex.split(line)]
        words += [] if "check" in words else ["--list"]
        done = run_command(main, words, environment(HOME=str(tmp_path)), capfd)
        assert "servers answered" in done.stdout or "tools visible" in done.stdout, done.stderr


@every(("page", "tables"), PAGES.items())
class TestTables:
    def test_are_those_of_the_code(self, page, tables):
        text = page.read_text(encoding="utf-8")
        assert with_tables(text) == text, "run python3 tasks.py format"

    def test_every_one_is_there(self, page, tables):
        assert re.findall(r"<!-- table: (\w+) -->", page.read_text(encoding="utf-8")) == [*tables]


class TestPage:
    def test_it_is_one_page(self):
        assert len(TEXT.splitlines()) <= LONGEST

    def test_its_map_of_the_house_names_every_room(self):
        match = re.search(r"<!-- map -->\n```text\n(.*?)```", TEXT, re.DOTALL)
        assert match is not None
        package = ROOT / "agent_utilities"
        named = {name.rstrip("/") for name in re.findall(r"\b([a-z_]+(?:/|\.py))", match[1])} - {package.name}
        assert [name for name in named if not (package / name).exists()] == []
        assert {path.parent.name for path in package.glob("*/__init__.py")} - named == set()

    def test_its_two_commands_are_tasks(self):
        commands = re.findall(r"```sh\npython3 tasks.py (\w+)\n```", TEXT)
        assert commands == ["demo", "test"]

    def test_its_links_lead_somewhere(self):
        links = re.findall(r"\]\((?!https?:)([^)#]+)", TEXT)
        assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_first_snippet_has_the_real_tools_arguments() -> None:
    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert code is not None
    shown = next(node for node in ast.walk(ast.parse(code[1])) if isinstance(node, ast.FunctionDef))
    assert shown.name == git_status.__name__
    assert [argument.arg for argument in shown.args.args] == list(inspect.signature(git_status).parameters)[:1]


@every("line", re.findall(r"^agent-utilities connect .*$", CLIENTS, re.MULTILINE))
def test_each_line_that_connects_a_client_works(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = shlex.split(line, comments=True)
    done = run_command(main, arguments, environment(HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path)), capfd)
    assert done.returncode == 0, done.stderr
    assert ("--write" in arguments) == any(tmp_path.rglob("*mcp.json"))


def test_operators_are_told_as_many_tools_as_logs_agent_has() -> None:
    told = " ".join((ROOT / "docs/operators.md").read_text(encoding="utf-8").split())
    shown = re.search(r"`logs-agent: (\d+) of (\d+) tools permitted; --disabled-tags delete", told)
    command = [str(BIN / "logs-agent-mcp"), "--disabled-tags", "delete", "--list"]
    # In a process of its own: its tests have the same server, which keeps the bounds that it is launched with.
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert shown is not None
    assert f"{shown[1]} of {shown[2]} tools visible" in done.stdout
