"""One of the project's agents, named by `AGENT`, as a server that the wire tests can launch."""

from __future__ import annotations

import os
from importlib import import_module

if __name__ == "__main__":
    import_module(f"{os.environ['AGENT']}_agent.server").mcp.cli()
