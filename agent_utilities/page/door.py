"""Authenticate and authorize the page's readers: by a link on a loopback address, elsewhere by a rule's right.

A browser sends no bearer token by itself, and every web page on this machine reaches a loopback address. So a browser
is known by a cookie that only this server sets: for the link that the start prints, or for a token that somebody logged
in with. Ports share cookies, so another server on the same host receives ours; it gains nothing by it that it could not
do to this machine otherwise. Even so a form is accepted only from the page's own origin, and with its own key.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, MutableMapping
from hashlib import blake2b

from cachetools import LRUCache
from cryptography.fernet import Fernet, InvalidToken
from fastmcp.server.auth import AuthProvider
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_utilities.gateway.logins.browser import Cookie, OwnIssuer, form_of, is_of_own_page, is_same
from agent_utilities.gateway.upstreams.http.authorization import LOGIN_S
from agent_utilities.runtime.hosts import is_loopback
from agent_utilities.seam.caller import NOBODY, of_token
from agent_utilities.seam.host import Host, find
from agent_utilities.seam.panel import Reader

PATH = "/page/login/issuer"
BACK = f"{PATH}/back"
STATIC = "/page/static/"
LOGIN, LOGOUT = "/page/login", "/page/logout"
_READ, _OPERATE = "page.read", "page.operate"
_N_PEOPLE, _N_LOGINS = 1000, 8
"""How many people's logins are kept, and how many of each person: nobody's logins evict another person's."""
_N_FORM_BYTES = 1 << 20
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Door:
    """ASGI middleware before the page: authorizes its readers, and answers everybody else itself.

    Args:
        app: the page; `state.reader` of a request is its reader, and `state.reader_now()` authorizes them anew.
        key: the secret in the page's link.
        refused: returns the page for a browser that is refused, given a status and the reason.
    """

    def __init__(
        self, app: ASGIApp, host: Host, key: str, refused: Callable[[HttpRequest, int, str], Response]
    ) -> None:
        self._app, self._host, self._key, self._refused = app, host, key, refused
        self._base_url = host.operator.settings.auth_base_url
        self._cookie = Cookie("page", "strict", self._base_url)
        self._issuer = OwnIssuer(host, BACK)
        self._login_cookie = Cookie("page-login", "lax", self._base_url, LOGIN_S)
        """Holds the sealed state of a login at the issuer: anybody may begin one, so the server keeps nothing of it."""
        self._seal = Fernet(Fernet.generate_key())
        self._secret = secrets.token_bytes(32)
        self._logins: LRUCache[str, LRUCache[str, str]] = LRUCache(_N_PEOPLE)
        """Tokens that people logged in with, by their cookies' first part, then by cookie; each request verifies its
        token anew."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HttpRequest({**scope}, receive)
        request.state.reader_now = lambda: self._reader(HttpRequest({**scope}))
        is_static = own_path(request).startswith(STATIC)
        answer = None if is_static else await self._answer(request)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {**_HEADERS, "cache-control": "max-age=300"} if is_static else _HEADERS
                others = [(name, value) for name, value in message["headers"] if name.decode() not in own]
                message["headers"] = [*others, *((name.encode(), value.encode()) for name, value in own.items())]
            await send(message)

        await (answer or self._app)(request.scope, receive, with_headers)

    async def _answer(self, request: HttpRequest) -> Response | None:
        """Return the answer to a request that does not reach the page; None where its reader is authorized."""
        path, key = own_path(request), request.query_params.get("key")
        if path == "/" and key is not None:
            return self._by_link(request, key)
        if path in (LOGIN, LOGOUT) and request.method == "POST":
            return await self._logged(request)
        if path in (PATH, BACK) and self.has_issuer:
            return await self._at_issuer(request)
        reader = await self._reader(request)
        if reader is None:
            return self._refused(request, 401, "")
        if isinstance(reader, str):
            return self._refused(request, 403, reader)
        request.state.reader, request.state.form_key = reader, self._form_key(request)
        if request.method == "POST":
            form = request.state.form = await form_of(request, _N_FORM_BYTES)
            if not self._is_own(request) or not self._fits(request, form.pop("form_key", "")):
                return self._refused(request, 403, "This was not sent from the page itself. Open it anew.")
        return None

    # -- who --------------------------------------------------------------------------------------------------------

    @property
    def takes_key(self) -> bool:
        """Whether the link is accepted: on a loopback address, where nobody logs in."""
        address = (self._host.address or (None,))[0]
        return find(self._host, AuthProvider) is None and (address is None or is_loopback(address))

    async def _reader(self, request: HttpRequest) -> Reader | str | None:
        """Return the reader, or why they may not read; None where the browser is not authenticated."""
        cookie = self._cookie.of(request)
        if find(self._host, AuthProvider) is None:
            return Reader(NOBODY, True) if self.takes_key and is_same(cookie, self._sign("link")) else None
        if isinstance(request.scope.get("user"), AuthenticatedUser):  # a program that brings its token
            token = request.scope["user"].access_token
        elif (token := await self._verified(self._logins_of(cookie).get(cookie, ""))) is None:
            return None
        request.scope["user"] = AuthenticatedUser(token)
        return self._judged(token)

    def _judged(self, token: AccessToken) -> Reader | str:
        """Return the reader that a token authenticates, or why they may not read."""
        caller = of_token(token)
        grant = self._host.grant_of(caller)
        may = frozenset[str]() if grant is None else grant.may
        if not may & {_READ, _OPERATE}:
            return f"No rule of access that fits you gives the right {_READ!r}."
        return Reader(caller, _OPERATE in may)

    def _logins_of(self, cookie: str) -> MutableMapping[str, str]:
        return self._logins.get(cookie.partition(".")[0], {})

    async def _verified(self, token: str) -> AccessToken | None:
        auth = find(self._host, AuthProvider)
        return await auth.verify_token(token) if auth is not None and token else None

    def _by_link(self, request: HttpRequest, key: str) -> Response:
        if not self.takes_key or not is_same(key, self._key):
            return self._refused(request, 401, "This link is not the one that the server's last start printed.")
        home = _home(request, is_foreign=request.headers.get("sec-fetch-site") == "cross-site")
        return self._cookie.set(request, home, self._sign("link"))

    async def _logged(self, request: HttpRequest) -> Response:
        """Log a browser in with a token that its person pasted, or out."""
        if not self._is_own(request):
            return self._refused(request, 403, "This was not sent from the page itself.")
        cookie = self._cookie.of(request)
        self._logins_of(cookie).pop(cookie, None)
        if own_path(request) == LOGOUT:
            return _home(request)
        token = (await form_of(request, _N_FORM_BYTES)).get("token", "").strip()
        return await self._logged_in(request, token, _home(request))

    async def _logged_in(self, request: HttpRequest, text: str, answer: Response) -> Response:
        """Return an answer that logs a browser in with a token, where its person may read the page."""
        if (token := await self._verified(text)) is None:
            why = "This token is not taken: it may have ended, or be of elsewhere."
            return self._cookie.set(request, self._refused(request, 401, why), "")
        if isinstance(reader := self._judged(token), str):
            return self._cookie.set(request, self._refused(request, 403, reader), "")
        person = self._sign(repr(reader.caller.person if reader.caller.subject else reader.caller.client))
        cookie = f"{person}.{secrets.token_urlsafe(32)}"
        self._logins.setdefault(person, LRUCache(_N_LOGINS))[cookie] = text
        return self._cookie.set(request, answer, cookie)

    @property
    def has_issuer(self) -> bool:
        """Whether the server has an issuer, and an address that browsers come back to."""
        settings = self._host.operator.settings
        return bool(find(self._host, AuthProvider) is not None and settings.auth_issuer and settings.auth_base_url)

    async def _at_issuer(self, request: HttpRequest) -> Response:
        """Redirect a browser to the issuer, or log in one that comes back from it."""
        try:
            if own_path(request) == BACK:
                return await self._back(request)
            address, state, verifier = (await self._issuer.authorization()).send()
            sealed = self._seal.encrypt(f"{state} {verifier}".encode()).decode()
            return self._login_cookie.set(request, RedirectResponse(address, 303), sealed)
        except TimeoutError:
            why = "The issuer did not answer in time."
        except Exception as error:  # whatever the SDK raises
            why = f"The login failed: {error if str(error) else type(error).__name__}"
        return self._refused(request, 401, why)

    async def _back(self, request: HttpRequest) -> Response:
        try:
            opened = self._seal.decrypt(self._login_cookie.of(request).encode(), ttl=int(LOGIN_S)).decode()
        except InvalidToken:
            opened = ""
        state, _, verifier = opened.partition(" ")
        if not state or not is_same(state, request.query_params.get("state", "")):
            return self._refused(request, 401, "This login was not begun in this browser, or has ended. Begin anew.")
        context = await (await self._issuer.authorization()).take(verifier, request.query_params)
        assert context.current_tokens is not None
        home = _home(request, is_foreign=True)
        answer = await self._logged_in(request, context.current_tokens.access_token, home)
        return self._login_cookie.set(request, answer, "")

    # -- forms ------------------------------------------------------------------------------------------------------

    def _is_own(self, request: HttpRequest) -> bool:
        return "origin" in request.headers and is_of_own_page(request, self._base_url)

    def _form_key(self, request: HttpRequest) -> str:
        """Return the key that forms of one browser carry: salted, so that compressed answers leak nothing of it."""
        salt = secrets.token_hex(8)
        return f"{salt}.{self._sign(salt + self._cookie.of(request))}"

    def _fits(self, request: HttpRequest, form_key: str) -> bool:
        cookie = self._cookie.of(request)
        salt, _, signed = form_key.partition(".")
        return bool(cookie) and is_same(signed, self._sign(salt + cookie))

    def _sign(self, text: str) -> str:
        return blake2b(text.encode(), key=self._secret, digest_size=16).hexdigest()


def own_path(request: HttpRequest) -> str:
    """Return a request's path below where the server's application is mounted."""
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", ""))


def _home(request: HttpRequest, *, is_foreign: bool = False) -> Response:
    """Return a redirect to the page: from another site, whose redirects carry no strict cookie, by an own page."""
    path = f"{STATIC}entered.html" if is_foreign else "/"
    return RedirectResponse(f"{request.scope.get('root_path', '')}{path}", 303)
