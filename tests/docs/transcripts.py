"""What a model reads of long results and of programs, as their pages show it: a real server, asked by a real client."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from fastmcp import Client
from pydantic import BaseModel

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


_PROGRAM = """\
by_label = {}
page = 1
while page:
    found = await list_issues(repo="acme/app", page=page)
    for issue in found["items"]:
        for label in issue["labels"]:
            by_label[label] = by_label.get(label, 0) + 1
    page = found.get("next")
by_label"""


class Issue(BaseModel):
    """An issue of the server in the transcript of programs."""

    number: int
    title: str
    labels: list[str]


class Page(BaseModel):
    """A page of them."""

    items: list[Issue]
    next: int | None = None


def programs() -> str:
    """The transcript of a program that pages, of one with a wrong argument, and of one that fails after a write."""
    return asyncio.run(_programs())


async def _programs() -> str:
    environ = {"MCP_PROGRAMS": "all", "MCP_GRAPH": "off"}
    server = create_mcp_server("tracker", environ=environ)

    @server.tool(annotations={"readOnlyHint": True})
    def list_issues(repo: str, page: int = 1) -> Page:
        """List ten issues of a repository."""
        numbers = range(page * 10, page * 10 + 10)
        issues = [Issue(number=n, title=_THINGS[n % 5], labels=["bug", "docs"][: n % 3]) for n in numbers]
        return Page(items=issues, next=page + 1 if page < 12 else None)

    @server.tool
    def close_issue(number: int) -> str:
        """Close an issue."""
        return f"closed {number}"

    async def says_yes(message: str, *_: Any) -> Any:
        return {"answer": "yes"}

    codes = (_PROGRAM, 'await list_issues(repository="acme/app")', "await close_issue(number=7)\n1 / 0")
    parts: list[str] = []
    async with Client(server, elicitation_handler=says_yes) as client:
        for code in codes:
            result = await client.call_tool("run_program", {"code": code}, raise_on_error=False)
            parts.append(_said(f'run_program(code="""\n{code}\n""")', result))
    return f"```text\n{chr(10).join(parts)}\n```"


def approvals() -> str:
    """The transcript of a call that waits on the page, and of the form that a client shows for it."""
    return asyncio.run(_approvals())


async def _approvals() -> str:
    given = {"path": "reports/\u202efdp.exe", "force": True}
    call = 'remove(path="reports/\\u202efdp.exe", force=True)'
    parts: list[str] = []
    for answer in (None, "yes", "no"):
        server = create_mcp_server("files", environ={"MCP_APPROVE": "destructive", "MCP_GRAPH": "off"})

        @server.tool
        def remove(path: str, force: bool = False) -> str:
            return "removed"

        async def says(message: str, *_: Any, answer: str | None = answer) -> Any:
            parts.append(f"{message}\n[no] [yes]: {answer}\n")
            return {"answer": answer}

        async with Client(server, elicitation_handler=None if answer is None else says) as client:
            parts.append(_said(call, await client.call_tool("remove", given, raise_on_error=False)))
    return f"```text\n{re.sub(r'[(][a-z2-7]{32}[)]', '(…)', chr(10).join(parts))}\n```"


def _said(call: str, result: Any) -> str:
    texts = [block.text for block in result.content if block.type == "text"]
    return "\n".join([f"> {call}", *texts, ""])
