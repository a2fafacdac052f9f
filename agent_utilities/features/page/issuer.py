"""Logging in to the page at the server's own issuer: code with PKCE in the browser, as the reader's agent does it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

import fastmcp
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, RedirectResponse, Response

from agent_utilities.features.logins.browser import ANSWER_S, SentAway
from agent_utilities.upstream.config import OAuthClient
from agent_utilities.upstream.http.account import LOGIN_S, BrowserSteps, Start, authorized

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer

PATH = "/page/login/issuer"
BACK = f"{PATH}/back"
# The page that comes next is told where to go on: a redirect from another site would not bring a strict cookie along.
_ENTERED = '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=../../../">'
_ENTERED += '<title>Logged in</title><p><a href="../../../">Go on</a></p></html>'

Enter = Callable[[HttpRequest, str, Response], Response]


class IssuerLogin:
    """Sends browsers to the issuer, and lets them in with the token that this brings.

    Args:
        host: the server, whose operator's settings have the issuer, and its address as browsers reach it.
        start: starts a task that ends with the server.
        enter: has a browser be known by a token; returns an answer whose cookie says so.
    """

    def __init__(self, host: AgentServer, start: Start, enter: Enter) -> None:
        self._host, self._away, self._enter = host, SentAway(start), enter

    @property
    def is_there(self) -> bool:
        """Whether the server has an issuer, and an address that browsers come back to."""
        settings = self._host.surface.operator.settings
        return bool(self._host.auth is not None and settings.auth_issuer and settings.auth_base_url)

    async def answer(self, request: HttpRequest) -> Response | str:
        """Return where a browser goes next, or why it does not get in."""
        if not request.url.path.endswith(BACK):
            return await self._send(request)
        task = self._away.take_back(request, request.cookies.get(self._cookie(request), ""))
        if task is None:
            return "This login was not begun in this browser, or has ended. Begin anew."
        return await self._entered(request, task)

    async def _send(self, request: HttpRequest) -> Response | str:
        browser = secrets.token_urlsafe(32)
        address, task = await self._away.send(self._log_in, browser)
        if not address:
            return await self._why(task)
        answer = RedirectResponse(address, 303)
        is_https = self._host.surface.operator.settings.auth_base_url.startswith("https:")
        answer.set_cookie(
            self._cookie(request), browser, max_age=int(LOGIN_S), secure=is_https, httponly=True, samesite="lax"
        )
        return answer

    async def _log_in(self, steps: BrowserSteps) -> str:
        settings = self._host.surface.operator.settings
        base = settings.auth_base_url.rstrip("/")
        client = OAuthClient(
            client_id=settings.auth_client_id or None, client_secret=settings.auth_client_secret or None
        )
        context = await authorized(base + fastmcp.settings.streamable_http_path, steps, base + BACK, client, {})
        assert context.current_tokens is not None
        return context.current_tokens.access_token

    async def _entered(self, request: HttpRequest, task: asyncio.Task[object]) -> Response | str:
        await asyncio.wait([task], timeout=ANSWER_S)
        if task.done() and not task.cancelled() and isinstance(token := task.result(), str):
            return self._enter(request, token, HTMLResponse(_ENTERED))
        return await self._why(task)

    async def _why(self, task: asyncio.Task[object]) -> str:
        await asyncio.wait([task], timeout=0)
        if not task.done() or task.cancelled():
            task.cancel()
            return "The issuer did not answer in time, or has no address that a browser can be sent to."
        brought = task.result()
        return f"The login failed: {brought if str(brought) else type(brought).__name__}"

    def _cookie(self, request: HttpRequest) -> str:
        return f"agent-utilities-page-login-{request.url.port or request.url.scheme}"
