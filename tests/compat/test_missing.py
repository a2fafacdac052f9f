"""Where a library lacks a private part: what a bound stands on ends the start, the rest is told and left out."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

from agent_utilities import create_gateway
from agent_utilities.compat import sdk_client
from tests.every import every

pytestmark = pytest.mark.anyio
SERVER = """
from fastmcp import FastMCP
from mcp.server.session import ServerSession
{taken}
from agent_utilities import create_mcp_server
mcp = create_mcp_server("s")
mcp.tool(lambda: "", name="wipe")
mcp.cli({arguments})
"""


@pytest.mark.outside
@every(
    ("taken", "place", "arguments"),
    [
        ("del FastMCP._injected_tools", "FastMCP._injected_tools", []),
        ("del FastMCP._get_injected_tool", "FastMCP._get_injected_tool", ["--list"]),
        ("ServerSession.__init__ = lambda self: None", "ServerSession._connection", ["--disabled-tools", "wipe"]),
    ],
)
def test_what_a_bound_stands_on_ends_the_start_with_one_line(taken: str, place: str, arguments: list[str]) -> None:
    code = SERVER.format(taken=taken, arguments=arguments)
    ended = subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )
    library = "fastmcp" if place.startswith("FastMCP") else "mcp"
    told = f"{library} {version(library)} has no part that is needed: {place!r}"
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"error: {told}")
    assert ended.stderr.count("\n") == 1


class Session:
    """A session that notes how it is greeted."""

    greeted = ""

    async def initialize(self) -> None:
        self.greeted = "initialize"


async def test_without_what_negotiates_upstreams_are_greeted_as_before_and_the_start_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = create_gateway({"mcpServers": {}}, environ={"MCP_GRAPH": "off"})
    assert not any("mcp" in line for line in gateway.features.start_lines())
    monkeypatch.setitem(sys.modules, "mcp.client._probe", None)
    line = f"upstreams are greeted as before 2026-07-28, since mcp {version('mcp')} has no negotiate_auto"
    assert line in gateway.features.start_lines()
    await sdk_client.negotiate(session := Session())  # type: ignore[arg-type]
    assert session.greeted == "initialize"
