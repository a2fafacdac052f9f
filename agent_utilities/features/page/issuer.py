"""Logging in to the page at the server's own issuer: code with PKCE in the browser, as the reader's agent does it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from cryptography.fernet import Fernet, InvalidToken
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, RedirectResponse, Response

from agent_utilities.features.logins.browser import Cookie, OwnIssuer, is_same
from agent_utilities.upstream.http.authorization import LOGIN_S

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer

PATH = "/page/login/issuer"
BACK = f"{PATH}/back"
# The page that comes next is told where to go on: a redirect from another site would not bring a strict cookie along.
_ENTERED = '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=../../../">'
_ENTERED += '<title>Logged in</title><p><a href="../../../">Go on</a></p></html>'

Enter = Callable[[HttpRequest, str, Response], Awaitable[Response]]


class IssuerLogin:
    """Sends browsers to the issuer, and lets them in with the token that this brings.

    Anybody may begin a login: what it takes to end it is in a cookie, sealed, and nothing of it is kept here.

    Args:
        host: the server, whose operator's settings have the issuer, and its address as browsers reach it.
        enter: has a browser be known by a token; returns an answer whose cookie says so.
    """

    def __init__(self, host: AgentServer, enter: Enter) -> None:
        self._host, self._enter = host, enter
        self._issuer = OwnIssuer(host, BACK)
        self._seal = Fernet(Fernet.generate_key())
        self._cookie = Cookie("page-login", "lax", host.surface.operator.settings.auth_base_url, LOGIN_S)

    @property
    def is_there(self) -> bool:
        """Whether the server has an issuer, and an address that browsers come back to."""
        settings = self._host.surface.operator.settings
        return bool(self._host.auth is not None and settings.auth_issuer and settings.auth_base_url)

    async def answer(self, request: HttpRequest) -> Response | str:
        """Return where a browser goes next, or why it does not get in."""
        try:
            if request.url.path.endswith(BACK):
                return await self._entered(request)
            address, state, verifier = (await self._issuer.authorization()).send()
            sealed = self._seal.encrypt(f"{state} {verifier}".encode()).decode()
            return self._cookie.set(request, RedirectResponse(address, 303), sealed)
        except TimeoutError:
            return "The issuer did not answer in time."
        except Exception as error:  # whatever the SDK raises
            return f"The login failed: {error if str(error) else type(error).__name__}"

    async def _entered(self, request: HttpRequest) -> Response | str:
        given = request.query_params
        try:
            told = self._seal.decrypt(self._cookie.of(request).encode(), ttl=int(LOGIN_S)).decode()
        except InvalidToken:
            told = ""
        state, _, verifier = told.partition(" ")
        if not state or not is_same(state, given.get("state", "")):
            return "This login was not begun in this browser, or has ended. Begin anew."
        context = await (await self._issuer.authorization()).take(verifier, given)
        assert context.current_tokens is not None
        answer = await self._enter(request, context.current_tokens.access_token, HTMLResponse(_ENTERED))
        return self._cookie.set(request, answer, "")
