"""Who calls; and sessions of the handshake era: what features keep of each, and how its client is told of changes.

What is kept is one plain value a feature, changed by pure steps: a step is applied to what there is at that moment, and
again where another request of the session was faster.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from secrets import token_hex
from typing import Any, TypeVar

import mcp_types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.auth.provider import AccessToken
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request as HttpRequest
from starlette.types import Scope

from agent_utilities.compat.sdk_server import connection_of
from agent_utilities.server.surface.surface import Verdict

logger = logging.getLogger("agent_utilities.wire")

NOTICE_S = 10.0
"""Seconds that a client may take to read a notice."""
_HEADER = "mcp-session-id"
_STATE = "agent-utilities/session"
"""Where a connection's state has its session."""
PLACE = "agent_utilities.place"
"""Where the state of a request that opens a session has the session's place, an `ExitStack`."""
_KEPT = {
    "": ("protocolVersion", "_meta"),
    "clientInfo": ("name", "title", "version", "description", "websiteUrl", "icons"),
    "capabilities": ("experimental", "extensions", "sampling", "elicitation", "roots", "tasks"),
}
"""What the SDK keeps of a handshake."""
_LONGEST_KEPT = 1024
"""Characters of each as JSON."""

_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request over HTTP, as their verified token says it: nothing else says so (law L3).

    Args:
        issuer: who vouches for them; empty where nobody does.
        subject: who they are there; empty where the token is nobody's in particular.
        client: the client that the token was issued to; empty where it names none.
        claims: the token's, under the names of JWT.
        token: the token itself, to be compared and never told.
    """

    issuer: str = ""
    subject: str = ""
    client: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict, compare=False)
    token: str = field(default="", repr=False)

    @property
    def person(self) -> tuple[str, str]:
        """What quotas, logins and the record go by: one issuer's subject is not another's."""
        return self.issuer, self.subject


NOBODY = Caller()
"""Who sends a request over HTTP without a token."""


def caller_of(request: object) -> Caller | None:
    """Return who sent an HTTP request; None where there was none, as over stdio: whoever runs the process calls."""
    if not isinstance(request, HttpRequest):
        return None
    user = request.scope.get("user")
    return of_token(user.access_token) if isinstance(user, AuthenticatedUser) else NOBODY


def address_of(scope: Scope) -> str:
    """Return where a request came from, as its sender is known by: of IPv6 the `/64`, all of which one has."""
    address = (scope.get("client") or ("",))[0]
    try:
        parsed = ip_address(address)
    except ValueError:
        return str(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return str(mapped or ip_network((parsed, min(parsed.max_prefixlen, 64)), strict=False).network_address)


def of_token(token: AccessToken) -> Caller:
    """Return who a verified token says that they are."""
    claims = dict(getattr(token, "claims", None) or {})
    client = getattr(token, "original_client_id", None) or token.client_id
    claims.setdefault("sub", token.subject)
    named = claims.get("client_id") or claims.get("azp")
    if not isinstance(named, str) and (named or client in (claims["sub"], "unknown")):
        client = ""  # verifiers put the subject or `unknown` in its place, where the token names no client
    if "scope" not in claims and "scp" not in claims and token.scopes:
        claims["scope"] = token.scopes
    # What is no text names nobody: as text it could be somebody else's name.
    issuer, subject = (claims[name] if isinstance(claims.get(name), str) else "" for name in ("iss", "sub"))
    return Caller(issuer, subject, str(client), claims, token.token)


Step = tuple[str, Any, Callable[[Any], Any]]
"""By which a feature changes what it keeps: the feature's name, where it begins, and a pure step."""


class Share:
    """Has the sessions of a server be the same on each of its replicas; each method is a feature's to fill."""

    here: Mapping[str, Any] = {}
    """The SDK's transports of the sessions that this replica has open, by the ids that clients know them by."""

    def name_of(self, protocol_id: str) -> str:
        """Return the name of a session, by the id that its client knows it by."""
        raise NotImplementedError

    async def fetch(self, session: Session) -> None:
        """Bring in what other replicas have made of a session; never fails, and never waits for long."""

    async def put(self, session: Session, about: SessionRecord) -> None:
        """Hand on what a request has made of a session; likewise."""

    async def record_of(self, protocol_id: str, *, is_known: bool) -> SessionRecord | None:
        """Return by what a session is opened that is unknown here; None where that is unknown, or it is known here.

        Raises:
            OSError: what knows it gave no answer, and it is unknown here.
        """
        return None

    async def forget(self, protocol_id: str) -> None:
        """Have a session that its client has ended be over at every replica."""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """By what a replica opens a session that another one opened.

    Args:
        owner: the credentials that it was opened with.
        version: of the protocol.
        params: of the handshake, as the client sent them.
    """

    owner: tuple[object, ...]
    version: str
    params: Mapping[str, Any]


ENDED = SessionRecord((), "", {})
"""Of a session that its client has ended."""


class Session:
    """One session, by a name that tells nothing of the protocol's own id: drawn at random, or what replicas give."""

    def __init__(self, session_id: str = "") -> None:
        self.id = session_id or token_hex(8)
        self.steps: list[Step] | None = None
        """What was changed since its values were last shared with replicas; None where nobody shares them."""
        self.is_over = False
        """Whether its connection has ended, so that nothing is started for it any more."""
        self.values: Mapping[str, Any] = {}
        """All that is kept of it, by feature; replaced whole."""

    def get(self, feature: str, default: _V) -> _V:
        """Return what a feature keeps of the session; the default where it keeps nothing yet."""
        value: _V = self.values.get(feature, default)
        return value

    def update(self, feature: str, default: _V, step: Callable[[_V], _V]) -> _V:
        """Apply a pure step to what a feature keeps, and return what it keeps from now on.

        Args:
            default: what the step is applied to where nothing is kept yet.
            step: returns the next value; it may be called again on a newer one.
        """
        while True:
            values = self.values
            before: _V = values.get(feature, default)
            after = step(before)
            if after is before:
                return after
            if self.values is values:
                self.values = {**values, feature: after}
                if self.steps is not None:
                    self.steps.append((feature, default, step))
                return after

    def renew(self, values: Mapping[str, Any]) -> None:
        """Take the values of another replica, and apply to them what was changed here since they were shared."""
        self.values = values
        steps, self.steps = self.steps or [], []
        for step in steps:
            self.update(*step)
        self.steps = steps

    def as_it_stands(self) -> Session:
        """Return a session with the same values, that changes nothing of this one: for reports."""
        other = Session()
        other.values, other.is_over = self.values, True
        return other


class Client:
    """The client of one request, on a connection that it can be told of changes on.

    Args:
        ctx: the request's.
        tell_tools: tells the connection's client that its list of tools changed, beside any request.
        heard: takes note of what holds for the client from now on.
    """

    def __init__(
        self,
        ctx: ServerRequestContext[Any, Any],
        tell_tools: Callable[[Connection], None],
        heard: Callable[[Connection, Verdict, None], None],
    ) -> None:
        self._ctx, self._tell_tools, self._heard = ctx, tell_tools, heard

    def note(self, verdict: Verdict) -> None:
        """Take note of what holds for it from now on, so that it is told of changes to what it is listed."""
        self._heard(connection_of(self._ctx.session), verdict, None)

    async def tell_changed(self) -> None:
        """Tell that the list of tools changed, on the call's own stream where it has one: before the call's result."""
        has_stream = self._ctx.session.can_send_request  # an answer in JSON holds nothing but the answer
        related = self._ctx.request_id if has_stream else None
        try:
            async with asyncio.timeout(NOTICE_S):
                await self._ctx.session.send_notification(mcp_types.ToolListChangedNotification(), related)
        except TimeoutError:
            logger.warning("a client read no notice for %s s; its list changed all the same", NOTICE_S)

    def tell_later(self) -> None:
        """Have it told that the list of tools changed, beside any request."""
        self._tell_tools(connection_of(self._ctx.session))


class Sessions:
    """The sessions of one server, until their connections end."""

    def __init__(self, on_end: Callable[[str], None]) -> None:
        self._on_end = on_end
        self._by_header: dict[str, tuple[Session, tuple[object, ...], Caller | None]] = {}
        self.held: Counter[str] = Counter()
        """How many places for sessions and streams each caller holds."""
        self.share: Share | None = None
        """What replicas share them by; None where each process has its own."""

    def of(self, ctx: ServerRequestContext[Any, Any]) -> Session | None:
        """Return the session of a request; None in 2026-07-28 or without sessions: no request knows of another."""
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
                # The SDK sees to it that no one else asks by it.
                self._by_header[key] = session, _owner(ctx.request), caller_of(ctx.request)
                connection.exit_stack.callback(self._by_header.pop, key, None)
        return session

    async def begun(self, ctx: ServerRequestContext[Any, Any]) -> Session | None:
        """Return the session of a request as it stands on all replicas; see `of`."""
        session = self.of(ctx)
        if session is not None and session.steps is not None and self.share is not None and ctx.method != "initialize":
            await self.share.fetch(session)
        return session

    async def ended(self, session: Session | None, ctx: ServerRequestContext[Any, Any], result: object) -> None:
        """Hand on what a request has made of its session: before its client is told, whose next one may go elsewhere.

        Args:
            session: whose request it was.
            ctx: what the SDK knows of the request.
            result: what it is answered with; None where it failed.
        """
        if session is None or session.steps is None or self.share is None or not isinstance(ctx.request, HttpRequest):
            return
        params, version = ctx.session.client_params, ctx.protocol_version
        if params is None and ctx.method == "initialize" and isinstance(result, dict):  # the SDK keeps both later
            params = mcp_types.InitializeRequestParams.model_validate(ctx.params, by_name=False)
            version = result["protocolVersion"]
        if params is not None:
            told = params.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta"})
            await self.share.put(session, SessionRecord(_owner(ctx.request), version, told))

    def named_by(self, request: HttpRequest, *, of_anyone: bool = False) -> Session | None:
        """Return the live session that another request names, one's own or `of_anyone`; None where there is none."""
        session, owner, _ = self._by_header.get(request.headers.get(_HEADER, ""), (None, (), None))
        return session if of_anyone or owner == _owner(request) else None

    def live(self) -> list[tuple[Session, Caller | None]]:
        """Return the sessions over HTTP that have not ended, each with who began it."""
        return [(session, caller) for session, _, caller in self._by_header.values()]

    def _end(self, session: Session) -> None:
        session.is_over = True
        self._on_end(session.id)


def shorten(params: Mapping[str, Any] | None) -> list[str]:
    """Cut from a handshake, in place, what is too long to be kept as long as its session; return what was cut.

    The SDK keeps the rest in memory, and replicas in Redis; whatever else a client sends with it neither keeps.
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
