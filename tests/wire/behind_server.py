"""The server that the hostile caller attacks, behind a gateway that bounds it: run as `bounded_server.py` is run.

The server itself is launched without any bound. Of each component it lists the newest version alone, as every server.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.gateway.upstreams.behind import gateway_before

ROOT = str(Path(__file__).parents[2])
SERVER = {
    "command": sys.executable,
    "args": ["-m", "tests.wire.newest_server"],
    "cwd": ROOT,
    "env": {"MCP_GRAPH": "off", "MCP_RANKER": "lexical"},
}

if __name__ == "__main__":
    gateway_before(SERVER, "bounded").cli()
