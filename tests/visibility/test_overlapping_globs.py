"""The parts of a glob are looked for one after another: no letter of a name serves two of them."""

from __future__ import annotations

import pytest

from agent_utilities import create_mcp_server

pytestmark = pytest.mark.anyio


def work() -> str:
    return ""


async def test_no_letter_serves_two_parts() -> None:
    for pattern, name, fits in [
        ("a*b*b*c", "abc", False),
        ("a*b*b*c", "abbc", True),
        ("*ab*ab*", "ab", False),
        ("*ab*ba*", "aba", False),
        ("*ab*ba*", "abba", True),
        ("x*aa*a*y", "xaay", False),
        ("x*aa*a*y", "xaaay", True),
        ("a*a*a", "aa", False),
    ]:
        server = create_mcp_server("letters", environ={"MCP_GRAPH": "off", "MCP_DISABLED_TOOLS": pattern})
        server.tool(work, name=name)
        server.tool(work, name="other")
        assert [tool.name for tool in await server.list_tools()] == (["other"] if fits else [name, "other"])
