"""What a feature shows over HTTP: panels of the page, with their tables and actions, and routes behind the login."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastmcp.server.auth import AuthProvider
from fastmcp.server.auth.middleware import RequireAuthMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, request_response

from agent_utilities.errors import AgentUtilitiesError
from agent_utilities.seam.caller import Caller
from agent_utilities.seam.host import Host, find


class PageError(AgentUtilitiesError, ValueError):
    """Something on the page can't be shown or done; the message tells its reader why."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of the page.

    Args:
        caller: the caller that their requests are judged as.
        operates: whether they may act as the operator, and see what is denied to others: by the page's link on a
            loopback address, or by the right `page.operate`.
    """

    caller: Caller
    operates: bool

    @property
    def name(self) -> str:
        """Their name in the record: the subject and its issuer, or whoever has the link."""
        return f"{self.caller.subject} ({self.caller.issuer})" if self.caller.subject else "whoever has the page's link"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of plain values, also served as CSV and JSON."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


Form = Mapping[str, str]
Look = Callable[[Host, Reader, HttpRequest], Awaitable[dict[str, Any]]]
"""Returns the data of a panel's template, with its `Table`s by name as `tables`; nothing its reader may not know."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something that an operator can do on a panel, after confirming it.

    Args:
        ask: returns the question to confirm.
        do: does it, and returns what was done.
    """

    ask: Callable[[Host, Form], str]
    do: Callable[[Host, Reader, Form], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel of the page; a feature offers its own by this type, and the page shows their tables.

    Args:
        name: in the URL.
        title: in the navigation.
        look: what it shows.
        actions: by name; for operators alone.
        is_there: whether a server has anything to show on it.
    """

    name: str
    title: str
    look: Look
    actions: Mapping[str, Action] = field(default_factory=dict)
    is_there: Callable[[Host], bool] = lambda host: True


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
