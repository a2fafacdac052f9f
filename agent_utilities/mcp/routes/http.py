"""Putting the HTTP application together: both wires beside each other, and the selection read before either."""

from __future__ import annotations

import fastmcp
from fastmcp.server.context import reset_transport, set_transport
from fastmcp.server.http import StarletteWithLifespan
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_utilities.mcp.host import Host
from agent_utilities.mcp.wire.known_paths import KnownPaths
from agent_utilities.mcp.wire.paths import Endpoints
from agent_utilities.mcp.wire.request import RequestReader, SelectionMiddleware


def selection_middleware(path: str | None, transport: str, reader: RequestReader, host: Host) -> Middleware:
    """Return the middleware that reads the selection of requests to the MCP paths, `/tools` and `/context`.

    Args:
        path: the MCP endpoint's path, or None for FastMCP's own setting.
        transport: the transport that `path` belongs to.
        reader: reads the selections.
        host: the server that is served.
    """
    sse = path if transport == "sse" and path is not None else fastmcp.settings.sse_path
    streamable = path if transport != "sse" and path is not None else fastmcp.settings.streamable_http_path
    endpoints = Endpoints([fastmcp.settings.message_path], [sse, streamable, "/tools", "/context"])
    return Middleware(SelectionMiddleware, endpoints=endpoints, sse_path=sse, reader=reader, known=KnownPaths(host))


def sse_routes(app: StarletteWithLifespan) -> list[BaseRoute]:
    """Return the legacy SSE routes of an SSE application, to be served beside streamable HTTP.

    The application around them already guards host, origin and auth; only the transport's name is set here.
    """
    paths = {fastmcp.settings.sse_path, fastmcp.settings.message_path.rstrip("/")}
    routes: list[BaseRoute] = []
    for route in app.routes:
        if isinstance(route, Route | Mount) and route.path in paths:
            route.app = _OverSse(route.app)
            routes.append(route)
    return routes


class _OverSse:
    """Serves an ASGI application with FastMCP's transport name set to `sse`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        token = set_transport("sse")
        try:
            await self._app(scope, receive, send)
        finally:
            reset_transport(token)


class WholeResponses:
    """ASGI middleware: ends a response whose stream was cut when the server was told to stop.

    The SDK leaves such a stream open, and FastMCP begins a second response on that of `/sse`: the web server answers
    either with an error in its log, and leaves the client with half a response.

    Args:
        app: the application whose responses are whole from then on.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        n_started, is_whole = 0, False

        async def of_the_first(message: Message) -> None:
            nonlocal n_started, is_whole
            n_started += message["type"] == "http.response.start"
            if n_started < 2:
                is_whole = message["type"] == "http.response.body" and not message.get("more_body", False)
                await send(message)

        await self._app(scope, receive, of_the_first)
        if n_started and not is_whole:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
