"""Importing the package costs little beside FastMCP: what is heavy or seldom used is imported where it is."""

from __future__ import annotations

import json
import subprocess
import sys

from agent_utilities.cli.app import COMMANDS
from tests.every import every

SELDOM_USED = {
    "fastembed",
    "ladybug",
    "neo4j",
    "numpy",
    "prometheus_client",
    "rapidfuzz",
    "rich",
    "tokenizers",
    "typer",
}


SEVERAL_SECONDS = {"anyio", "fastmcp", "httpx2", "mcp", "mcp_types", "numpy", "starlette"}
"""What takes long to import, and no answer about a command line needs."""


def modules(statement: str) -> set[str]:
    program = f"{statement}\nimport json, sys; print(json.dumps(sorted({{m.partition('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_factory_loads_nothing_that_fastmcp_does_not_and_few_servers_use():
    loaded = modules("from agent_utilities import create_mcp_server; create_mcp_server('s', environ={})")
    assert (loaded - modules("import fastmcp.server.http, fastmcp")) & SELDOM_USED == set()


def test_a_server_over_stdio_loads_no_graph_and_no_ranker_before_a_query_comes():
    program = """
import asyncio, sys
from fastmcp import Client
from agent_utilities import create_mcp_server
server = create_mcp_server("s", environ={})
server.tool(lambda: "", name="kite")
async def main():
    async with Client(server) as client:
        await client.list_tools()
        rooms = ("query.resolution", "query.graph", "query.ranking", "search.search")
        assert not [m for m in sys.modules if m.startswith(tuple(f"agent_utilities.{room}" for room in rooms))]
asyncio.run(main())"""
    subprocess.run([sys.executable, "-c", program], check=True)


@every(
    "arguments",
    [
        ["agent_utilities.cli.app", "--help"],
        ["agent_utilities.cli.app", "--version"],
        *(["agent_utilities.cli.app", command, "--help"] for command in COMMANDS),
        ["agent_utilities.cli.app", "gateway", "serve", "--help"],
        ["logs_agent.__main__", "--help"],
        ["logs_agent.__main__", "--help-all"],
        ["logs_agent.__main__", "--version"],
        ["logs_agent.__main__", "--tool", "tail_log"],
    ],
    ids=" ".join,
)
def test_what_only_asks_about_a_command_line_loads_no_host(arguments: list[str]) -> None:
    module, *options = arguments
    program = f"""
import sys
from {module} import main
sys.argv[1:] = {options!r}
try:
    main()
except SystemExit:
    pass"""
    assert modules(program) & SEVERAL_SECONDS == set()


def test_the_room_of_snapshots_and_locks_is_cheap_to_enter() -> None:
    loaded = modules(
        "import agent_utilities.gateway.upstreams.snapshot_store, agent_utilities.gateway.upstreams.operator.lock"
    )
    assert loaded & (SEVERAL_SECONDS | {"rapidfuzz"}) == set()


def test_a_router_of_tools_needs_no_host() -> None:
    loaded = modules("from agent_utilities import ToolRouter; ToolRouter([{'name': 'a'}], pins='a').tools('openai')")
    assert loaded & (SEVERAL_SECONDS | SELDOM_USED) == set()
