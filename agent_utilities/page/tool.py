"""One tool: its definition as its caller gets it, and the form that calls it; what may write is asked about first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import fastmcp
import httpx2
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp_types import TextContent
from starlette.requests import Request as HttpRequest

from agent_utilities.page.surface import definition_of, known_tools, request_of, rows_of
from agent_utilities.seam.host import Host
from agent_utilities.seam.panel import Form, PageError, Panel, Reader, Table

_TYPED = ("string", "number", "integer", "boolean")
ARGUMENT = "argument "
"""What a form's fields for arguments begin with."""
_AGREED = "agreed"
"""The field that a second press sends: its reader has seen what is called, and with what."""
_OWN = ("named", _AGREED)
_CALL_S = 120.0


async def look(host: Host, reader: Reader, request: HttpRequest) -> dict[str, Any]:
    """Return the definition of a tool, and the form for its arguments.

    Raises:
        PageError: the reader may know of no tool of that name.
    """
    name = request.query_params.get("named", "")
    made = await request_of(host, reader, request)
    tool = next((each for each in await known_tools(host, reader, made) if each.name == name), None)
    if tool is None:
        raise PageError(f"no tool named {name!r}")
    rows = await rows_of(host, reader, made)
    row = next(row for row in rows if row.name == name and not row.is_own)
    own = [each for each in rows if each.is_own]
    definition = definition_of(tool)
    return {
        "row": row,
        "entry_tools": [each.name for each in own],
        "entry_tokens": sum(each.tokens for each in own),
        "definition": json.dumps(definition, indent=2, ensure_ascii=False),
        "description": definition.get("description", ""),
        "fields": _fields(definition["inputSchema"]),
        "selection": [(key, value) for key, value in request.query_params.multi_items() if key != "named"],
        "tables": {"tool": Table(("name", "server", "tokens"), [(row.name, row.server, row.tokens)])},
    }


def _fields(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of a form for a tool's arguments; arguments without a plain type are written in JSON."""
    required = schema.get("required", ())
    properties = schema.get("properties")
    return [
        {
            "name": name,
            "type": each.get("type") if each.get("type") in _TYPED and "enum" not in each else "json",
            "is_required": name in required,
            "help": str(each.get("description", "")),
            "default": "" if each.get("default") is None else json.dumps(each["default"], ensure_ascii=False),
        }
        for name, each in (properties.items() if isinstance(properties, dict) else ())
        if isinstance(each, dict)
    ]


# -- calling it --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a call.

    Args:
        is_error: whether the tool answered with an error.
        text: the texts of its result.
        whole: all of the result in JSON, as its caller gets it.
    """

    name: str
    is_error: bool
    text: str
    whole: str


@dataclass(frozen=True, slots=True)
class Question:
    """A call that its reader has to agree to: the tool may write.

    Args:
        arguments: what it is called with, in JSON.
        form: the fields that call it.
    """

    name: str
    arguments: str
    form: Form


async def call(host: Host, reader: Reader, request: HttpRequest, form: Form) -> Outcome | Question:
    """Return the outcome of a call, or, of a tool that may write, first the question.

    It is called through the server's own endpoint, as the reader's agent would.

    Raises:
        PageError: an argument can't be read, or the tool could not be called.
    """
    name, arguments = form.get("named", ""), _arguments(form)
    if not form.get(_AGREED) and not await _only_reads(host, reader, request, name):
        return Question(name, json.dumps(arguments, indent=2, ensure_ascii=False), {**form, _AGREED: "yes"})
    selection = [(key, value) for key, value in form.items() if key not in _OWN and not key.startswith(ARGUMENT)]
    path = fastmcp.settings.streamable_http_path
    url = f"{request.url.scheme}://{request.url.netloc}{path}?{urlencode(selection)}"
    transport = StreamableHttpTransport(url, httpx_client_factory=_in_process(request))
    try:
        async with Client(transport, timeout=_CALL_S) as client:
            result = await client.call_tool_mcp(name, arguments)
    except Exception as error:
        raise PageError(f"{name} could not be called: {error or type(error).__name__}") from None
    text = "\n".join(each.text for each in result.content if isinstance(each, TextContent))
    whole = json.dumps(result.model_dump(mode="json", by_alias=True, exclude_none=True), indent=2, ensure_ascii=False)
    return Outcome(name, bool(result.is_error), text, whole)


async def _only_reads(host: Host, reader: Reader, request: HttpRequest, name: str) -> bool:
    """Whether a tool says that it only reads; entry tools may call any other, and count as ones that write."""
    rows = await rows_of(host, reader, await request_of(host, reader, request))
    return any(row.read_only and not row.is_own for row in rows if row.name == name)


def _arguments(form: Form) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for key, text in form.items():
        if not key.startswith(ARGUMENT) or not text.strip():
            continue
        kind, _, name = key.removeprefix(ARGUMENT).partition(" ")
        try:
            arguments[name] = text if kind == "string" else json.loads(text)
        except (ValueError, RecursionError) as error:
            raise PageError(f"{name} can't be read: {text[:100]!r} is no JSON ({error})") from None
    return arguments


def _in_process(request: HttpRequest) -> Any:
    """Return a factory of HTTP clients that call this application in process, with the reader's token."""
    user = request.scope.get("user")
    token = getattr(getattr(user, "access_token", None), "token", "")

    def made(headers: Mapping[str, str] | None = None, **options: Any) -> httpx2.AsyncClient:
        own = {"authorization": f"Bearer {token}"} if token else {}
        kept = {key: value for key, value in options.items() if key in ("timeout", "follow_redirects")}
        transport = httpx2.ASGITransport(app=request.app)
        return httpx2.AsyncClient(transport=transport, headers={**(headers or {}), **own}, **kept)

    return made


PANEL = Panel("tool", "", look)
