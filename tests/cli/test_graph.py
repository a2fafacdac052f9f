"""Looking after the graph, as an operator's shell does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcp.servers import log_server, running

COMMAND = Path(sys.executable).parent / "agent-utilities"


@pytest.fixture
def graph(tmp_path):
    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "MCP_GRAPH": "embedded", "MCP_GRAPH_FOLDER": str(tmp_path), "COLUMNS": "160", **more}
        command = [COMMAND, "graph", *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)

    return run


class TestLife:
    def test_sync_query_status_forget(self, graph, tmp_path):
        with running(log_server()) as base:
            assert graph("sync", f"{base}/mcp").stdout.strip() == "logs: 4 tools, 4 put, 0 dropped"
            assert graph("sync", f"{base}/mcp").stdout.strip() == "logs: 4 tools, 0 put, 0 dropped"
        assert graph("query", "last lines", "logs").stdout.split() == ["tail_log"]
        assert graph("query", "weather", "logs").stdout.startswith("no match: a caller is shown all permitted of its 4")
        status = graph("status").stdout
        assert "logs" in status
        assert f"servers whose graphs are in {tmp_path} (MCP_GRAPH_FOLDER)" in status
        assert graph("forget", "logs").stdout.strip() == "logs: forgotten"
        assert "the graph holds no server yet" in graph("status").stdout

    def test_a_running_servers_file_is_left_to_it(self, graph, tmp_path):
        environ = {"MCP_GRAPH": "embedded", "MCP_GRAPH_FOLDER": str(tmp_path)}
        with running(log_server(environ=environ)) as base:
            import httpx2

            while httpx2.get(f"{base}/ready").json()["graph"]["status"] != "ready":
                pass
            assert "in use by its running server" in graph("status").stdout
            done = graph("query", "logs", "logs")
            assert (done.returncode, done.stderr.count("\n")) == (1, 1)


class TestRefused:
    @pytest.mark.parametrize(
        ("arguments", "environ", "code", "message"),
        [
            (["query", "logs", "nobody"], {}, 2, "the graph holds no such server"),
            (["query", " ", "logs"], {}, 2, "no words"),
            (["forget", "nobody"], {}, 2, "the graph holds no such server"),
            (["sync", "logs-agent"], {}, 2, "not an HTTP URL"),
            (["sync", "http://127.0.0.1:1/mcp"], {}, 1, "is the server running?"),
            (["status"], {"MCP_GRAPH": "off"}, 2, "the graph is off"),
            (["status"], {"MCP_GRAPH": "neo4j"}, 2, "not a Neo4j address"),
            (["status"], {"MCP_GRAPH": "neo4j", "NEO4J_URI": "http://h"}, 2, "not a Neo4j address"),
            (["status"], {"MCP_GRAPH": "neo4j", "NEO4J_URI": "bolt://127.0.0.1:1"}, 1, "unreachable"),
        ],
    )
    def test_with_one_line_and_a_code(self, graph, arguments, environ, code, message):
        done = graph(*arguments, **environ)
        assert (done.returncode, done.stderr.count("\n")) == (code, 1)
        assert message in done.stderr
