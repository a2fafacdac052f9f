"""Importing the package costs little beside FastMCP: what is heavy or seldom used is imported where it is."""

from __future__ import annotations

import json
import subprocess
import sys

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


def modules(statement: str) -> set[str]:
    program = f"{statement}; import json, sys; print(json.dumps(sorted({{m.partition('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_factory_loads_nothing_that_fastmcp_does_not_and_few_servers_use():
    loaded = modules("from agent_utilities import create_mcp_server; create_mcp_server('s', environ={})")
    assert (loaded - modules("import fastmcp.server.http, fastmcp")) & SELDOM_USED == set()
