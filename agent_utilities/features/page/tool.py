"""One tool: its definition as its caller gets it, and a form by which an operator calls it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import fastmcp
import httpx2
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from starlette.requests import Request as HttpRequest

from agent_utilities.features.page.panel import Form, PageError, Panel, Reader, Table
from agent_utilities.features.page.surface import asked, definition_of, known_tools, rows_of
from agent_utilities.mcp.agent_server import AgentServer

_TYPED = ("string", "number", "integer", "boolean")
ARGUMENT = "argument "
"""What a form's fields for arguments begin with."""
_CALL_S = 120.0


async def look(host: AgentServer, reader: Reader, request: HttpRequest) -> dict[str, Any]:
    """Return a tool that the reader may know of.

    Raises:
        PageError: there is none of that name that they may know of.
    """
    name = request.query_params.get("named", "")
    made = await asked(host, reader, request)
    found = next((tool for tool in await known_tools(host, reader, made) if tool.name == name), None)
    if found is None:
        raise PageError(f"no tool named {name!r}")
    row = next(row for row in await rows_of(host, reader, made) if row.name == name)
    definition = definition_of(found)
    return {
        "row": row,
        "definition": json.dumps(definition, indent=2, ensure_ascii=False),
        "description": definition.get("description", ""),
        "fields": _fields(definition["inputSchema"]),
        "selection": [(key, value) for key, value in request.query_params.multi_items() if key != "named"],
        "tables": {"tool": Table(("name", "server", "tokens"), [(row.name, row.server, row.tokens)])},
    }


def _fields(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of a form for a tool's arguments: what has no plain type is written in JSON."""
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


async def call(host: AgentServer, request: HttpRequest, form: Form) -> str:
    """Return what a tool answers, called through the server's own endpoint, as the reader's agent would call it.

    Raises:
        PageError: an argument can't be read, or the call failed.
    """
    name, arguments = form.get("named", ""), _arguments(form)
    selection = [(key, value) for key, value in form.items() if key != "named" and not key.startswith(ARGUMENT)]
    path = fastmcp.settings.streamable_http_path
    url = f"{request.url.scheme}://{request.url.netloc}{path}?{urlencode(selection)}"
    transport = StreamableHttpTransport(url, httpx_client_factory=_in_process(request))
    try:
        async with Client(transport, timeout=_CALL_S) as client:
            result = await client.call_tool_mcp(name, arguments)
    except Exception as error:
        raise PageError(f"{name} could not be called: {error or type(error).__name__}") from None
    told = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return json.dumps(told, indent=2, ensure_ascii=False)


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
    """Return what makes HTTP clients of this very application, with the reader's token."""
    user = request.scope.get("user")
    token = getattr(getattr(user, "access_token", None), "token", "")

    def made(headers: Mapping[str, str] | None = None, **options: Any) -> httpx2.AsyncClient:
        own = {"authorization": f"Bearer {token}"} if token else {}
        kept = {key: value for key, value in options.items() if key in ("timeout", "follow_redirects")}
        transport = httpx2.ASGITransport(app=request.app)
        return httpx2.AsyncClient(transport=transport, headers={**(headers or {}), **own}, **kept)

    return made


PANEL = Panel("tool", "", look)
