"""An upstream that asks and tells its callers whatever the protocol allows, in the middle of a call.

python asking_server.py              2025-11-25: it asks on the connection
python asking_server.py modern       2026-07-28: it asks in results, and refuses a handshake
python asking_server.py both         either, as the connection begins
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import anyio
import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

STATE = "was made by the upstream"
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
Context = ServerRequestContext[Any, Any]
WAITING, CANCELLED = asyncio.Event(), asyncio.Event()
"""Whether a call of `wait` has come, and whether one was cancelled."""


def elicitation(arguments: dict[str, Any]) -> mcp_types.ElicitRequest:
    if "url" in arguments:
        params: Any = mcp_types.ElicitRequestURLParams(message="Go there", url=arguments["url"], elicitation_id="e1")
    else:
        params = mcp_types.ElicitRequestFormParams(message=arguments.get("message", "Who?"), requested_schema=FORM)
    return mcp_types.ElicitRequest(params=params)


def sampling(arguments: dict[str, Any]) -> mcp_types.CreateMessageRequest:
    message = mcp_types.SamplingMessage(
        role="user", content=mcp_types.TextContent(type="text", text=arguments.get("message", "Say something"))
    )
    return mcp_types.CreateMessageRequest(
        params=mcp_types.CreateMessageRequestParams(messages=[message], max_tokens=10)
    )


QUESTIONS: dict[str, tuple[Any, Any]] = {
    "elicit": (elicitation, mcp_types.ElicitResult),
    "sample": (sampling, mcp_types.CreateMessageResult),
    "roots": (lambda arguments: mcp_types.ListRootsRequest(), mcp_types.ListRootsResult),
}
REFUSALS: dict[str, tuple[Any, ...]] = {
    "refuse": (-32055, "refused by the upstream", {"why": ["that is why"]}),
    "task": (mcp_types.METHOD_NOT_FOUND, "it is to be called as a task"),
}
TOOLS = (*QUESTIONS, "both", "tell", "refuse", "fail", "meta", "wait", "waiting", "cancelled", "task")


def text(value: Any, **more: Any) -> mcp_types.CallToolResult:
    told = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return mcp_types.CallToolResult(content=[mcp_types.TextContent(type="text", text=told)], **more)


def plain(answer: Any) -> Any:
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"result_type"})


async def ask(ctx: Context, params: mcp_types.CallToolRequestParams, *names: str) -> Any:
    """Ask all questions at once; return the answers by name, or what asks for them."""
    asked = {name: QUESTIONS[name] for name in names}
    questions = {name: make(params.arguments or {}) for name, (make, _) in asked.items()}
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        if params.input_responses is None:
            return mcp_types.InputRequiredResult(input_requests=questions, request_state=STATE)
        assert params.request_state == STATE
        return text({name: plain(answer) for name, answer in params.input_responses.items()})
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    try:
        answers = await asyncio.gather(
            *(ctx.session.send_request(questions[name], asked[name][1], metadata=related) for name in names)
        )
    except MCPError as error:
        return text({"refused": error.error.message, "code": error.error.code})
    return text({name: plain(answer) for name, answer in zip(names, answers, strict=True)})


async def call(ctx: Context, params: mcp_types.CallToolRequestParams) -> Any:
    match params.name:
        case "elicit" | "sample" | "roots":
            return await ask(ctx, params, params.name)
        case "both":
            return await ask(ctx, params, "elicit", "sample")
        case "tell":
            await ctx.session.report_progress(1, 2, "half")
            told = mcp_types.LoggingMessageNotificationParams(level="warning", data={"a": [1, None]}, logger="here")
            await ctx.session.send_notification(
                mcp_types.LoggingMessageNotification(params=told), related_request_id=ctx.request_id
            )
            return text("told")
        case "refuse" | "task":
            raise MCPError(*REFUSALS[params.name])
        case "fail":
            return text("it failed", is_error=True, structured_content={"why": None})
        case "meta":
            given = dict((ctx.params or {}).get("_meta") or {})
            return text(given, _meta={"their.org/key": 1})
        case "waiting":
            await WAITING.wait()
            return text("a call waits")
        case "cancelled":
            await CANCELLED.wait()
            return text("it was cancelled")
        case _:
            WAITING.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                CANCELLED.set()
                raise


def schema(name: str) -> mcp_types.Tool:
    execution = mcp_types.ToolExecution(task_support="required") if name == "task" else None
    return mcp_types.Tool(name=name, input_schema={"type": "object", "additionalProperties": True}, execution=execution)


async def list_tools(ctx: Context, params: Any) -> mcp_types.ListToolsResult:
    return mcp_types.ListToolsResult(tools=[schema(name) for name in TOOLS])


async def list_prompts(ctx: Context, params: Any) -> mcp_types.ListPromptsResult:
    argument = mcp_types.PromptArgument(name="city")
    return mcp_types.ListPromptsResult(prompts=[mcp_types.Prompt(name="ask", arguments=[argument])])


async def get_prompt(ctx: Context, params: mcp_types.GetPromptRequestParams) -> Any:
    if (params.arguments or {}).get("city") == "nowhere":
        raise MCPError(-32056, "no such city", {"city": "nowhere"})
    content = mcp_types.TextContent(type="text", text=f"{params.name} {params.arguments}")
    message = mcp_types.PromptMessage(role="assistant", content=content)
    return mcp_types.GetPromptResult(messages=[message], description="asked")


async def list_templates(ctx: Context, params: Any) -> mcp_types.ListResourceTemplatesResult:
    template = mcp_types.ResourceTemplate(uri_template="ask://{city}/{+path}", name="cities")
    return mcp_types.ListResourceTemplatesResult(resource_templates=[template])


async def list_resources(ctx: Context, params: Any) -> mcp_types.ListResourcesResult:
    return mcp_types.ListResourcesResult(resources=[mcp_types.Resource(uri="ask://odd%20uri/A", name="odd")])


async def read_resource(ctx: Context, params: mcp_types.ReadResourceRequestParams) -> Any:
    if params.uri.endswith("absent"):
        raise MCPError(-32002, "no such resource", {"uri": params.uri})
    contents = [
        mcp_types.TextResourceContents(uri=params.uri, text="text", mime_type="text/x-odd", _meta={"a": 1}),
        mcp_types.BlobResourceContents(uri=params.uri + "#2", blob="AAEC"),
    ]
    return mcp_types.ReadResourceResult(contents=contents, _meta={"their.org/key": 2})


async def complete(ctx: Context, params: mcp_types.CompleteRequestParams) -> mcp_types.CompleteResult:
    about = params.ref.name if isinstance(params.ref, mcp_types.PromptReference) else params.ref.uri
    given = (params.context.arguments if params.context else None) or {}
    values = [f"{about} {params.argument.name}={params.argument.value} {sorted(given.items())}"]
    return mcp_types.CompleteResult(completion=mcp_types.Completion(values=values, total=7, has_more=True))


server: Server[Any] = Server(
    "asking",
    version="1.2",
    instructions="Ask away.",
    on_call_tool=call,
    on_list_tools=list_tools,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_completion=complete,
)


async def refuse_handshakes(reader: Any, writer: Any, rest: Any) -> None:
    """Hand on what is read, but for handshakes."""
    async with rest:
        async for item in reader:
            message = item.message if isinstance(item, SessionMessage) else None
            if isinstance(message, mcp_types.JSONRPCRequest) and message.method == "initialize":
                error = mcp_types.ErrorData(code=mcp_types.METHOD_NOT_FOUND, message="no handshake")
                refusal = mcp_types.JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
                await writer.send(SessionMessage(refusal))
            else:
                await rest.send(item)


async def main() -> None:
    async with stdio_server() as (reader, writer):
        if "both" in sys.argv:
            await server.run(reader, writer, server.create_initialization_options())
        elif "modern" in sys.argv:
            begin, rest = anyio.create_memory_object_stream[SessionMessage | Exception]()
            async with anyio.create_task_group() as group:
                group.start_soon(refuse_handshakes, reader, writer, begin)
                await server.run(rest, writer, server.create_initialization_options())
        else:
            await serve_loop(server, reader, writer, lifespan_state=None)


if __name__ == "__main__":
    asyncio.run(main())
