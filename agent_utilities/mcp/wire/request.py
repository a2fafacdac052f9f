"""Reading the caller's selection: once for each HTTP request, at the edge, before anything else runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_utilities.errors import SelectionError
from agent_utilities.runtime.bounded_cache import BoundedCache
from agent_utilities.runtime.cache_budget import LONGEST_KEPT
from agent_utilities.selection.channels import field_of, is_selection_header
from agent_utilities.selection.model import NOTHING, Selection
from agent_utilities.selection.parse import read_request

STATE = "agent_utilities.selection"
"""The key of `scope["state"]` that holds the caller's `Selection`."""

_Given = tuple[bytes, tuple[tuple[bytes, bytes], ...]]
"""A request's query string, and its headers that may be a selection's."""

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
    return held if isinstance(held, Selection) else read_request(*_given(request.scope))


class RequestReader:
    """Reads the selections of HTTP requests, and remembers the short ones: an agent sends the same again and again.

    Args:
        max_bytes: returns what those may take together; asked at the first request.
    """

    def __init__(self, max_bytes: Callable[[], int]) -> None:
        self._max_bytes = max_bytes

    @cached_property
    def _read_before(self) -> BoundedCache[_Given, Selection]:
        return BoundedCache(self._max_bytes(), _weigh, heaviest=LONGEST_KEPT)

    def read(self, scope: Scope) -> Selection:
        """Return the selection of a request; for the same bytes the same object.

        Raises:
            SelectionError: the selection is malformed.
        """
        given = _given(scope)
        selection = self._read_before.get(given)
        if selection is None:
            selection = read_request(*given)
            self._read_before.keep(given, selection)
        return selection


def _weigh(given: _Given, selection: Selection) -> int:
    """Return about how many bytes a request's query string and headers take, and what was read in them."""
    query_string, headers = given
    return 500 + len(query_string) + sum(150 + len(key) + len(value) for key, value in headers) + selection.n_bytes


def _given(scope: Scope) -> _Given:
    headers = tuple(
        (key.lower(), value) for key, value in scope["headers"] if is_selection_header(key.decode("latin-1"))
    )
    return scope.get("query_string", b""), headers


class SelectionMiddleware:
    """ASGI middleware: parses the selection into `scope["state"]`, or answers 400 (law L5).

    The headers it reads go no further: a proxied upstream bears other names, and the verdict is this server's.
    On `GET /sse` it carries the selection in the endpoint event's URL, so that it holds for the connection.

    Args:
        app: the application to protect.
        paths: the paths whose requests are selections; others (OAuth, health) pass untouched.
        sse_path: the path of the legacy SSE stream.
        reader: reads the selections.
    """

    def __init__(self, app: ASGIApp, paths: Collection[str], sse_path: str, reader: RequestReader) -> None:
        self._app = app
        self._reader = reader
        self._paths = frozenset(path.rstrip("/") for path in paths)
        self._sse_path = sse_path.rstrip("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        path = scope["path"].removeprefix(scope.get("root_path", "")).rstrip("/")
        if path not in self._paths:
            return await self._app(scope, receive, send)
        try:
            selection = self._reader.read(scope)
        except SelectionError as error:
            return await JSONResponse({"error": error.as_dict()}, status_code=400)(scope, receive, send)
        scope.setdefault("state", {})[STATE] = selection
        scope["headers"] = [(key, value) for key, value in scope["headers"] if not _is_selection(key)]
        if path == self._sse_path and scope["method"] == "GET" and selection:
            send = _carrying(scope["query_string"], send)
        await self._app(scope, receive, send)


def _is_selection(header: bytes) -> bool:
    return field_of(header.decode("latin-1"), "header") is not None


def _carrying(query_string: bytes, send: Send) -> Send:
    """Return a `send` that adds the selection in a query string to the URL of the endpoint event."""
    given = parse_qsl(query_string.decode("utf-8"), keep_blank_values=True)
    carried = urlencode([(key, value) for key, value in given if field_of(key, "query") is not None])
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
