"""A replica for `fleet.py --replicas`: a server of some tools that do nothing, launched as any server is."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from agent_utilities import create_mcp_server
from benchmarks.fleet_load import N_TOOLS

mcp = create_mcp_server("cost")
for number in range(N_TOOLS):
    mcp.tool(name=f"tool_{number}")(lambda: "done")

if __name__ == "__main__":
    mcp.cli()
