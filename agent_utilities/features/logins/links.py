"""Links by which people log in at upstreams: each names one person, and serves once, in a browser that is theirs.

Whoever is given a link may pass it on, and whoever opens it may pass on where it leads. So the browser that opens it
first shows that it is the person's that the link names: it logs in at this server as they did for their agent, or
brings their token. From its first page on a browser is known by a cookie, and neither the proof nor the login at the
upstream ends in another one: nobody binds an account of theirs to somebody else, nor somebody else's to themselves.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fastmcp.server.auth import AccessToken, AuthProvider
from fastmcp.server.dependencies import get_access_token
from mcp.shared.auth import AuthorizationCodeResult
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from agent_utilities.access.rules import LOCAL
from agent_utilities.features.logins import pages
from agent_utilities.mcp.sessions import of_token
from agent_utilities.upstream.config import OAuthClient
from agent_utilities.upstream.http.account import LOGIN_S, Account, BrowserSteps, OwnLoginError, Start, authorized

logger = logging.getLogger("agent_utilities.logins")

PATH = "/logins"
_N_FORM_BYTES = 16 << 10
_N_TRIES = 8
"""How often somebody may try to show that a link is theirs: each try has the issuer register a client."""
_ANSWER_S = 60.0
"""Seconds that an authorization server may take for its part of a step."""
_COOKIE = re.compile(r"[A-Za-z0-9_-]{43}")


Person = tuple[str, str]
"""Issuer and subject: one subject of two issuers is two people."""


def person_of(token: AccessToken | None) -> Person | None:
    """Return whose token it is; None for nobody's, and for one that names no issuer or no subject."""
    person = of_token(token).person if token is not None else ("", "")
    return person if all(person) else None


def present_person() -> Person | None:
    """Return who is served now, in a request or in what is done for one beside it; None where that is not known."""
    return person_of(get_access_token())


@dataclass(eq=False)
class Link:
    """One link.

    Args:
        person: for whom it was made.
        account: the login that it leads to.
        upstream: the upstream's name.
        url: what its person opens.
        browser: the cookie of the browser that showed to be theirs; empty before one did.
        n_tries: how often somebody has tried to show that.
        asked: the sessions in which their host has been asked to open it.
    """

    person: Person
    account: Account
    upstream: str
    url: str
    state: str
    until_s: float = field(default_factory=lambda: time.monotonic() + LOGIN_S)
    browser: str = ""
    n_tries: int = 0
    is_under_way: bool = False
    asked: set[Hashable] = field(default_factory=set)

    @property
    def is_open(self) -> bool:
        """Whether it can still be opened."""
        return not self.browser and self.n_tries < _N_TRIES and time.monotonic() < self.until_s


@dataclass(eq=False)
class _Away:
    """A browser that was sent to an authorization server, and is waited for.

    Args:
        finish: makes the page that it is shown when it is back, of what the work brought.
    """

    browser: str
    steps: BrowserSteps
    task: asyncio.Task[Any]
    finish: Callable[[Any], Awaitable[Response]]


class Links:
    """Makes links, and serves the pages that they lead to.

    Args:
        base_url: the address of this server, as its people's browsers reach it.
        mcp_url: the address of its MCP endpoint.
        auth: returns what verifies who calls it.
        client: what this server's own authorization server is told of us.
        start: starts a task that ends with the server.
        on_login: called with each link by which its person has logged in.
    """

    def __init__(
        self,
        base_url: str,
        mcp_url: str,
        auth: Callable[[], AuthProvider | None],
        client: OAuthClient,
        start: Start,
        on_login: Callable[[Link], None],
    ) -> None:
        self._base_url, self._mcp_url, self._auth = base_url.rstrip("/"), mcp_url, auth
        self._client, self._start, self._on_login = client, start, on_login
        self._redirect_uri = f"{self._base_url}{PATH}/callback"
        self._links: dict[str, Link] = {}
        self._away: dict[str, _Away] = {}
        self._key = secrets.token_bytes(32)

    def link(self, person: Person, account: Account, upstream: str) -> Link:
        """Return the link for a person's login at an upstream: the same for all who ask, until it was used."""
        now_s = time.monotonic()
        self._links = {state: link for state, link in self._links.items() if now_s < link.until_s}
        for link in self.open():
            if link.account is account:
                return link
        state = secrets.token_urlsafe(32)
        link = self._links[state] = Link(person, account, upstream, f"{self._base_url}{PATH}/{state}", state)
        return link

    def open(self) -> list[Link]:
        """Return the links that can still be opened."""
        return [link for link in self._links.values() if link.is_open]

    def routes(self) -> list[BaseRoute]:
        """Return the routes of its pages."""
        return [
            Route(f"{PATH}/callback", self._come_back, methods=["GET"]),
            Route(f"{PATH}/{{state}}", self._open, methods=["GET"]),
            Route(f"{PATH}/{{state}}", self._go_on, methods=["POST"]),
        ]

    # -- pages -------------------------------------------------------------------------------------------------------

    async def _open(self, request: Request) -> Response:
        """Show what a link is for, and nothing of whom: whoever opens it is nobody yet."""
        link = self._links.get(request.path_params["state"])
        if link is None or not link.is_open:
            return pages.spent()
        browser = self._browser_of(request) or secrets.token_urlsafe(32)
        by_token = link.person[0] == LOCAL or not self._has_login
        response = pages.first(link.upstream, self._form_key(link, browser), by_token=by_token)
        response.set_cookie(
            self._cookie, browser, max_age=int(LOGIN_S), secure=self._is_https, httponly=True, samesite="lax"
        )
        return response

    async def _go_on(self, request: Request) -> Response:
        """Take a page's form: to show who one is, or to go on to the upstream once one has."""
        given = await _form(request)
        link = self._links.get(request.path_params["state"])
        browser = self._browser_of(request)
        if link is None or not browser or not _is_same(given.get("key", ""), self._form_key(link, browser)):
            return pages.spent()
        if given.get("step") == "go":
            if link.is_under_way or not _is_same(link.browser, browser) or time.monotonic() > link.until_s:
                return pages.spent()
            link.is_under_way = True
            log_in = partial(link.account.log_in, redirect_uri=self._redirect_uri)
            return await self._send_away(log_in, browser, partial(self._logged_in, link))
        if not link.is_open:
            return pages.spent()
        link.n_tries += 1
        if given.get("step") == "token":
            return await self._proven(link, browser, given.get("token", "").strip())
        prove = partial(authorized, self._mcp_url, redirect_uri=self._redirect_uri, client=self._client)
        return await self._send_away(prove, browser, partial(self._came_with, link, browser))

    async def _come_back(self, request: Request) -> Response:
        """Take a browser that comes back from an authorization server: once, and the one that was sent there."""
        given = request.query_params
        away = self._away.pop(given.get("state", ""), None)
        if away is None:
            return pages.spent()
        if not _is_same(away.browser, self._browser_of(request)):
            away.task.cancel()
            return pages.spent()
        if "code" in given:
            result = AuthorizationCodeResult(code=given["code"], state=given["state"], iss=given.get("iss"))
            away.steps.code.set_result(result)
        else:
            away.steps.code.set_exception(OwnLoginError(f"it was refused: {given.get('error', 'no reason')[:100]}"))
        return await self._outcome(away)

    # -- who one is --------------------------------------------------------------------------------------------------

    async def _came_with(self, link: Link, browser: str, context: Any) -> Response:
        return await self._proven(link, browser, context.current_tokens.access_token)

    async def _proven(self, link: Link, browser: str, token: str) -> Response:
        """Take a browser for its person's whose token is that of the link's; the link has served then."""
        found = await auth.verify_token(token) if (auth := self._auth()) is not None and token else None
        if found is None or person_of(found) != link.person or link.browser:
            return pages.not_theirs()
        link.browser = browser
        return pages.confirm(link.upstream, link.person, link.url, self._form_key(link, browser))

    async def _logged_in(self, link: Link, _: Any) -> Response:
        self._links.pop(link.state, None)
        self._on_login(link)
        return pages.done(link.upstream)

    # -- steps elsewhere ---------------------------------------------------------------------------------------------

    async def _send_away(
        self,
        work: Callable[[BrowserSteps], Coroutine[Any, Any, Any]],
        browser: str,
        finish: Callable[[Any], Awaitable[Response]],
    ) -> Response:
        """Begin what has a browser go to an authorization server, and send it there."""
        steps = BrowserSteps()
        task = self._start(_outcome_of(partial(work, steps)))
        away = _Away(browser, steps, task, finish)
        await asyncio.wait([task, steps.address], timeout=_ANSWER_S, return_when=asyncio.FIRST_COMPLETED)
        if not steps.address.done():
            return await self._outcome(away)
        address = steps.address.result()
        parts = urlsplit(address)
        state = parse_qs(parts.query).get("state", [""])[0]
        if parts.scheme not in ("http", "https") or not state:
            task.cancel()
            return pages.failed("its authorization server has no address that a browser can be sent to")
        self._away[state] = away
        task.add_done_callback(lambda _: self._away.pop(state, None))
        return RedirectResponse(address, 303, headers=pages.HEADERS)

    async def _outcome(self, away: _Away) -> Response:
        await asyncio.wait([away.task], timeout=_ANSWER_S)
        if not away.task.done() or away.task.cancelled():
            away.task.cancel()
            return pages.failed("its authorization server did not answer in time")
        brought = away.task.result()
        if isinstance(brought, Exception):
            logger.info("a login failed: %s", type(brought).__name__)
            return pages.failed(str(brought) if isinstance(brought, OwnLoginError) else type(brought).__name__)
        return await away.finish(brought)

    # -- browsers ----------------------------------------------------------------------------------------------------

    @property
    def _has_login(self) -> bool:
        """Whether whoever calls this server can log in by a browser."""
        routes = auth.get_routes(urlsplit(self._mcp_url).path) if (auth := self._auth()) is not None else []
        return any("oauth-protected-resource" in getattr(route, "path", "") for route in routes)

    @property
    def _is_https(self) -> bool:
        return self._base_url.startswith("https:")

    @property
    def _cookie(self) -> str:
        """The cookie's name; over HTTPS one that no other host can set."""
        return f"{'__Host-' if self._is_https else ''}agent-utilities-login"

    def _browser_of(self, request: Request) -> str:
        """Return what a browser is known by; empty for one that was shown no page yet."""
        cookie = request.cookies.get(self._cookie, "")
        return cookie if _COOKIE.fullmatch(cookie) else ""

    def _form_key(self, link: Link, browser: str) -> str:
        """Return what a page's form brings along, so that no page of somebody else's can send it."""
        return blake2b(f"{link.state} {browser}".encode(), key=self._key, digest_size=16).hexdigest()


def _is_same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode())


async def _outcome_of(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Return what work brings, an error included: it must not end the others."""
    try:
        return await work()
    except Exception as error:
        return error


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form; none where it is too long, or can't be read."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _N_FORM_BYTES:
            return {}
    try:
        return {name: values[0] for name, values in parse_qs(body.decode("ascii"), max_num_fields=10).items()}
    except ValueError:
        return {}
