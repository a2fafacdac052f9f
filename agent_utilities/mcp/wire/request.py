"""Reading the caller's selection: once for each HTTP request, at the edge, before anything else runs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_utilities.errors import SelectionError
from agent_utilities.mcp.sessions import Caller, caller_of
from agent_utilities.runtime.caches import LONGEST_KEPT, BoundedCache
from agent_utilities.selection.caller import (
    READ_ONLY,
    SOURCE,
    TOOLSETS,
    PathError,
    PathSelection,
    parse_path,
    read_path,
)
from agent_utilities.selection.channels import LONGEST_KEY, field_of, is_selection_header
from agent_utilities.selection.merge import merge
from agent_utilities.selection.model import NOTHING, Selection
from agent_utilities.selection.parse import read_request, utf8_text

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer
    from agent_utilities.mcp.feature import Grant

STATE = "agent_utilities.selection"
"""The key of `scope["state"]` that holds the caller's `Selection`."""

_CUT = LONGEST_KEY + 1
"""As much of a header's name as tells what it is."""
_Given = tuple[bytes, tuple[tuple[bytes, bytes], ...], PathSelection]
"""A request's query string, its headers that may be a selection's, and what its path asks for."""

_ENDPOINT = re.compile(rb"(event: endpoint\r?\ndata: [^\r\n]+)")


def selection_of(request: Any) -> Selection:
    """Return the caller's selection of an HTTP request; read here where no middleware of ours has.

    Args:
        request: the Starlette request, or None on transports that have none.

    Raises:
        SelectionError: the selection is malformed.
    """
    if not isinstance(request, Request):
        return NOTHING
    held = request.scope.get("state", {}).get(STATE)
    return held if isinstance(held, Selection) else _read(_given(request.scope, ()))


class Callers:
    """Tells what each caller of a server asks for, and what its operator permits them."""

    def __init__(self, host: AgentServer) -> None:
        self._host = host

    def selection_of(self, request: object, meta: Selection = NOTHING) -> Selection:
        """Return what a caller selects, and what the operator permits them: all that a request is judged by.

        Args:
            request: the Starlette request, or None on transports that have none.
            meta: what the MCP request's `_meta` asks for.

        Raises:
            SelectionError: it can't be read, or names a profile that there is not.
            BoundError: a feature could not tell what the caller is permitted.
        """
        asked = merge(selection_of(request), meta)
        self._host.surface.operator.check(asked)
        grant = self.grant_of(caller_of(request))
        return asked if grant is None else merge(asked, grant.bounds)

    def grant_of(self, caller: Caller | None) -> Grant | None:
        """Return what a caller is permitted beside what everybody is; None where nothing is said of callers.

        Raises:
            BoundError: a feature could not tell.
        """
        return None if caller is None else self._host.features.grant(caller)

    def may(self, request: object, right: str, *, otherwise: bool = True) -> bool:
        """Return whether who asks for a route has a right.

        Args:
            otherwise: whether they have it where nothing is said of callers.

        Raises:
            BoundError: a feature could not tell.
        """
        grant = self.grant_of(caller_of(request))
        return otherwise if grant is None else right in grant.may


class RequestReader:
    """Reads the selections of HTTP requests, and remembers the short ones: an agent sends the same again and again.

    Args:
        max_bytes: returns what those may take together; asked at the first request.
        check: raises where a selection names what is not there, such as a profile.
    """

    def __init__(self, max_bytes: Callable[[], int], check: Callable[[Selection], None] = lambda _: None) -> None:
        self._max_bytes, self._check = max_bytes, check

    @cached_property
    def _read_before(self) -> BoundedCache[_Given, Selection]:
        return BoundedCache(self._max_bytes(), _weigh, heaviest=LONGEST_KEPT)

    def read(self, scope: Scope, path: PathSelection = ()) -> Selection:
        """Return the selection of a request; for the same bytes the same object.

        Raises:
            SelectionError: the selection is malformed.
        """
        given = _given(scope, path)
        selection = self._read_before.get(given)
        if selection is None:
            selection = _read(given)
            self._check(selection)
            self._read_before.keep(given, selection)
        return selection


def _weigh(given: _Given, selection: Selection) -> int:
    """Return about how many bytes a request's query string and headers take, and what was read in them."""
    query_string, headers, path = given
    n_bytes = 500 + len(query_string) + sum(len(text) for _, text in path)
    return n_bytes + sum(150 + len(key) + len(value) for key, value in headers) + selection.n_bytes


def _given(scope: Scope, path: PathSelection) -> _Given:
    headers = tuple((key.lower(), value) for key, value in scope["headers"] if _header(key[:_CUT])[0])
    return scope.get("query_string", b""), headers, path


def _read(given: _Given) -> Selection:
    query_string, headers, path = given
    return merge(read_path(path), read_request(query_string, headers))


class Endpoints:
    """The paths whose requests bear selections.

    Args:
        plain: paths that take no selection of their own after them.
        scoped: paths that do, such as `/mcp` in `/mcp/x/git`.
    """

    def __init__(self, plain: Collection[str], scoped: Collection[str]) -> None:
        self._own_path = {path.rstrip("/"): path for path in (*plain, *scoped)}
        self._scoped = sorted({path.rstrip("/") for path in scoped}, key=len, reverse=True)

    def find(self, scope: Scope) -> tuple[str, list[str]] | None:
        """Return the endpoint of a request, without a slash at its end, and the segments after it, percent-decoded.

        None where the request is for none.

        Raises:
            SelectionError: a segment after it is not UTF-8.
        """
        root = scope.get("root_path", "")
        path = scope["path"].removeprefix(root)
        if (stripped := path.rstrip("/")) in self._own_path:
            return stripped, []
        for endpoint in self._scoped:
            rest = path.removeprefix(endpoint)
            if path.startswith(endpoint) and rest.startswith((f"/{TOOLSETS}", f"/{READ_ONLY}")):
                return endpoint, _segments(scope, root + endpoint, rest)
        return None

    def routed(self, scope: Scope, endpoint: str) -> Scope:
        """Return the scope of a request as it is for the endpoint alone."""
        path = scope.get("root_path", "") + self._own_path[endpoint]
        return {**scope, "path": path, "raw_path": quote(path).encode()}


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
        app: the application to protect.
        endpoints: the paths whose requests are selections; others (OAuth, health) pass untouched.
        sse_path: the path of the legacy SSE stream.
        reader: reads the selections.
        check_path: refuses a path that names nothing known.
    """

    def __init__(
        self,
        app: ASGIApp,
        endpoints: Endpoints,
        sse_path: str,
        reader: RequestReader,
        check_path: Callable[[PathSelection, Scope], Awaitable[None]],
    ) -> None:
        self._app = app
        self._reader = reader
        self._endpoints = endpoints
        self._check_path = check_path
        self._sse_path = sse_path.rstrip("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        try:
            found = self._endpoints.find(scope)
            if found is None:
                return await self._app(scope, receive, send)
            path = parse_path(found[1]) if found[1] else ()
            if path is None:
                return await self._app(scope, receive, send)
            selection = self._reader.read(scope, path)
            if path:
                await self._check_path(path, scope)
                scope = self._endpoints.routed(scope, found[0])
        except SelectionError as error:
            status = 404 if isinstance(error, PathError) else 400
            return await JSONResponse({"error": error.as_dict()}, status_code=status)(scope, receive, send)
        scope.setdefault("state", {})[STATE] = selection
        scope["headers"] = [(key, value) for key, value in scope["headers"] if not _header(key[:_CUT])[1]]
        if found[0] == self._sse_path and scope["method"] == "GET" and selection:
            send = _carrying(scope["query_string"], path, send)
        await self._app(scope, receive, send)


@lru_cache(maxsize=1024)  # a client's requests bear the same headers
def _header(name: bytes) -> tuple[bool, bool]:
    """Return whether a header is read as a selection, be it to be refused, and whether it is one, to go no further."""
    text = name.decode("latin-1")
    return is_selection_header(text), field_of(text, "header") is not None


def _carrying(query_string: bytes, path: PathSelection, send: Send) -> Send:
    """Return a `send` that adds the selection in a URL to that of the endpoint event."""
    given = parse_qsl(query_string.decode("utf-8"), keep_blank_values=True)
    in_query = [(key, value) for key, value in given if field_of(key, "query") is not None]
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
