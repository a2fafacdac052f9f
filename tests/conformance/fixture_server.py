"""The server that the official conformance suite is run against, made by FastMCP or by `create_mcp_server`.

The tools, prompts and resources bear the names that the suite asks for. `build` is the same code for both
makers, so whatever one passes and the other doesn't is the maker's doing.

    python fixture_server.py bare|factory PORT
    python fixture_server.py gateway PORT URL       a gateway in front of one that is served at a URL
    python fixture_server.py gateway-stdio PORT URL one in front of one that it runs itself, whatever the URL
    python fixture_server.py proxy PORT URL         FastMCP's proxy of one that is served at a URL

It serves streamable HTTP at `/mcp`; port 0 takes a free one, which uvicorn's line on stderr names.
"""

from __future__ import annotations

import base64
import io
import itertools
import json
import os
import struct
import sys
import wave
import zlib
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import anyio
import mcp_types
import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.prompts.base import Message, Prompt, PromptResult
from fastmcp.server import create_proxy
from fastmcp.server.event_store import EventStore
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.utilities.tasks import TaskConfig
from fastmcp.utilities.types import Audio, Image
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, Field

from agent_utilities import AgentServer, create_mcp_server

Factory = Callable[..., FastMCP[Any]]
Content = mcp_types.TextContent | mcp_types.ImageContent | mcp_types.EmbeddedResource

FACTORIES: dict[str, Factory] = {"bare": FastMCP, "factory": create_mcp_server}


def build(factory: Factory) -> FastMCP[Any]:
    """Return the fixture, made by a factory.

    Args:
        factory: `fastmcp.FastMCP` or `create_mcp_server`.
    """
    # With a version, since without one each maker has another way to tell that.
    mcp = factory("conformance-fixture", "A server for conformance checks.", version="1.0", dereference_schemas=False)
    _add_content_tools(mcp)
    _add_talking_tools(mcp)
    _add_elicitation_tools(mcp)
    _add_schema_tools(mcp)
    _add_multi_round_tools(mcp)
    _add_task_tools(mcp)
    _add_resources(mcp)
    _add_prompts(mcp)
    _add_change_tools(mcp)  # Last, where what is replaced stays.
    return mcp


def serve(mcp: FastMCP[Any], port: int) -> None:
    """Serve over streamable HTTP at `/mcp` on the loopback address, until interrupted.

    Args:
        mcp: the server.
        port: the port to bind; 0 takes a free one.
    """
    app = mcp.http_app(
        path="/mcp",
        event_store=EventStore(),
        retry_interval=100,
        host_origin_protection="auto",
        allowed_hosts=["127.0.0.1"],
    )
    http = "auto" if isinstance(mcp, AgentServer) else "h11"  # which FastMCP comes with
    options: dict[str, Any] = {"http": http, "log_level": "info", "access_log": False, "timeout_graceful_shutdown": 1}
    uvicorn.run(app, host="127.0.0.1", port=port, **options)


# -- content -------------------------------------------------------------------------------------------------


def _png() -> bytes:
    """One red pixel."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def _wav() -> bytes:
    """Ten samples of silence."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(b"\x00\x00" * 10)
    return buffer.getvalue()


def _text(text: str) -> mcp_types.TextContent:
    return mcp_types.TextContent(type="text", text=text)


def _image() -> mcp_types.ImageContent:
    return mcp_types.ImageContent(type="image", data=base64.b64encode(_png()).decode(), mime_type="image/png")


def _embedded(uri: str, text: str, mime_type: str = "text/plain") -> mcp_types.EmbeddedResource:
    contents = mcp_types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return mcp_types.EmbeddedResource(type="resource", resource=contents)


def _add_content_tools(mcp: FastMCP[Any]) -> None:
    @mcp.tool
    def test_simple_text() -> str:
        """Return plain text."""
        return "This is a simple text response for testing."

    @mcp.tool
    def test_image_content() -> Image:
        """Return an image."""
        return Image(data=_png(), format="png")

    @mcp.tool
    def test_audio_content() -> Audio:
        """Return a sound."""
        return Audio(data=_wav(), format="wav")

    @mcp.tool
    def test_embedded_resource() -> mcp_types.EmbeddedResource:
        """Return a resource inside the result."""
        return _embedded("test://embedded-resource", "This is an embedded resource content.")

    @mcp.tool
    def test_multiple_content_types() -> list[Content]:
        """Return text, an image and a resource."""
        data = json.dumps({"test": "data", "value": 123})
        return [
            _text("Multiple content types test:"),
            _image(),
            _embedded("test://mixed-content-resource", data, "application/json"),
        ]

    @mcp.tool
    def test_error_handling() -> str:
        """Fail, always."""
        raise ToolError("This tool intentionally returns an error for testing")


# -- what a running call tells its client --------------------------------------------------------------------


def _add_talking_tools(mcp: FastMCP[Any]) -> None:
    @mcp.tool
    async def test_tool_with_logging(ctx: Context) -> str:
        """Send three log messages."""
        await ctx.info("Tool execution started")
        await ctx.info("Tool processing data")
        await ctx.info("Tool execution completed")
        return "Logged three messages."

    @mcp.tool
    async def test_logging_tool(ctx: Context) -> str:
        """Send one log message, if the caller asked for any."""
        await ctx.info("A message for callers that set a log level")
        return "Logged."

    @mcp.tool
    async def test_tool_with_progress(ctx: Context) -> str:
        """Report progress three times."""
        for progress in (0, 50, 100):
            await ctx.report_progress(progress, 100)
        return "Reported progress."

    @mcp.tool
    async def test_reconnection(ctx: Context) -> str:
        """Close the response stream before answering; the client fetches the answer when it reconnects."""
        await ctx.close_sse_stream()
        return "Answered after the stream was closed."

    @mcp.tool
    async def test_sampling(prompt: str, ctx: Context) -> str:
        """Ask the client's model."""
        result = await ctx.session.create_message(
            [mcp_types.SamplingMessage(role="user", content=_text(prompt))],
            max_tokens=100,
            related_request_id=ctx.request_id,
        )
        answer = result.content
        return f"LLM response: {answer.text if isinstance(answer, mcp_types.TextContent) else answer}"

    @mcp.tool
    def test_missing_capability(ctx: Context) -> str:
        """Refuse clients that don't declare sampling."""
        sampling = mcp_types.ClientCapabilities(sampling=mcp_types.SamplingCapability())
        if not ctx.session.check_client_capability(sampling):
            raise MCPError(
                mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                "this tool needs the sampling capability",
                {"requiredCapabilities": {"sampling": {}}},
            )
        return "The client declares sampling."


# -- questions to the user, in the handshake era -------------------------------------------------------------


class Person(BaseModel):
    """Who the user is."""

    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


_DEFAULTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}

_PLAIN = ["option1", "option2", "option3"]
_TITLED = [{"const": f"value{i}", "title": f"Choice {i}"} for i in (1, 2, 3)]

_CHOICES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": _PLAIN},
        "titledSingle": {"type": "string", "oneOf": _TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "items": {"type": "string", "enum": _PLAIN},
        },
        "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
    },
}


def _add_elicitation_tools(mcp: FastMCP[Any]) -> None:
    @mcp.tool
    async def test_elicitation(message: str, ctx: Context) -> str:
        """Ask the user who they are."""
        answer = await ctx.elicit(message, Person)
        return f"User response: action={answer.action}, content={getattr(answer, 'data', None)}"

    async def ask(ctx: Context, schema: dict[str, Any]) -> str:
        answer = await ctx.session.elicit_form("Please fill in the form", schema, ctx.request_id)
        return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"

    @mcp.tool
    async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
        """Ask with a default for each primitive type."""
        return await ask(ctx, _DEFAULTS)

    @mcp.tool
    async def test_elicitation_sep1330_enums(ctx: Context) -> str:
        """Ask with each form of choice."""
        return await ask(ctx, _CHOICES)


# -- changes while the server runs ---------------------------------------------------------------------------


def _add_change_tools(mcp: FastMCP[Any]) -> None:
    def passing() -> str:
        """Come and go."""
        return "Gone soon."

    n_changes = itertools.count()

    def changed_tool() -> Tool:
        return Tool.from_function(passing, name="passing_tool", description=f"Change {next(n_changes)}.")

    def changed_prompt() -> Prompt:
        return Prompt.from_function(passing, name="passing_prompt", description=f"Change {next(n_changes)}.")

    @mcp.tool
    async def test_trigger_tool_change() -> str:
        """Change the tool list, and leave its names as they are, so that later listings are the same."""
        mcp.local_provider.remove_tool("passing_tool")
        mcp.add_tool(changed_tool())
        return "The tool list changed."

    @mcp.tool
    async def test_trigger_prompt_change() -> str:
        """Change the prompt list, and leave its names as they are."""
        mcp.local_provider.remove_prompt("passing_prompt")
        mcp.add_prompt(changed_prompt())
        return "The prompt list changed."

    mcp.add_tool(changed_tool())
    mcp.add_prompt(changed_prompt())


# -- schemas -------------------------------------------------------------------------------------------------


class SchemaTool(Tool):
    """A tool whose input schema is handed to clients as it is written."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Return the arguments' names."""
        return ToolResult(content=[_text(", ".join(sorted(arguments)))])


_SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def _add_schema_tools(mcp: FastMCP[Any]) -> None:
    mcp.add_tool(
        SchemaTool(
            name="json_schema_2020_12_tool",
            description="Tool with JSON Schema 2020-12 features",
            parameters=_SCHEMA_2020_12,
        )
    )

    @mcp.tool
    def test_custom_headers(
        region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})], query: str = ""
    ) -> str:
        """Take an argument that clients mirror into a header."""
        return f"Queried {region}: {query}"


# -- questions to the client, in the 2026-07-28 era ----------------------------------------------------------


def _question(message: str, name: str, kind: str = "string") -> mcp_types.ElicitRequest:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    params = mcp_types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return mcp_types.ElicitRequest(params=params)


def _sampling(prompt: str, max_tokens: int) -> mcp_types.CreateMessageRequest:
    message = mcp_types.SamplingMessage(role="user", content=_text(prompt))
    return mcp_types.CreateMessageRequest(
        params=mcp_types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
    )


def _ask(requests: mcp_types.InputRequests, state: str | None = None) -> mcp_types.InputRequiredResult:
    return mcp_types.InputRequiredResult(input_requests=requests, request_state=state)


def _field(ctx: Context, key: str, name: str) -> Any:
    """Return a field of the user's answer, or None when it hasn't been given."""
    answer = (ctx.input_responses or {}).get(key)
    if not isinstance(answer, mcp_types.ElicitResult) or answer.action != "accept":
        return None
    return (answer.content or {}).get(name)


def _add_multi_round_tools(mcp: FastMCP[Any]) -> None:
    name = _question("What is your name?", "name")
    confirm = _question("Please confirm", "ok", "boolean")

    @mcp.tool
    def test_input_required_result_elicitation(ctx: Context) -> str | mcp_types.InputRequiredResult:
        """Ask for a name, again until it is given."""
        given = _field(ctx, "user_name", "name")
        return _ask({"user_name": name}) if given is None else f"Hello, {given}!"

    @mcp.tool
    def test_streaming_elicitation(ctx: Context) -> str | mcp_types.InputRequiredResult:
        """Ask for a name, on the response stream."""
        given = _field(ctx, "user_name", "name")
        return _ask({"user_name": name}) if given is None else f"Hello, {given}!"

    @mcp.tool
    def test_input_required_result_sampling(ctx: Context) -> str | mcp_types.InputRequiredResult:
        """Ask the client's model."""
        answer = (ctx.input_responses or {}).get("capital_question")
        if not isinstance(answer, mcp_types.CreateMessageResult):
            return _ask({"capital_question": _sampling("What is the capital of France?", 100)})
        return answer.content.text if isinstance(answer.content, mcp_types.TextContent) else "No text."

    @mcp.tool
    def test_input_required_result_list_roots(ctx: Context) -> str | mcp_types.InputRequiredResult:
        """Ask for the client's roots."""
        answer = (ctx.input_responses or {}).get("client_roots")
        if not isinstance(answer, mcp_types.ListRootsResult):
            return _ask({"client_roots": mcp_types.ListRootsRequest()})
        return ", ".join(str(root.uri) for root in answer.roots)

    @mcp.tool
    def test_input_required_result_request_state(ctx: Context) -> str | mcp_types.InputRequiredResult:
        """Carry state from one round to the next."""
        if ctx.request_state is None:
            return _ask({"confirm": confirm}, "asked")
        return "state-ok" if ctx.request_state == "asked" else "state-lost"

    @mcp.tool
    def test_input_required_result_tampered_state(ctx: Context) -> str | mcp_types.InputRequiredResult:
        """Carry state that nobody else may write."""
        if ctx.request_state is None:
            return _ask({"confirm": confirm}, "asked")
        return "state-ok"

    @mcp.tool
    def test_input_required_result_multiple_inputs(ctx: Context) -> str | mcp_types.InputRequiredResult:
        """Ask three things at once."""
        requests: mcp_types.InputRequests = {
            "user_name": name,
            "greeting": _sampling("Generate a greeting", 50),
            "client_roots": mcp_types.ListRootsRequest(),
        }
        if ctx.request_state is None or requests.keys() - (ctx.input_responses or {}).keys():
            return _ask(requests, "asked")
        return "All three were answered."

    @mcp.tool
    def test_input_required_result_multi_round(ctx: Context) -> str | mcp_types.InputRequiredResult:
        """Ask two things, one after the other."""
        if ctx.request_state is None:
            return _ask({"step1": _question("Step 1: What is your name?", "name")}, "asked for a name")
        if ctx.request_state == "asked for a name":
            given = _field(ctx, "step1", "name")
            return _ask({"step2": _question("Step 2: What is your favorite color?", "color")}, f"named {given}")
        return f"{ctx.request_state}, likes {_field(ctx, 'step2', 'color')}"

    @mcp.tool
    def test_input_required_result_capabilities(ctx: Context) -> str | mcp_types.InputRequiredResult:
        """Ask only for what the client declares."""
        declared = ctx.session.client_capabilities or mcp_types.ClientCapabilities()
        requests: mcp_types.InputRequests = {}
        if declared.sampling is not None:
            requests["capital_question"] = _sampling("What is the capital of France?", 100)
        if declared.elicitation is not None:
            requests["user_name"] = name
        return _ask(requests) if requests and not ctx.input_responses else "Nothing left to ask."


# -- background tasks, with the extra `fastmcp[tasks]` -------------------------------------------------------


def _add_task_tools(mcp: FastMCP[Any]) -> None:
    @mcp.tool
    def greet(name: str) -> str:
        """Greet, at once."""
        return f"Hello, {name}!"

    if find_spec("fastmcp_tasks") is None:
        return
    mcp.add_extension(import_module("fastmcp_tasks").TasksExtension())
    poll = timedelta(milliseconds=100)
    optional, required = TaskConfig("optional", poll), TaskConfig("required", poll)
    confirm = _question("Delete it?", "confirm", "boolean")

    @mcp.tool(task=optional)
    async def slow_compute(seconds: float, label: str = "") -> str:
        """Compute for some seconds."""
        await anyio.sleep(seconds)
        return f"Computed {label} for {seconds} s."

    @mcp.tool(task=required)
    async def failing_job() -> str:
        """Fail, always, in the background."""
        raise ToolError("This job intentionally fails")

    @mcp.tool(task=required)
    async def protocol_error_job() -> str:
        """Break the protocol, always, in the background."""
        raise MCPError(mcp_types.INTERNAL_ERROR, "This job intentionally breaks")

    @mcp.tool(task=optional)
    async def confirm_delete(filename: str, ctx: Context) -> str | mcp_types.InputRequiredResult:
        """Ask before deleting."""
        if _field(ctx, "confirm", "confirm") is None:
            return _ask({"confirm": confirm})
        return f"Deleted {filename}."

    @mcp.tool(task=optional)
    async def multi_input(ctx: Context) -> str | mcp_types.InputRequiredResult:
        """Ask two things at once, until both are answered."""
        missing = {key: confirm for key in ("first", "second") if key not in (ctx.input_responses or {})}
        return _ask({**missing}) if missing else "Both were answered."

    @mcp.tool(task=required)
    async def test_tool_with_task(ctx: Context) -> str | mcp_types.InputRequiredResult:
        """Ask for a name, then greet in the background."""
        given = _field(ctx, "user_name", "name")
        return _ask({"user_name": _question("What is your name?", "name")}) if given is None else f"Hello, {given}!"


# -- resources -----------------------------------------------------------------------------------------------


def _add_resources(mcp: FastMCP[Any]) -> None:
    @mcp.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        """A text."""
        return "This is the content of the static text resource."

    @mcp.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """A picture."""
        return _png()

    @mcp.resource("test://watched-resource", mime_type="text/plain")
    def watched_resource() -> str:
        """A text that clients subscribe to."""
        return "Nothing new."

    @mcp.resource("test://template/{id}/data", mime_type="application/json")
    def template_data(id: str) -> str:
        """Data by its id."""
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})

    async def accept(ctx: ServerRequestContext[Any, Any], params: Any) -> mcp_types.EmptyResult:
        return mcp_types.EmptyResult()

    low_level = mcp._mcp_server
    low_level.add_request_handler("resources/subscribe", mcp_types.SubscribeRequestParams, accept)
    low_level.add_request_handler("resources/unsubscribe", mcp_types.UnsubscribeRequestParams, accept)


# -- prompts -------------------------------------------------------------------------------------------------


def _add_prompts(mcp: FastMCP[Any]) -> None:
    @mcp.prompt
    def test_simple_prompt() -> str:
        """A prompt without arguments."""
        return "This is a simple prompt for testing."

    @mcp.prompt
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """A prompt with two arguments."""
        return f"Prompt with arguments: arg1={arg1!r}, arg2={arg2!r}"

    @mcp.prompt
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:
        """A prompt with a resource inside."""
        resource = _embedded(resourceUri, "Embedded resource content for testing.")
        return [Message(resource), Message("Please process the embedded resource above.")]

    @mcp.prompt
    def test_prompt_with_image() -> list[Message]:
        """A prompt with an image."""
        return [Message(_image()), Message("Please analyze the image above.")]

    @mcp.prompt
    def test_input_required_result_prompt(ctx: Context) -> PromptResult | mcp_types.InputRequiredResult:
        """A prompt that first asks for its context."""
        given = _field(ctx, "user_context", "context")
        if given is None:
            return _ask({"user_context": _question("What context should the prompt use?", "context")})
        return PromptResult([Message(f"Answer in the context of {given}.")])

    @mcp.completion
    def complete(
        ref: mcp_types.PromptReference | mcp_types.ResourceTemplateReference,
        argument: mcp_types.CompletionArgument,
        context: mcp_types.CompletionContext | None,
    ) -> list[str]:
        words = ["paris", "park", "party", "test", "testing"]
        return [word for word in words if word.startswith(argument.value)]


def _before(maker: str, url: str) -> FastMCP[Any]:
    """Return what stands before the fixture: a gateway, over HTTP or stdio, or a proxy of FastMCP's."""
    from tests.gateway.upstreams.behind import gateway_before

    if maker == "proxy":
        return create_proxy(url, name="conformance-fixture", version="1.0")
    over_stdio = {"command": sys.executable, "args": [__file__, "factory", "stdio"], "env": dict(os.environ)}
    return gateway_before(
        over_stdio if maker == "gateway-stdio" else {"url": url}, "conformance-fixture", version="1.0"
    )


if __name__ == "__main__":
    maker, port, *served_at = sys.argv[1:]
    if maker not in FACTORIES and not served_at:
        sys.exit(f"unknown maker {maker!r}: one of {', '.join(FACTORIES)}")
    made = _before(maker, served_at[0]) if served_at else build(FACTORIES[maker])
    if port == "stdio":
        made.run(show_banner=False)
    else:
        serve(made, int(port))
