"""The schema that the SDK checks a call's `Mcp-Param-*` headers against, without listing every tool for each call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastmcp.server.dependencies import get_http_request
from fastmcp.utilities.versions import parse_version_key
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import validate_mcp_param_headers
from starlette.requests import Request

from agent_utilities.errors import SelectionError

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer


def refuse_headers(host: AgentServer, request: Any, params: Mapping[str, Any]) -> None:
    """Check the headers of a call whose caller was listed their tools only now, after the SDK would have checked.

    Raises:
        MCPError: a header and its argument differ.
    """
    if not isinstance(request, Request) or (schema := header_schema(host, str(params.get("name")))) is None:
        return
    rejection = validate_mcp_param_headers(schema, params.get("arguments") or {}, request.headers)
    if rejection is not None:
        raise MCPError(rejection.code, rejection.message, rejection.data)


def header_schema(host: AgentServer, name: str) -> Mapping[str, Any] | None:
    """Return a tool's input schema where its headers are to be checked and the caller may call it, else None.

    Only a tool that asks for headers needs the check, so the others cost nothing. One that the caller may not call,
    or that has an `auth` check of its own, is passed over: the call itself then answers, as for an unknown name. So is
    every tool before the caller was listed any; `refuse_headers` is for them.
    """
    catalog = host.surface.catalogs.of_caller("tool")
    of_name = [tool for tool in catalog.with_header_parameters if tool.name == name] if catalog is not None else []
    if not of_name:
        return None
    try:
        bounds = host.surface.merged(host.callers.selection_of(get_http_request())).bounds
    except (SelectionError, RuntimeError):  # malformed, or not over HTTP: the call itself answers
        return None
    callable_ones = [tool for tool in of_name if not tool.is_guarded and bounds.refusal(tool) is None]
    if not callable_ones:
        return None
    return max(callable_ones, key=lambda tool: parse_version_key(tool.version)).header_schema
