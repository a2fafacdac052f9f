"""The views of the sessions that are live over HTTP, by session id: each for the one whose session it is."""

from __future__ import annotations

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.connection import Connection
from starlette.requests import Request

from agent_utilities.mcp.search_session import SessionView

_HEADER = "mcp-session-id"
_Key = tuple[str, tuple[object, ...]]
"""A session's id, and whose it is, as the SDK tells whose a session is."""


class LiveSessions:
    """Finds a session by what another request of its caller bears, until its connection ends."""

    def __init__(self) -> None:
        self._sessions: dict[_Key, SessionView] = {}

    def note(self, connection: Connection, request: object, session: SessionView) -> None:
        """Remember the session of a request.

        Args:
            connection: the request's, which bears an id where others can be of the same session.
            request: as it came; the SDK has seen to it that its caller is the one who began the session.
            session: what is active in it, and which capabilities are on.
        """
        if connection.session_id is None or not isinstance(request, Request):
            return
        key = connection.session_id, _owner(request)
        if key not in self._sessions:
            self._sessions[key] = session
            connection.exit_stack.callback(self._sessions.pop, key, None)

    def of(self, request: Request) -> SessionView | None:
        """Return the session that a request names; None where there is none, or it is another caller's."""
        session_id = request.headers.get(_HEADER)
        return None if session_id is None else self._sessions.get((session_id, _owner(request)))


def _owner(request: Request) -> tuple[object, ...]:
    user = request.scope.get("user")
    return tuple(authorization_context(user).values()) if isinstance(user, AuthenticatedUser) else ()
