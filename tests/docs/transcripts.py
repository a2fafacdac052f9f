"""What a model reads of a long result, as the page on results shows it: a real server, asked by a real client."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from fastmcp import Client

from agent_utilities import create_mcp_server

_STATES = ("open", "open", "closed")
_THINGS = ("login", "search", "export", "the clock", "a long title")


def results() -> str:
    """The transcript of a list of issues that is shortened, and of two reads."""
    return asyncio.run(_results())


async def _results() -> str:
    environ = {"MCP_RESULT_TOKENS": "600", "MCP_GRAPH": "off"}
    server = create_mcp_server("tracker", environ=environ)

    @server.tool
    def list_issues() -> dict[str, Any]:
        return {
            "issues": [
                {
                    "number": 4000 + i,
                    "title": f"{_THINGS[i % 5].capitalize()} fails {i} times",
                    "state": _STATES[i % 3],
                    "labels": ["bug"] if i % 2 else [],
                    "body": "It worked before. " * (i % 7 + 1),
                }
                for i in range(120)
            ]
        }

    parts: list[str] = []
    async with Client(server) as client:
        result = await client.call_tool("list_issues")
        parts.append(_said("list_issues()", result))
        handle = result.meta["agent-utilities/result"]["handle"]
        for asked in ({"select": "issues[?state=='closed'].number | [:5]"}, {"select": "issues[].titel"}):
            read = await client.call_tool("read_result", {"result": handle, **asked})
            parts.append(_said(f'read_result(result="{handle}", select="{asked["select"]}")', read))
    return f"```text\n{re.sub(r'r_[a-z0-9]{20,}', 'r_…', chr(10).join(parts))}\n```"


def _said(call: str, result: Any) -> str:
    texts = [block.text for block in result.content if block.type == "text"]
    return "\n".join([f"> {call}", *texts, ""])
