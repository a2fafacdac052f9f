"""Reasons for which tokens are refused, and the middleware that puts them into responses.

FastMCP's verifiers return a token or None, and every None gives the same text. So a verifier notes its reason for the
current request, and the middleware puts it into the 401 that follows, wherever in the app that is made.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_utilities.errors import AgentUtilitiesError
from agent_utilities.seam.caller import address_of

RETRY_S = 10
"""Seconds after which a client may retry, where a token could not be checked."""


@dataclass(frozen=True)
class Reason:
    """Why a request is refused; nothing in it comes from a token.

    Args:
        text: one line, without quotes or backslashes, since it stands in a header.
        error: the code of RFC 6750.
        status: 401 where another token would do, 403 where its person may not, 503 where it could not be checked.
    """

    text: str
    error: str = "invalid_token"
    status: int = 401


NONE_GIVEN = Reason("no token was given; log in, and send it as Authorization: Bearer", "unauthorized")
UNREADABLE = Reason("the token can't be read")
UNSIGNED = Reason("the token is not signed")
WRONG_ALGORITHM = Reason("the token is signed in a way that is not accepted here")
CRITICAL_HEADER = Reason("the token asks for an extension that is not known here")
WRONG_TYPE = Reason("the token is of another type than an access token")
ID_TOKEN = Reason("the token is an ID or refresh token; send the access token")
WRONG_ISSUER = Reason("the token is from another issuer")
WRONG_AUDIENCE = Reason("the token is for another audience")
NO_EXPIRY = Reason("the token does not say when it expires")
EXPIRED = Reason("the token has expired")
NOT_YET = Reason("the token is not valid yet")
FROM_THE_FUTURE = Reason("the token was issued in the future")
NO_SUBJECT = Reason("the token does not say whom it is for")
KEY_BOUND = Reason("the token is bound to a key that its sender has to show, which can't be done here")
FOREIGN_KEY = Reason("the token is not signed by a key of its issuer")
NOT_FROM_HERE = Reason("the token was not given out by this server; log in here")
INACTIVE = Reason("the token is not valid at its issuer: unknown, expired or revoked")
UNKNOWN = Reason("the token is not known here: mistyped, expired or revoked")
LOGIN_ENDED = Reason("the login of this token has ended; log in again")
MISSING_SCOPE = Reason("the token lacks a scope that is required here", "insufficient_scope", 403)
UNREACHABLE = Reason("the token can't be checked right now: its issuer can't be asked", "temporarily_unavailable", 503)
"""No 401, at which clients throw away tokens that may be good."""


class TokenRefused(AgentUtilitiesError):
    """A token is not accepted."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(reason.text)


_noted: ContextVar[list[Reason] | None] = ContextVar("why the token of this request was refused", default=None)

sender: ContextVar[str] = ContextVar("the address that the request being served came from", default="")


def note(*reason: Reason) -> None:
    """Store why the current request's token was refused, in place of any other reason."""
    kept = _noted.get()
    if kept is not None:
        kept[:] = reason


def noted() -> Reason | None:
    """Return why the current request's token was refused, where that was noted."""
    return next(iter(_noted.get() or ()), None)


class TellsWhy:
    """ASGI middleware that adds to a 401 why the token was refused, or answers 403 or 503 in its place."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; where the app refuses it, answer in its place."""
        before, answered = _noted.set([]), False
        sender.set(address_of(scope))

        async def tell(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start" and message["status"] == 401:
                challenge = Headers(raw=message["headers"]).get("www-authenticate", "")
                # Without a challenge it is another kind of answer, such as a token endpoint's to a client.
                if challenge.lower().startswith("bearer"):
                    answered = True
                    await _answer(noted() or NONE_GIVEN, challenge)(scope, receive, send)
            if not answered:
                await send(message)

        try:
            await self.app(scope, receive, tell)
        finally:
            _noted.reset(before)


def _answer(reason: Reason, challenge: str) -> Response:
    headers = {"cache-control": "no-store"}
    if reason.status == 503:
        headers["retry-after"] = str(RETRY_S)
    else:
        # The rest stays: scopes to request, and where a client finds the login.
        kept = [part for part in re.findall(r'\w+="[^"]*"', challenge) if not part.startswith("error")]
        # RFC 6750 §3.1: without a token in the request, the challenge names no error.
        why = [] if reason is NONE_GIVEN else [f'error="{reason.error}"', f'error_description="{reason.text}"']
        headers["www-authenticate"] = f"Bearer {', '.join(why + kept)}".strip()
    return JSONResponse({"error": reason.error, "error_description": reason.text}, reason.status, headers)
