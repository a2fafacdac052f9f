"""Reading the caller's selection: once for each HTTP request, at the edge, before anything else runs.

A path that names nothing that its caller may learn of is refused here too.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes, urlencode

import fastmcp
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.authentication import has_required_scope
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_utilities.catalog.model import KINDS, entry
from agent_utilities.errors import SelectionError
from agent_utilities.seam.caller import caller_of
from agent_utilities.seam.verdict import Verdict
from agent_utilities.selection.caller import BEGINNINGS, SOURCE, PathError, PathSelection, parse_path, read_path
from agent_utilities.selection.channels import field_of
from agent_utilities.selection.merge import merge
from agent_utilities.selection.model import NameSet, Selection
from agent_utilities.selection.parse import query_pairs, utf8_text
from agent_utilities.server.callers import _CUT, PLACE, STATE, _header
from agent_utilities.server.wire.session_limits import place_for
from agent_utilities.server.wire.summary import unknown_names

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer


_ENDPOINT = re.compile(rb"(event: endpoint\r?\ndata: [^\r\n]+)")


def _segments(scope: Scope, before: str, rest: str) -> list[str]:
    """Return the segments after an endpoint; from the bytes that were sent, where an encoded slash is no separator."""
    sent = scope.get("raw_path")
    n_before = before.count("/")
    if sent is not None:
        segments = sent.split(b"?")[0].split(b"/")
        if [unquote_to_bytes(segment) for segment in segments[: n_before + 1]] == before.encode().split(b"/"):
            return [utf8_text(unquote_to_bytes(segment), SOURCE) for segment in segments[n_before + 1 :]]
    return rest.split("/")[1:]


class SelectionMiddleware:
    """ASGI middleware: parses the selection into `scope["state"]`, or answers 400 (law L5).

    The headers it reads go no further: a proxied upstream bears other names, and the verdict is this server's.
    A selection in the path is taken off it, and one that names nothing known is answered with 404.
    On `GET /sse` it carries the selection in the endpoint event's URL, so that it holds for the connection.

    Args:
        app: the application to protect; requests for paths that bear no selection (OAuth, health) pass untouched.
        host: the server that it is of.
        sse_path, mcp_path: the paths of the legacy SSE stream and of streamable HTTP.
        has_sessions: whether the latter has any.
        endpoint: the path of the one route that it is around, wherever that is served; None for an application.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: AgentServer,
        sse_path: str,
        mcp_path: str,
        has_sessions: bool = True,
        endpoint: str | None = None,
    ) -> None:
        self._app, self._host, self._has_sessions, self._endpoint = app, host, has_sessions, endpoint
        self.read = host.callers.read
        self._sse_path, self._mcp_path = sse_path.rstrip("/"), mcp_path.rstrip("/")
        scoped = (sse_path, mcp_path, "/tools", "/context")  # a selection may follow in the path: `/mcp/x/git`
        self._own_path = {path.rstrip("/"): path for path in (fastmcp.settings.message_path, *scoped)}
        self._scoped = sorted({path.rstrip("/") for path in scoped}, key=len, reverse=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        try:
            endpoint, segments = self._found(scope)
            path = parse_path(segments) if segments else ()
            if endpoint is None or path is None:
                return await self._app(scope, receive, send)
            selection = self.read(scope, path)
            if path:
                await check_path(self._host, path, scope)
                routed = scope.get("root_path", "") + self._own_path[endpoint]
                scope = {**scope, "path": routed, "raw_path": quote(routed).encode()}
        except SelectionError as error:
            status = 404 if isinstance(error, PathError) else 400
            return await JSONResponse({"error": error.as_dict()}, status_code=status)(scope, receive, send)
        scope.setdefault("state", {})[STATE] = selection
        # Without the space around them that is none of a value's (RFC 9110): httptools leaves what follows one.
        scope["headers"] = [(key, value.strip(b" \t")) for key, value in scope["headers"] if not _header(key[:_CUT])[1]]
        is_sse = endpoint == self._sse_path and scope["method"] == "GET"
        if is_sse and selection:
            send = _carrying(scope["query_string"], path, send)
        place = ExitStack()
        if is_sse or (endpoint == self._mcp_path and self._opens(Request(scope))):
            if isinstance(taken := place_for(self._host, scope), Response):
                return await taken(scope, receive, send)
            scope["state"][PLACE] = place = taken
        with place:  # which a session that begins here takes on: see `Sessions.of`
            await self._app(scope, receive, send)

    def _opens(self, request: Request) -> bool:
        """Whether a request to streamable HTTP opens a session, where that has any, or a stream."""
        if request.headers.get(MCP_PROTOCOL_VERSION_HEADER) in (None, *HANDSHAKE_PROTOCOL_VERSIONS):
            return self._has_sessions and request.method == "POST" and MCP_SESSION_ID_HEADER not in request.headers
        return request.headers.get(MCP_METHOD_HEADER) == "subscriptions/listen"

    def _found(self, scope: Scope) -> tuple[str | None, list[str]]:
        """Return the endpoint of a request, without a slash at its end, and the segments after it, percent-decoded.

        Raises:
            SelectionError: a segment after it is not UTF-8.
        """
        root = scope.get("root_path", "")
        path = scope["path"].removeprefix(root) if self._endpoint is None else self._endpoint
        if (stripped := path.rstrip("/")) in self._own_path:
            return stripped, []
        for endpoint in self._scoped:
            rest = path.removeprefix(endpoint)
            if path.startswith(endpoint) and rest.startswith(BEGINNINGS):
                return endpoint, _segments(scope, root + endpoint, rest)
        return None, []


def _carrying(query_string: bytes, path: PathSelection, send: Send) -> Send:
    """Return a `send` that adds the selection in a URL to that of the endpoint event."""
    in_query = [(key, value) for key, value in query_pairs(query_string) if field_of(key, "query") is not None]
    carried = urlencode([*path, *in_query])
    done = not carried

    async def wrapped(message: Message) -> None:
        nonlocal done
        if not done and message["type"] == "http.response.body":
            body, n_found = _ENDPOINT.subn(rb"\1&" + carried.encode("ascii"), message.get("body", b""), count=1)
            if n_found:
                done = True
                message = {**message, "body": body}
        await send(message)

    return wrapped


# -- paths that name nothing known ---------------------------------------------------------------------------------


async def check_path(host: AgentServer, path: PathSelection, scope: Scope) -> None:
    """Refuse a path that names nothing known: what the operator denies reads like what never was (law L1).

    A caller who may not be served at all learns neither; the endpoint's own auth answers them.

    Raises:
        PathError: its toolsets name nothing that this caller may learn of.
        SelectionError: they can't be read.
    """
    names = tuple(pair for pair in path if pair[0] == "toolsets")
    if not names or not _is_admitted(host, scope):
        return
    selection = read_path(names)
    if (grant := host.callers.grant_of(caller_of(Request(scope)))) is not None:
        selection = merge(selection, grant.bounds)
    surface, verdict = host.surface, host.surface.verdict(selection, shapes_lists=False)
    if _names_certain(selection.asked) or await _names_any(host, verdict):
        return
    decision = await surface.decide_in_turns("tool", await host.catalog("tool"), verdict)
    with surface.under_verdict(verdict):  # what a rule denies this caller counts as little as what nobody may
        unknown = await unknown_names(host, decision, "tool")
    near = [name for name in unknown.values() if name is not None]
    hint = f"did you mean {near[0]!r}?" if near else "leave /x/… out to see what there is"
    raise PathError("the path names nothing that is known", names[0][1], SOURCE, hint)


async def _names_any(host: AgentServer, verdict: Verdict) -> bool:
    """Whether a component of any kind is permitted under the operator's selection and the names of a path."""
    for kind in KINDS:
        with host.surface.under_verdict(verdict):
            catalog = await host.catalog(kind)
        if (await host.surface.decide_in_turns(kind, catalog, verdict)).permitted:
            return True
    to_come = (entry("tool", "", tags=[name], read_only=True) for name in host.pending.toolsets_to_come())
    return any(verdict.bounds.refusal(toolset) is None for toolset in to_come)


def _is_admitted(host: AgentServer, scope: Scope) -> bool:
    if (auth := host.auth) is None:
        return True
    is_known = isinstance(scope.get("user"), AuthenticatedUser)
    return is_known and has_required_scope(Request(scope), auth.required_scopes or ())


def _names_certain(selection: Selection) -> bool:
    """Whether the names are `all` or `none`, which every server knows."""
    values = [setting.value for _, setting in selection.slots]
    return all(isinstance(value, NameSet) and (value.everything or not value.toolsets) for value in values)


# -- room for sessions and streams ---------------------------------------------------------------------------------
