"""HTTP routes of features, behind the server's auth where it has any."""

from __future__ import annotations

from typing import Any

from fastmcp.server.auth import AuthProvider
from fastmcp.server.auth.middleware import RequireAuthMiddleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, request_response

from agent_utilities.seam.host import Host, find


def guarded(host: Host, path: str, endpoint: Any) -> Route:
    """Return a route behind the server's auth, where it has any."""
    if (auth := find(host, AuthProvider)) is None:
        return Route(path, endpoint)
    guarded = RequireAuthMiddleware(request_response(endpoint), auth.required_scopes, None, auth.challenge_scopes)
    return Route(path, guarded, methods=["GET"])


def not_permitted(right: str) -> Response:
    """Return the response to a caller who lacks a right."""
    answer = {"error": "forbidden", "error_description": f"no rule of access that fits you gives the right {right!r}"}
    return JSONResponse(answer, status_code=403)
