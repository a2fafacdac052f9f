"""A server with tools that read and write, for programs, and what tests read of their answers."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from fastmcp import Client
from fastmcp.exceptions import ToolError
from pydantic import BaseModel

from agent_utilities import AgentServer, Feature, create_mcp_server
from tests.approvals.asked import Person

MODES = ["legacy", "2026-07-28"]


class Issue(BaseModel):
    number: int
    title: str
    state: Literal["open", "closed"] = "open"
    labels: list[str] = []


class Page(BaseModel):
    items: list[Issue]
    next: int | None = None


class Calls(list[Any]):
    """What was called, in order, by any thread."""

    def __init__(self) -> None:
        super().__init__()
        self.has_grown, self._loop = asyncio.Event(), asyncio.get_event_loop()

    def append(self, call: Any) -> None:
        super().append(call)
        self._loop.call_soon_threadsafe(self.has_grown.set)


class Tracker:
    """A server of issues, what was called of it, and calls that wait until a test lets them go on."""

    def __init__(self, *features: Feature, **environ: str) -> None:
        self.calls = Calls()
        self.began, self.go_on = asyncio.Event(), asyncio.Event()
        self.was_cancelled = asyncio.Event()
        given = {"MCP_PROGRAMS": "all", "MCP_GRAPH": "off", **environ}
        self.server: AgentServer = create_mcp_server("tracker", environ=given, features=features)
        for tool in (self.list_issues, self.labels, self.count, self.fail, self.wait, self.secret):
            self.server.tool(tool, annotations={"readOnlyHint": True})
        self.server.tool(self.write)

    def client(self, mode: str = "legacy", answer: Any = "yes") -> Client[Any]:
        """Return a client whose person answers each question so; with None it takes no questions."""
        handler = answer if isinstance(answer, Person) else Person(answer)
        person = {} if answer is None else {"elicitation_handler": handler}
        return Client(self.server, mode=mode, **person)

    async def reached(self, n: int) -> None:
        """Wait until so many calls have come."""
        while len(self.calls) < n:
            self.calls.has_grown.clear()
            await self.calls.has_grown.wait()

    def list_issues(self, repo: str, page: int = 1, state: Literal["open", "closed"] = "open") -> Page:
        """List ten issues of a repository, of five pages."""
        self.calls.append(("list_issues", repo, page))
        numbers = range(page * 10, page * 10 + 10)
        issues = [Issue(number=n, title=f"issue {n}", state=state) for n in numbers]
        return Page(items=issues, next=page + 1 if page < 5 else None)

    def labels(self) -> list[str]:
        return ["bug", "docs"]

    def count(self, n: int) -> int:
        self.calls.append(("count", n))
        return n

    def write(self, path: str, text: str) -> str:
        """Write a file."""
        self.calls.append(("write", path, text))
        return f"wrote {len(text)} characters"

    def fail(self, why: str = "no disk") -> str:
        self.calls.append(("fail", why))
        raise ToolError(why)

    async def wait(self) -> str:
        self.calls.append("wait")
        self.began.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.was_cancelled.set()
            raise
        return "waited"

    def secret(self) -> str:
        self.calls.append("secret")
        return "secret"


class Ran:
    """What a program came to."""

    def __init__(self, result: Any) -> None:
        self.is_error = result.is_error
        self.texts = [block.text for block in result.content if block.type == "text"]
        self.text = "\n".join(self.texts)
        self.meta = (result.meta or {}).get("agent-utilities/program", {})


async def ran(client: Client[Any], code: str, **arguments: Any) -> Ran:
    """Run a program by a client, and return what it came to."""
    given = {"code": code, **arguments}
    return Ran(await client.call_tool("run_program", given, raise_on_error=False))
