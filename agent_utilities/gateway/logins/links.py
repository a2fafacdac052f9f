"""Links by which people log in at upstreams: each is for one person, and serves once, in that person's browser.

Whoever receives a link may pass it on, and whoever opens it may pass on where it leads. So a browser first proves that
it is the person's: it logs in at this server as they did for their agent, or sends their token. A cookie identifies the
browser from its first page on, and both the proof and the login at the upstream must end in the browser that began
them. So nobody can bind their account to somebody else, nor somebody else's account to themselves.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from hashlib import blake2b
from html import escape

import fastmcp
from fastmcp.server.auth import AuthProvider
from fastmcp.server.dependencies import get_access_token
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from agent_utilities.access.rules import LOCAL
from agent_utilities.gateway.logins.browser import Cookie, OwnIssuer, form_of, is_of_own_page, is_same
from agent_utilities.gateway.upstreams.http.account import Account
from agent_utilities.gateway.upstreams.http.authorization import LOGIN_S, Authorization
from agent_utilities.gateway.upstreams.http.http_client import OwnLoginError
from agent_utilities.seam.caller import of_token
from agent_utilities.seam.events import LoggedIn
from agent_utilities.seam.host import Host, find

logger = logging.getLogger("agent_utilities.logins")

PATH = "/logins"
N_FORM_BYTES = 16 << 10
_N_TRIES = 8
"""How often somebody may try to prove that a link is theirs."""
_N_LINKS = 4
"""How many links of one person for one upstream are kept; the oldest is evicted."""

# The pages are plain HTML without scripts, which no other page can frame and no cache keeps.
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
}
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><main><h1>{title}</h1><p>{text}</p>{form}</main></html>"""
_FORM = """<form method="post" action="{action}"><input type="hidden" name="step" value="{step}">
<input type="hidden" name="key" value="{key}">{more}<button>Continue</button></form>"""
_TOKEN = """<p><label>The token that your agent calls this server with:
<input type="password" name="token" autocomplete="off" required></label></p>"""

Person = tuple[str, str]
"""Issuer and subject: one subject of two issuers is two people."""


def present_person() -> Person | None:
    """Return the person of the current request or task; None where their token has no issuer or no subject."""
    token = get_access_token()
    person = of_token(token).person if token is not None else ("", "")
    return person if all(person) else None


@dataclass(eq=False)
class Link:
    """A link for one person to log in at one upstream.

    Args:
        account: the login that it is for.
        url: its address.
        state: the last part of the address, random.
        made_s: when it was made, by the monotonic clock.
        browser: the cookie of the browser that proved to be the person's; empty before one did.
        n_tries: how often a browser tried to prove that.
        is_used: whether it has led to the upstream.
        shown_in: the sessions whose host shows it at present.
    """

    account: Account
    url: str
    state: str
    made_s: float = field(default_factory=time.monotonic)
    browser: str = ""
    n_tries: int = 0
    is_used: bool = False
    shown_in: set[Hashable] = field(default_factory=set)

    @property
    def is_late(self) -> bool:
        """Whether it has expired."""
        return time.monotonic() > self.made_s + LOGIN_S

    @property
    def is_open(self) -> bool:
        """Whether a browser may still prove to be the person's."""
        return not self.browser and self.n_tries < _N_TRIES and not self.is_late


@dataclass(frozen=True, eq=False)
class _Away:
    """A browser that was sent to an authorization server, with what verifies it on its way back."""

    link: Link
    browser: str
    authorization: Authorization
    verifier: str


class Elsewhere:
    """Other replicas, which serve the links that they made; this default has none."""

    serve: Callable[[Request], Awaitable[Response]]
    """Serves a request for a link or login of this process; `Links` sets it."""

    async def begun(self, state: str) -> None:
        """Publish that the link or login with this state belongs to this process."""

    async def answer(self, state: str, request: Request) -> Response | None:
        """Return the answer of the process that a state belongs to; None where it is unknown, or is this one."""
        return None


class Links:
    """Makes login links, and serves their pages.

    Args:
        host: the server, whose own login proves whose a browser is.
        base_url: the server's public address.
        elsewhere: serves links that other replicas made.
    """

    def __init__(self, host: Host, base_url: str, elsewhere: Elsewhere) -> None:
        self._host, self._base_url = host, base_url
        self._elsewhere, elsewhere.serve = elsewhere, self._serve
        self._cookie = Cookie("login", "lax", base_url, LOGIN_S)
        self._links: dict[str, Link] = {}
        self._away: dict[str, _Away] = {}
        """Browsers at authorization servers, by the state that these send back; each belongs to a link in `_links`."""
        self._issuer = OwnIssuer(host, f"{PATH}/callback")
        self._key = secrets.token_bytes(32)

    async def link(self, account: Account) -> Link:
        """Return the link for a person's login at an upstream: the open one, or else a new one."""
        self._links = {state: link for state, link in self._links.items() if not link.is_late}
        own = [link for link in self._links.values() if link.account.name == account.name]
        for link in own:
            if link.account is account and link.is_open:
                return link
        for link in own[: 1 - _N_LINKS]:
            del self._links[link.state]
        self._away = {state: away for state, away in self._away.items() if away.link.state in self._links}
        state = secrets.token_urlsafe(32)
        link = self._links[state] = Link(account, f"{self._base_url}{PATH}/{state}", state)
        await self._elsewhere.begun(state)
        return link

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the links' pages."""
        return [
            Route(f"{PATH}/callback", self._anywhere, methods=["GET"]),
            Route(f"{PATH}/{{state}}", self._anywhere, methods=["GET", "POST"]),
        ]

    async def _anywhere(self, request: Request) -> Response:
        """Serve a request in the process that its link or login belongs to."""
        if request.method == "POST" and not is_of_own_page(request, self._base_url):
            return _html("The login failed", "This was not sent from its own page. Open the link anew.", 403)
        state = request.path_params.get("state") or request.query_params.get("state", "")
        is_here = state in self._links or state in self._away
        answer = None if is_here else await self._elsewhere.answer(state, request)
        return await self._serve(request) if answer is None else answer

    async def _serve(self, request: Request) -> Response:
        if "state" not in request.path_params:
            return await self._come_back(request)
        return await (self._go_on(request) if request.method == "POST" else self._open(request))

    # -- pages -------------------------------------------------------------------------------------------------------

    async def _open(self, request: Request) -> Response:
        """Show what a link is for, but not for whom: whoever opens it is not authenticated yet."""
        link = self._links.get(request.path_params["state"])
        if link is None or not link.is_open:
            return spent()
        browser = self._cookie.of(request) or secrets.token_urlsafe(32)
        auth = find(self._host, AuthProvider)
        routes = auth.get_routes(fastmcp.settings.streamable_http_path) if auth is not None else []
        has_login = any("oauth-protected-resource" in getattr(route, "path", "") for route in routes)
        step = "prove" if has_login and link.account.person[0] != LOCAL else "token"
        text = f"Your agent is to use {link.account.upstream} with your own account. First show who you are here."
        return self._cookie.set(request, self._page(link, text, step, browser), browser)

    async def _go_on(self, request: Request) -> Response:
        """Take a page's form: the proof of whose the browser is, or the step to the upstream after it."""
        form = await form_of(request, N_FORM_BYTES)
        link = self._links.get(request.path_params["state"])
        browser = self._cookie.of(request)
        if link is None or not browser or not is_same(form.get("key", ""), self._form_key(link, browser)):
            return spent()
        if form.get("step") == "go":
            if link.is_late or link.is_used or not is_same(link.browser, browser):
                return spent()
            link.is_used, link.made_s = True, time.monotonic()
            return await self._send_away(link, browser)
        if not link.is_open:
            return spent()
        link.n_tries += 1
        if form.get("step") == "token":
            return await self._proven(link, browser, form.get("token", "").strip())
        return await self._send_away(link, browser)

    async def _send_away(self, link: Link, browser: str) -> Response:
        """Redirect a browser to log in: at the upstream once it is proven to be its person's, at this server before."""
        try:
            if link.is_used:
                authorization = await link.account.authorization(f"{self._base_url}{PATH}/callback")
            else:
                authorization = await self._issuer.authorization()
        except Exception as error:  # whatever the SDK raises
            return _failed(error)
        address, state, verifier = authorization.send()
        self._away[state] = _Away(link, browser, authorization, verifier)
        await self._elsewhere.begun(state)
        return RedirectResponse(address, 303, headers=_HEADERS)

    async def _come_back(self, request: Request) -> Response:
        """End a login at an authorization server: once, and in the browser that was sent there."""
        browser = self._cookie.of(request)
        away = self._away.pop(request.query_params.get("state", ""), None)
        if away is None or away.link.is_late or not is_same(away.browser, browser):
            return spent()
        account = away.link.account
        try:
            context = await away.authorization.take(away.verifier, request.query_params)
            if not away.link.is_used:
                assert context.current_tokens is not None
                return await self._proven(away.link, browser, context.current_tokens.access_token)
            await account.logged_in(context)
        except Exception as error:  # whatever the SDK raises
            return _failed(error)
        self._host.notify(LoggedIn(*account.person, account.upstream))
        return _html(f"Logged in at {account.upstream}", "You can close this page, and go back to your agent.")

    async def _proven(self, link: Link, browser: str, token: str) -> Response:
        """Bind the link to a browser whose token is of the link's person; no other browser can use it then."""
        auth = find(self._host, AuthProvider)
        verified = await auth.verify_token(token) if auth is not None and token else None
        if verified is None or of_token(verified).person != link.account.person or link.browser:
            return _html("This link is not yours", "It was made for somebody else. Nothing was bound to anything.", 403)
        link.browser = browser
        issuer, subject = link.account.person
        text = (
            f"You are {subject} ({issuer}). What you log in at next is used for your calls, and for nobody else's."
            " If that is not you, close this page."
        )
        return self._page(link, text, "go", browser)

    def _page(self, link: Link, text: str, step: str, browser: str) -> Response:
        """Return a page whose form leads to a step: `token`, with a field for it, `prove` or `go`."""
        more = _TOKEN if step == "token" else ""
        form = _FORM.format(step=step, key=self._form_key(link, browser), action=escape(link.url), more=more)
        return _html(f"Log in at {link.account.upstream}", text, form=form)

    def _form_key(self, link: Link, browser: str) -> str:
        """Return the key that a page's form carries, so that no page of another origin can submit it."""
        return blake2b(f"{link.state} {browser}".encode(), key=self._key, digest_size=16).hexdigest()


def _html(title: str, text: str, status: int = 200, form: str = "") -> Response:
    html = _PAGE.format(title=escape(title), text=escape(text), form=form)
    return HTMLResponse(html, status, headers=_HEADERS)


def spent() -> Response:
    """Return the page for a link that was used, has expired or never was, and for one in another browser."""
    text = "It serves once, for ten minutes, in one browser. Call again to be given another one."
    return _html("This link does not serve any more", text, 410)


def _failed(error: Exception) -> Response:
    """Log that a login failed, and return the page that says why."""
    logger.info("a login failed: %s", type(error).__name__)
    why = "its authorization server did not answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    text = str(error) if isinstance(error, OwnLoginError) else why
    return _html("The login failed", f"{text}. Call again to be given another link.", 502)
