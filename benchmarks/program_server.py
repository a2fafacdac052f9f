"""A server of three small tools, by which programs are timed: ours, or FastMCP's with its `CodeMode`.

program_server.py ours|code-mode    serves HTTP on a port of its own choice
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fastmcp import FastMCP

from agent_utilities import create_mcp_server
from agent_utilities.programs.feature import Programs
from tests.parts import part

N_SEQUENTIAL = 200
"""The calls of the longest program, which is over the limit of our servers: it is raised for it."""
_READS = {"readOnlyHint": True}


async def wait(seconds: float) -> float:
    """Wait, and return for how many seconds."""
    await asyncio.sleep(seconds)
    return seconds


async def count(n: int) -> int:
    """Return the number."""
    return n


async def issue(number: int) -> dict[str, Any]:
    """Return an issue."""
    return {"number": number, "title": f"issue {number}", "labels": ["bug", "docs"]}


def ours() -> FastMCP[Any]:
    """Return our server, its programs allowed as many calls as are measured."""
    server = create_mcp_server("programs", environ={"MCP_PROGRAMS": "read", "MCP_GRAPH": "off"})
    for tool in (wait, count, issue):
        server.tool(tool, annotations=_READS)
    server.complete()
    programs = part(server, Programs)
    programs.limits = replace(programs.limits, calls=N_SEQUENTIAL)
    return server


def code_mode() -> FastMCP[Any]:
    """Return FastMCP's own server, its programs as long as they like."""
    from fastmcp.experimental.transforms.code_mode import CodeMode

    server: FastMCP[Any] = FastMCP("programs")
    for tool in (wait, count, issue):
        server.tool(tool, annotations=_READS)
    server.add_transform(CodeMode(max_tool_calls=None))
    return server


def main(kind: str) -> None:
    """Serve HTTP until ended."""
    (ours() if kind == "ours" else code_mode()).run("http", host="127.0.0.1", port=0, show_banner=False)


if __name__ == "__main__":
    main(sys.argv[1])
