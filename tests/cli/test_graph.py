"""Looking after the graph, as an operator's shell does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from agent_utilities.catalog.document import ToolServer
from agent_utilities.cli.app import main
from agent_utilities.query.graph.backends import embedded_path
from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.query.graph.sync import sync
from tests.command_line import Done, run_command
from tests.query.graph.records import tool_record
from tests.server.servers import log_server, running

COMMAND = Path(sys.executable).parent / "agent-utilities"


@pytest.fixture
def environ(tmp_path):
    return {**os.environ, "MCP_GRAPH": "embedded", "MCP_GRAPH_FOLDER": str(tmp_path), "COLUMNS": "160"}


@pytest.fixture
def graph(environ, capfd):
    """Run the command in this process."""

    def run(*arguments: str, **more: str) -> Done:
        return run_command(main, [str(COMMAND), "graph", *arguments], {**environ, **more}, capfd)

    return run


@pytest.fixture
def shell(environ):
    """Run the command in a process of its own."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [COMMAND, "graph", *arguments]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=60)

    return run


class TestLife:
    def test_sync_query_status_forget(self, graph, shell, tmp_path):
        with running(log_server()) as base:
            assert shell("sync", f"{base}/mcp").stdout.strip() == "logs: 4 tools, 4 put, 0 dropped"
            assert graph("sync", f"{base}/mcp").stdout.strip() == "logs: 4 tools, 0 put, 0 dropped"
        assert graph("query", "last lines", "logs").stdout.split() == ["tail_log"]
        assert graph("query", "weather", "logs").stdout.startswith("no match: a caller is shown all permitted of its 4")
        status = graph("status").stdout
        assert "logs" in status
        assert f"servers whose graphs are in {tmp_path} (MCP_GRAPH_FOLDER)" in status
        assert graph("forget", "logs").stdout.strip() == "logs: forgotten"
        assert "the graph holds no server yet" in graph("status").stdout

    def test_a_running_servers_file_is_left_to_it(self, shell, tmp_path):
        environ = {"MCP_GRAPH": "embedded", "MCP_GRAPH_FOLDER": str(tmp_path)}
        with running(log_server(environ=environ)) as base:
            import httpx2

            while httpx2.get(f"{base}/ready").json()["graph"]["status"] != "ready":
                pass
            assert "in use by its running server" in shell("status").stdout
            done = shell("query", "logs", "logs")
            assert (done.returncode, done.stderr.count("\n")) == (1, 1)


class TestGateway:
    @pytest.fixture
    def filled(self, tmp_path):
        """A gateway's graph, as a run of it left it."""

        async def fill() -> None:
            kept = EmbeddedGraph(embedded_path("my/gw", str(tmp_path)))
            await kept.open()
            git, clock = ToolServer("git", "Git"), ToolServer("clock")
            tools = [("git_status", git), ("git_log", git), ("clock_now", clock)]
            records = [tool_record(name, None, "Show it.", [], True, upstream) for name, upstream in tools]
            await sync(kept, "my/gw", records, int(time.time() * 1000))
            await kept.close()

        anyio.run(fill)

    def test_status_shows_it_with_all_its_tools_and_each_upstream_below(self, graph, filled):
        lines = [line.split() for line in graph("status").stdout.splitlines()]
        rows = [(line[0], line[1], line[3]) for line in lines if len(line) > 3 and "my" in line[0]]
        assert rows == [("my/gw", "3", "s"), ("my%2Fgw/clock", "1", "s"), ("my%2Fgw/git", "2", "s")]  # of seconds' age

    def test_an_upstream_is_asked_and_forgotten_by_its_name_in_the_status(self, graph, filled):
        assert graph("query", "show", "my%2Fgw/git").stdout.split() == ["git_log", "git_status"]
        assert graph("query", "show", "my/gw").stdout.split() == ["clock_now", "git_log", "git_status"]
        assert graph("forget", "my%2Fgw/git").stdout.strip() == "my%2Fgw/git: forgotten"
        assert graph("query", "show", "my/gw").stdout.split() == ["clock_now"]
        assert "the graph holds no such server" in graph("query", "show", "my%2Fgw/git").stderr

    def test_is_forgotten_with_its_upstreams(self, graph, filled):
        assert graph("forget", "my/gw").stdout.strip() == "my/gw: forgotten, with 2 upstreams"
        assert "the graph holds no server yet" in graph("status").stdout

    def test_is_not_brought_in_from_afar_which_would_make_its_upstreams_one(self, graph, filled):
        with running(log_server()) as base:
            done = graph("sync", f"{base}/mcp", "--name", "my/gw")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "a gateway in the graph" in done.stderr
        assert "my%2Fgw/git" in graph("status").stdout


class TestRefused:
    def test_with_one_line_and_a_code(self, graph):
        for arguments, environ, code, message in [
            (["query", "logs", "nobody"], {}, 2, "the graph holds no such server"),
            (["query", " ", "logs"], {}, 2, "no words"),
            (["forget", "nobody"], {}, 2, "the graph holds no such server"),
            (["sync", "logs-agent"], {}, 2, "not an HTTP URL"),
            (["sync", "http://127.0.0.1:1/mcp"], {}, 1, "is the server running?"),
            (["status"], {"MCP_GRAPH": "off"}, 2, "the graph is off"),
            (["status"], {"MCP_GRAPH": "neo4j"}, 2, "not a Neo4j address"),
            (["status"], {"MCP_GRAPH": "neo4j", "NEO4J_URI": "http://h"}, 2, "not a Neo4j address"),
            (["status"], {"MCP_GRAPH": "neo4j", "NEO4J_URI": "bolt://127.0.0.1:1"}, 1, "unreachable"),
        ]:
            done = graph(*arguments, **environ)
            assert (done.returncode, done.stderr.count("\n")) == (code, 1)
            assert message in done.stderr
