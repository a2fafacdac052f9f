"""Builds the HTTP application: both transports beside each other, and the selection read before either."""

from __future__ import annotations

import json
import logging
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import fastmcp
import mcp_types
from fastmcp.server.context import reset_transport, set_transport
from fastmcp.server.http import StarletteWithLifespan
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, BearerAuthBackend
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_utilities.compat.fastmcp_server import whole_lifespan
from agent_utilities.errors import InputError
from agent_utilities.runtime.hosts import is_loopback
from agent_utilities.seam.events import Event, RequestRefused
from agent_utilities.seam.host import CallRecord, find
from agent_utilities.server.access_log import hide_secrets
from agent_utilities.server.http.host_guard import BoundedHttp, HostGuard, OpenToPages, accepted_on, is_guarded
from agent_utilities.server.startup import WARNING
from agent_utilities.server.wire.selection_middleware import SelectionMiddleware

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer

logger = logging.getLogger("agent_utilities.http")

_N_READ = 1 << 16
"""The most bytes of a request in which its id is looked for."""
_N_LOGGED, _MINUTE_S = 16, 60.0
"""The most distinct lines in a minute, so that strangers can't fill the log."""
_HELD = "agent_utilities.held"
"""The key, in a scope, of the mark of the application whose middleware it has passed."""

_Layer = Callable[..., ASGIApp]
"""Makes ASGI middleware around an application."""


def application(
    server: AgentServer,
    make: Callable[..., StarletteWithLifespan],
    arguments: dict[str, Any],
    more: Callable[[], Sequence[BaseRoute]],
) -> StarletteWithLifespan:
    """Return a server's ASGI application: MCP and `/sse` beside it, selections read, hosts and origins guarded.

    Each of its routes keeps all of that where it is merged into another application.

    Args:
        make: FastMCP's `http_app`.
        arguments: of `make`, by name.
        more: returns the routes beside those of MCP.
    """
    hide_secrets()
    path, transport = arguments.get("path"), arguments.get("transport", "http")
    protection = arguments.pop("host_origin_protection", None)
    hosts, origins = arguments.pop("allowed_hosts", None) or (), arguments.pop("allowed_origins", None) or ()
    stateless = arguments.get("stateless_http")
    theirs = fastmcp.settings
    stateless = theirs.stateless_http if stateless is None else stateless
    sse_path = path if transport == "sse" and path is not None else theirs.sse_path
    mcp_path = path if transport != "sse" and path is not None else theirs.streamable_http_path
    reading = partial(
        SelectionMiddleware, host=server, sse_path=sse_path, mcp_path=mcp_path, has_sessions=not stateless
    )
    arguments["middleware"] = [*(arguments.get("middleware") or []), Middleware(reading)]
    # The legacy endpoint first: a provider of auth takes the last one as what its tokens are for.
    beside = sse_routes(make(transport="sse", host_origin_protection=False)) if transport != "sse" else []
    app = make(**arguments, host_origin_protection=False)
    app.router.routes.extend([*beside, *more()])
    app.add_middleware(WhileLetIn, server=server)
    app.add_middleware(WholeResponses)
    accepted = accepted_on(server.address and server.address[0], server.surface.operator.settings, hosts, origins)
    mcp_paths = [each.rstrip("/") for each in (sse_path, mcp_path, theirs.message_path)]
    opened: list[_Layer] = [partial(OpenToPages, accepted=accepted, paths=mcp_paths)] if accepted.origins else []
    outer: list[_Layer] = []
    if is_guarded(protection):
        outer.append(partial(HostGuard, accepted=accepted))
        if not accepted.loopback:
            server.greeting.tell(f"{WARNING}{accepted}")
    if (record := find(server, CallRecord)) is not None:
        outer.append(record.of_http)
    outer.append(partial(RefusedRequests, notify=server.notify))
    for route in app.router.routes if opened else ():
        if isinstance(route, Route) and route.methods and route.path.rstrip("/") in mcp_paths:
            route.methods.add("OPTIONS")  # of a preflight, where another application routes it
    _hold(app, reading, opened, outer)
    return app


def _hold(app: StarletteWithLifespan, reading: _Layer, opened: list[_Layer], outer: list[_Layer]) -> None:
    """Wrap an application in layers, and each of its routes for another application that it is merged into."""
    mark = object()
    for route in app.router.routes:
        if isinstance(route, Route | Mount | WebSocketRoute):
            own = [partial(layer, endpoint=route.path) for layer in (reading, *opened)]
            route.app = Held(route.app, mark, [*own, *outer])
            if not isinstance(route, Mount):
                route.endpoint = route.app  # by which FastAPI makes a route anew
    app.add_middleware(Held, mark=mark, layers=[*opened, *outer])


class Held:
    """ASGI app: an application or a route inside its middleware, unless its own application has run that already.

    Args:
        app: the application or route.
        mark: the mark of the application that it belongs to.
        layers: the middleware around it, innermost first.
    """

    def __init__(self, app: ASGIApp, mark: object, layers: Sequence[_Layer]) -> None:
        self.app, self._mark = app, mark
        self._behind = reduce(lambda inner, layer: layer(inner), layers, app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_held = scope["type"] == "lifespan" or scope.get(_HELD) is self._mark
        scope[_HELD] = self._mark
        await (self.app if is_held else self._behind)(scope, receive, send)


@contextmanager
def at_an_address(server: AgentServer, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the arguments that FastMCP serves with, and set the server's address meanwhile.

    FastMCP resolves None by its own settings, to no guard; ours reads the hosts. For port 0 a free one is chosen here,
    so that all messages name it; on Linux nobody else gets it before it is bound.
    """
    host = arguments.get("host") or fastmcp.settings.host
    port = arguments["port"] if arguments.get("port") is not None else fastmcp.settings.port
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as reserved:
        if arguments.get("sockets"):
            port = arguments["sockets"][0].getsockname()[1]
        elif port == 0:
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):  # the web server tells what is wrong with the address
                reserved.bind((host, 0))
                port = reserved.getsockname()[1]
            if sys.platform != "linux":
                reserved.close()
        if not is_loopback(host) and server.auth is None:
            server.greeting.tell(
                f"{WARNING}{Path(sys.argv[0]).name} binds {host}:{port} without auth: anyone who can reach this "
                "address can call every permitted tool. Bind 127.0.0.1, pass auth= to create_mcp_server, or put an "
                "authenticating proxy before it."
            )
        server.address, server.greeting.is_ours = (host, port), True
        protection, hosts = is_guarded(arguments.get("host_origin_protection")), arguments.get("allowed_hosts") or []
        guard = {"host_origin_protection": protection, "allowed_hosts": hosts}
        alike = {"log_config": None} if server.greeting.logs_alike else {}
        theirs = {**alike, **(arguments.get("uvicorn_config") or {})}
        usual = (
            fastmcp.settings.sse_path if arguments.get("transport") == "sse" else fastmcp.settings.streamable_http_path
        )
        shown_host = f"[{host}]" if ":" in host else host
        endpoint = f"http://{shown_host}:{port} (MCP at {arguments.get('path') or usual})"
        where = endpoint if "log_config" in theirs else ""  # else the web server logs it in its own way

        async def bound() -> None:  # called by the web server at its first tick, and then every half minute
            await server.greeting.say(arguments.get("log_level"), where)

        web = {"http": BoundedHttp, "callback_notify": bound, **theirs}
        try:
            yield {**arguments, "host": host, "port": port, **guard, "uvicorn_config": web}
        finally:
            server.address = None


def tell_when_started(app: StarletteWithLifespan, server: AgentServer) -> None:
    """Have an application check the operator's bounds when it starts, and log the result unless the process is ours."""
    lifespan = app.router.lifespan_context

    @asynccontextmanager
    async def telling(app: Any) -> AsyncIterator[Any]:
        async with whole_lifespan(server):
            await server.operator_bounds.judge()
            if not server.greeting.is_ours:
                await server.greeting.say()
            async with lifespan(app) as state:
                if server.sessions.share is not None:
                    from agent_utilities.server.http.sessions_again import go_on_with_sessions  # where replicas share

                    go_on_with_sessions(app, server)
                with server.stopping.heeding_signals():  # the web server has set its own handlers by now
                    yield state

    app.router.lifespan_context = telling


def sse_routes(app: StarletteWithLifespan) -> list[BaseRoute]:
    """Return the legacy SSE routes of an SSE application, to be served beside streamable HTTP.

    The application around them already guards host, origin and auth; only the transport's name is set here.
    """
    paths = {fastmcp.settings.sse_path, fastmcp.settings.message_path.rstrip("/")}
    routes = [route for route in app.routes if isinstance(route, Route | Mount) and route.path in paths]
    for route in routes:
        route.app = _over_sse(route.app)
    return list[BaseRoute](routes)


def _over_sse(app: ASGIApp) -> ASGIApp:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        token = set_transport("sse")
        try:
            await app(scope, receive, send)
        finally:
            reset_transport(token)

    return serve


class WhileLetIn:
    """ASGI middleware: ends a stream whose listener's token is no longer accepted, before anything else is sent on it.

    A stream of notices is one request for as long as its client listens, so the token that came with it is verified
    again for each event: by then it may have expired, or been revoked. A call that was let in is answered to its end.
    """

    def __init__(self, app: ASGIApp, server: AgentServer) -> None:
        self._app, self._server = app, server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        listen = (b"mcp-method", b"subscriptions/listen")
        if scope["type"] != "http" or (scope["method"] != "GET" and listen not in scope["headers"]):
            return await self._app(scope, receive, send)
        is_over, receiving = False, anyio.CancelScope()

        async def to_who_is_let_in(message: Message) -> None:
            nonlocal is_over
            if message.get("more_body") and not is_over and not await self._is_let_in(scope):
                is_over = True
                receiving.cancel()
            if not is_over:
                await send(message)

        async def receive_until_over() -> Message:
            nonlocal receiving
            with anyio.CancelScope() as receiving:
                if not is_over:
                    return await receive()
            return {"type": "http.disconnect"}  # as if the client had hung up

        await self._app(scope, receive_until_over, to_who_is_let_in)

    async def _is_let_in(self, scope: Scope) -> bool:
        if (auth := self._server.auth) is None or not isinstance(scope.get("user"), AuthenticatedUser):
            return True
        try:
            return await BearerAuthBackend(auth).authenticate(HTTPConnection(scope)) is not None
        except Exception:
            logger.warning("no telling whether a listener's token is still taken: their stream ends", exc_info=True)
            return False


class WholeResponses:
    """ASGI middleware: ends a response whose stream was cut when the server began to stop.

    The SDK leaves such a stream open, and FastMCP begins a second response on that of `/sse`: the web server answers
    either with an error in its log, and leaves the client with half a response.
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


# -- refused requests: clients of MCP show an error of the protocol, and ignore any other body -------------------------


class RefusedRequests:
    """ASGI middleware: a JSON-RPC request that is refused over HTTP is answered by a JSON-RPC error with its id.

    The message has all that the body would have said, which is the error's data. Each refusal is an event, and logged.

    Args:
        app: the application, which refuses a request by a JSON body with an `error`, or by a 503 in plain text.
        notify: called with an event for each refusal.
    """

    def __init__(self, app: ASGIApp, notify: Callable[[Event], None]) -> None:
        self.app, self._notify = app, notify
        self._logged: set[str] = set()
        self._since_s = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        received, answer, starts = list[Message](), bytearray(), list[Message]()
        head, is_read = b"", scope["method"] != "POST"
        while not is_read:
            received.append(await receive())
            head += received[-1].get("body", b"")
            is_read = len(head) >= _N_READ or not received[-1].get("more_body", False)

        async def receiving() -> Message:
            return received.pop(0) if received else await receive()

        async def telling(message: Message) -> None:
            nonlocal head
            if message["type"] == "http.response.start" and _is_refusal(message):
                starts.append(message)
            elif not starts:
                head = b""  # it is served, maybe for long
                await send(message)
            else:
                answer.extend(message.get("body", b""))
            if starts and message["type"] == "http.response.body" and not message.get("more_body", False):
                body = self._body(starts[0]["status"], bytes(answer), head[:_N_READ])
                headers = MutableHeaders(scope=starts[0])
                headers["content-length"] = str(len(body))
                headers["content-type"] = headers["content-type"] if body == answer else "application/json"
                await send(starts[0])
                await send({"type": "http.response.body", "body": body})

        await self.app(scope, receiving, telling)

    def _body(self, status: int, answer: bytes, head: bytes) -> bytes:
        """Return the body of a refusal, for a request whose body begins with `head`."""
        refusal = _object(answer) or {"error": answer.decode(errors="replace").strip()}
        if "jsonrpc" in refusal or "error" not in refusal:
            return answer
        error = refusal["error"] if isinstance(refusal["error"], dict) else refusal
        is_ours = error.keys() == {"what", "value", "source", "hint"}
        text = str(InputError(**error) if is_ours else error.get("error_description", error.get("error")))
        self._note(status, text)
        if b'"jsonrpc"' not in head:
            return answer
        code = mcp_types.INVALID_PARAMS if status in (400, 404) else mcp_types.INVALID_REQUEST
        code = error.get("code", code if status < 500 else mcp_types.INTERNAL_ERROR)
        id_ = _object(head).get("id")
        answered = {"jsonrpc": "2.0", "id": id_ if type(id_) in (int, str) else None}
        return json.dumps({**answered, "error": {"code": code, "message": text, "data": error}}).encode()

    def _note(self, status: int, text: str) -> None:
        self._notify(RequestRefused(status))
        if (now_s := time.monotonic()) - self._since_s > _MINUTE_S:
            self._since_s = now_s
            self._logged.clear()
        if text not in self._logged and len(self._logged) < _N_LOGGED:
            self._logged.add(text)
            logger.log(logging.INFO if status == 401 else logging.WARNING, "%s", text)


def _is_refusal(start: Message) -> bool:
    kinds = ("application/json", "text/plain") if start["status"] == 503 else ("application/json",)
    return start["status"] >= 400 and Headers(raw=start["headers"]).get("content-type", "").startswith(kinds)


def _object(text: bytes) -> dict[str, Any]:
    """Parse a JSON object; return an empty one where it can't be read, or is none."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}
