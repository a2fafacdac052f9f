"""The callers of a server: what each selects and is granted, and the sessions of the handshake era."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import mcp_types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.requests import Request as HttpRequest
from starlette.types import Scope

from agent_utilities.compat.sdk_server import connection_of
from agent_utilities.runtime.caches import LONGEST_KEPT, BoundedCache
from agent_utilities.seam.caller import Caller, caller_of
from agent_utilities.seam.events import Event, SessionEnded
from agent_utilities.seam.request import sender_of
from agent_utilities.seam.session import Session, SessionRecord, Share
from agent_utilities.selection.caller import PathSelection, read_path
from agent_utilities.selection.channels import LONGEST_KEY, field_of, is_selection_header
from agent_utilities.selection.merge import merge
from agent_utilities.selection.model import NOTHING, Selection
from agent_utilities.selection.parse import read_request

if TYPE_CHECKING:
    from agent_utilities.seam.caller import Grant
    from agent_utilities.server.agent_server import AgentServer

STATE = "agent_utilities.selection"
"""The key of `scope["state"]` that holds the caller's `Selection`."""
_CUT = LONGEST_KEY + 1
"""As much of a header's name as identifies it."""
_Key = tuple[bytes, tuple[tuple[bytes, bytes], ...], PathSelection]
"""A request's query string, the headers that may be a selection's, and the selection in its path."""


class Callers:
    """Reads what callers of a server select, and looks up what its operator grants them."""

    def __init__(self, host: AgentServer) -> None:
        self._host = host

    @cached_property
    def read_before(self) -> BoundedCache[_Key, Selection]:
        """The selections of recent requests, for all routes and applications of the server."""
        return BoundedCache(self._host.surface.cache_bytes("requests"), _weigh, heaviest=LONGEST_KEPT)

    def selection_of(self, request: object, meta: Selection = NOTHING) -> Selection:
        """Return the selection of a request, merged with its caller's grant: all that the request is judged by.

        Raises:
            SelectionError: it can't be read, or names an unknown profile.
            BoundError: a feature could not determine the caller's grant.
        """
        selection = meta
        if isinstance(request, Request):  # read here where no middleware of ours has
            held = request.scope.get("state", {}).get(STATE)
            selection = merge(held if isinstance(held, Selection) else self.read(request.scope), meta)
        self._host.surface.operator.check(selection)
        grant = self.grant_of(sender_of(request))
        return selection if grant is None else merge(selection, grant.bounds)

    def read(self, scope: Scope, path: PathSelection = ()) -> Selection:
        """Return the selection of a request; cached by its bytes, since an agent sends the same ones again and again.

        Raises:
            SelectionError: the selection is malformed, or names what is not there, such as a profile.
        """
        query_string, headers, _ = key = _key(scope, path)
        selection = self.read_before.get(key)
        if selection is None:
            selection = merge(read_path(path), read_request(query_string, headers))
            self._host.surface.operator.check(selection)
            self.read_before.keep(key, selection)
        return selection

    def grant_of(self, caller: Caller | None) -> Grant | None:
        return None if caller is None else self._host.features.grant(caller)

    def may(self, request: object, right: str, *, otherwise: bool = True) -> bool:
        """Whether the sender of a request has a right; `otherwise` where no feature says anything of callers.

        Raises:
            BoundError: a feature could not determine the caller's grant.
        """
        grant = self.grant_of(caller_of(request))
        return otherwise if grant is None else right in grant.may


def _weigh(key: _Key, selection: Selection) -> int:
    """Return the approximate bytes of a request's query string and headers, and of the selection in them."""
    query_string, headers, path = key
    n_bytes = 500 + len(query_string) + sum(len(text) for _, text in path)
    return n_bytes + sum(150 + len(name) + len(value) for name, value in headers) + selection.n_bytes


def _key(scope: Scope, path: PathSelection) -> _Key:
    headers = tuple((key.lower(), value) for key, value in scope["headers"] if _header(key[:_CUT])[0])
    return scope.get("query_string", b""), headers, path


@lru_cache(maxsize=1024)  # a client's requests bear the same headers
def _header(name: bytes) -> tuple[bool, bool]:
    """Return whether a header is read as a selection, if only to be refused, and whether it is one and is removed."""
    text = name.decode("latin-1")
    return is_selection_header(text), field_of(text, "header") is not None


logger = logging.getLogger("agent_utilities.wire")

_HEADER = "mcp-session-id"
_STATE = "agent-utilities/session"
"""The key of the session in its connection's state."""
PLACE = "agent_utilities.place"
"""The key of the session's place, an `ExitStack`, in the state of the request that opens it."""
_KEPT = {
    "": ("protocolVersion", "_meta"),
    "clientInfo": ("name", "title", "version", "description", "websiteUrl", "icons"),
    "capabilities": ("experimental", "extensions", "sampling", "elicitation", "roots", "tasks"),
}
"""The parts of a handshake that the SDK keeps."""
_LONGEST_KEPT = 1024
"""The most characters of each part, as JSON."""


class Sessions:
    """The sessions of one server, until their connections end."""

    def __init__(self, notify: Callable[[Event], None]) -> None:
        self._notify = notify
        self._by_header: dict[str, tuple[Session, tuple[object, ...], Caller | None]] = {}
        self.held: Counter[str] = Counter()
        """The number of sessions and streams that each caller has open."""
        self.share: Share | None = None
        """Shares sessions among replicas; None where each process has its own."""

    def of(self, ctx: ServerRequestContext[Any, Any]) -> Session | None:
        """Return the session of a request; None in protocol 2026-07-28, or where the server has no sessions."""
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return None
        connection = connection_of(ctx.session)
        if not connection.has_standalone_channel:  # `stateless_http`: it is there for this request alone
            return None
        state = ctx.request.scope.get("state", {}) if isinstance(ctx.request, HttpRequest) else {}
        if (place := state.pop(PLACE, None)) is not None:
            connection.exit_stack.enter_context(place.pop_all())
        session: Session | None = connection.state.get(_STATE)
        if session is None:
            made = Session()
            if self.share is not None and connection.session_id is not None:
                made = Session(self.share.name_of(connection.session_id))
                made.steps = []
            session = connection.state.setdefault(_STATE, made)
            connection.exit_stack.callback(self._end, session)
        if connection.session_id is not None and isinstance(ctx.request, HttpRequest):
            if (key := connection.session_id) not in self._by_header:
                # The SDK ensures that nobody else uses this id.
                self._by_header[key] = session, _owner(ctx.request), caller_of(ctx.request)
                connection.exit_stack.callback(self._by_header.pop, key, None)
        return session

    async def begun(self, ctx: ServerRequestContext[Any, Any]) -> Session | None:
        """Return the session of a request, with the changes of all replicas; see `of`."""
        session = self.of(ctx)
        if session is not None and session.steps is not None and self.share is not None and ctx.method != "initialize":
            await self.share.fetch(session)
        return session

    async def ended(self, session: Session | None, ctx: ServerRequestContext[Any, Any], result: object) -> None:
        """Publish a request's changes to its session before it is answered: the next request may reach another replica.

        Args:
            session: the session of the request.
            ctx: the SDK's context of the request.
            result: the result of the request; None where it failed.
        """
        if session is None or session.steps is None or self.share is None or not isinstance(ctx.request, HttpRequest):
            return
        params, version = ctx.session.client_params, ctx.protocol_version
        if params is None and ctx.method == "initialize" and isinstance(result, dict):  # the SDK keeps both later
            params = mcp_types.InitializeRequestParams.model_validate(ctx.params, by_name=False)
            version = result["protocolVersion"]
        if params is not None:
            handshake = params.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta"})
            await self.share.put(session, SessionRecord(_owner(ctx.request), version, handshake))

    def live(self, named_by: object = None, *, of_anyone: bool = False) -> list[tuple[Session, Caller | None]]:
        if not isinstance(named_by, HttpRequest):
            return [(session, caller) for session, _, caller in self._by_header.values()]
        named = self._by_header.get(named_by.headers.get(_HEADER, ""))
        return [(named[0], named[2])] if named and (of_anyone or named[1] == _owner(named_by)) else []

    def _end(self, session: Session) -> None:
        session.is_over = True
        self._notify(SessionEnded(session.id))


def shorten(params: Mapping[str, Any] | None) -> list[str]:
    """Remove the parts of a handshake that are too long to keep with its session, in place; return their names.

    The SDK keeps the others in memory, and replicas keep them in Redis; neither keeps anything else of a handshake.
    """
    cut = []
    for part, names in _KEPT.items():
        within: Any = (params or {}).get(part) if part else params
        for name in names if isinstance(within, dict) else ():
            if len(json.dumps(value := within.get(name))) > _LONGEST_KEPT:
                within[name] = value[: _LONGEST_KEPT // 4] if isinstance(value, str) else None
                cut.append(f"{part}.{name}".lstrip("."))
    return cut


def _owner(request: HttpRequest) -> tuple[object, ...]:
    user = request.scope.get("user")
    return tuple(authorization_context(user).values()) if isinstance(user, AuthenticatedUser) else ()
