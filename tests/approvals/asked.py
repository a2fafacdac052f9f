"""Servers whose calls are asked for, and clients that answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mcp_types
from fastmcp import Client, Context
from fastmcp.client.elicitation import ElicitResult
from fastmcp.tools.base import InputRequiredToolResult, Tool, ToolResult

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.approvals.feature import Approvals
from agent_utilities.approvals.store import Question
from agent_utilities.seam.feature import Asked, Feature, OwnTool
from agent_utilities.seam.host import Approver
from agent_utilities.seam.request import Request, make_call
from tests.parts import part

MODES = ["legacy", "2026-07-28"]
ELICITS: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
FORM = mcp_types.ElicitRequest(
    params=mcp_types.ElicitRequestFormParams(
        message="Which branch?", requested_schema={"type": "object", "properties": {"branch": {"type": "string"}}}
    )
)


def files(
    approve: str = "destructive", *, features: Sequence[Feature] = (), **environ: str
) -> tuple[AgentServer, list[str]]:
    """Return a server of five tools, and what was called in it."""
    given = {"MCP_GRAPH": "off", **({"MCP_APPROVE": approve} if approve else {}), **environ}
    server, made = create_mcp_server("files", environ=given, features=features), list[str]()

    @server.tool
    def remove(path: str, force: bool = False) -> str:
        made.append(f"remove {path}")
        return f"removed {path}"

    @server.tool(annotations={"destructiveHint": False}, tags={"notes"})
    def note(text: str) -> str:
        made.append(f"note {text}")
        return "noted"

    @server.tool(annotations={"readOnlyHint": True})
    def look(path: str = "/") -> str:
        made.append(f"look {path}")
        return "seen"

    @server.tool
    async def push(ctx: Context, remote: str = "origin") -> str | mcp_types.InputRequiredResult:
        made.append(f"push {remote} {ctx.request_state}")
        if ctx.request_state is None:
            return mcp_types.InputRequiredResult(input_requests={"branch": FORM}, request_state="branch of origin")
        answer = (ctx.input_responses or {}).get("branch")
        content = answer.content if isinstance(answer, mcp_types.ElicitResult) else None
        return f"pushed {(content or {}).get('branch')}"

    @server.tool
    def boom() -> str:
        made.append("boom")
        raise ValueError("it burst")

    return server, made


class Person:
    """Answers a client's questions one after another, the last answer for all that follow; None declines."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.read = list(answers), list[str]()
        self.forms: list[dict[str, Any]] = []

    async def __call__(self, message: str, kind: Any, params: Any, context: Any) -> Any:
        self.read.append(message)
        self.forms.append(params.requested_schema)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            return ElicitResult(action="decline")
        if isinstance(answer, Mapping):
            return ElicitResult(action="accept", content=dict(answer))
        return ElicitResult(action="accept", content={name: answer for name in params.requested_schema["properties"]})


async def called(client: Client[Any], name: str, /, **arguments: Any) -> str:
    """Return the text that a call is answered by, an error or not."""
    result = await client.call_tool(name, arguments, raise_on_error=False)
    return "\n".join(block.text for block in result.content if block.type == "text")


async def waiting(server: AgentServer) -> list[Question]:
    """Return the questions on a server's page."""
    return (await part(server, Approvals).store.waiting(2_000))[0]


async def answered(server: AgentServer, answer: Any = "yes", by: tuple[str, str] = ("", "")) -> bool:
    """Answer the one question that waits on a server's page."""
    [question] = await waiting(server)
    return await part(server, Approvals).answer(question.id, answer, "page", by) is not None


class Batch(Feature):
    """A tool that makes the calls it is given, as a program does: all, then once more those that were asked for."""

    name = "batch"

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def tools_at_head(self, request: Request, decision: Any) -> Sequence[Tool]:
        return [self._made(request)]

    async def tool(self, name: str, request: Request) -> Tool | None:
        return self._made(request) if name == "batch" else None

    def _made(self, request: Request) -> Tool:
        async def answer(arguments: Mapping[str, Any]) -> ToolResult:
            calls, results = list(arguments["calls"]), dict[int, str]()
            for _ in range(3):
                questions = dict[int, str]()
                for i, (tool, given) in enumerate(calls):
                    if i in results:
                        continue
                    try:
                        result = await make_call(request, tool, given, within="p_1")
                        results[i] = result["content"][0]["text"]
                    except Asked as asked:
                        questions[i] = str(asked.question)
                if not questions:
                    return ToolResult(content=" | ".join(results[i] for i in range(len(calls))))
                sent = await self.host.offered(Approver)[0].ask(request, list(questions.values()), "p_1", "resume p_1")
                self.asked.append(sent)
                if sent is not None:
                    if sent.get("resultType") == "input_required":
                        return InputRequiredToolResult(mcp_types.InputRequiredResult.model_validate(sent))
                    return ToolResult(content=sent["content"][0]["text"], is_error=True)
            return ToolResult(content="asked too often")

        return OwnTool(name="batch", description="", parameters={"type": "object"}, answer=answer)


async def until(holds: Callable[[], Any]) -> None:
    """Let others work until something holds."""
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - what is waited for is within a server, which sets no event
            await asyncio.sleep(0)
