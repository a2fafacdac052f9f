"""`create_mcp_server()`: what a server author calls, and all that one needs to call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_utilities.graph.base import ToolGraph
from agent_utilities.mcp.command_line.version import installed_version
from agent_utilities.mcp.server import AgentServer


def create_mcp_server(
    name: str,
    instructions: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    graph: ToolGraph | None = None,
    **options: Any,
) -> AgentServer:
    """Return a FastMCP server with a bounded tool surface, five channels, a command line and HTTP routes.

    The surface that a caller sees is the operator's (environment and command line), cut down by the request's URL
    query, headers and `_meta`; a caller can narrow it and never widen it.

    Args:
        name: the server's name, as clients see it; where a package of this name is installed, its version is the
            server's unless `version` is given. Without either the server has none.
        instructions: what the server is for, as models read it.
        environ: the environment to read `MCP_*` variables from; the process's by default, read when first needed.
        graph: the graph that queries are resolved on, instead of the one that the environment configures.
        options: anything that `fastmcp.FastMCP` takes: `auth`, `lifespan`, `middleware`, `tools`, ...
    """
    if "version" not in options:
        options["version"] = installed_version(name)
    return AgentServer(name, instructions, environ=environ, graph=graph, **options)
