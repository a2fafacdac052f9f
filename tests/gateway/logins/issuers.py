"""An issuer that knows people by their browsers' cookies, servers that want its tokens, and such browsers."""

from __future__ import annotations

import asyncio
import html
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from secrets import token_urlsafe
from typing import Any, Self
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth import AccessToken
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from fastmcp.server.dependencies import get_access_token
from mcp.server.auth.provider import AuthorizationParams
from mcp.server.auth.settings import ClientRegistrationOptions
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route


class Issuer(InMemoryOAuthProvider):
    """An authorization server with registration and PKCE, which asks a browser's cookie who sits there.

    Args:
        url: of the server that it is part of.
        cookie: the name of the cookie.
    """

    def __init__(self, url: str, cookie: str) -> None:
        super().__init__(base_url=url, client_registration_options=ClientRegistrationOptions(enabled=True))
        self.url, self.cookie = url, cookie
        self.counts: Counter[str] = Counter()
        """How often it was asked for what."""
        self.was_asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_answer.set()
        self._asked: dict[str, str] = {}
        self._people: dict[str, str] = {}

    async def authorize(self, client: Any, params: AuthorizationParams) -> str:
        """Send a browser to the page that looks who it is."""
        back = await super().authorize(client, params)
        self._asked[key := token_urlsafe(16)] = back
        return f"{self.url}/who?key={key}"

    async def _who(self, request: Request) -> Response:
        if not (person := request.cookies.get(self.cookie)):
            return Response("who are you?", 401)
        back = self._asked.pop(request.query_params["key"])
        self._people[parse_qs(urlsplit(back).query)["code"][0]] = person
        return RedirectResponse(back)

    def get_routes(self, mcp_path: str | None = None) -> list[Any]:
        """Return its routes, with that page."""
        return [*super().get_routes(mcp_path), Route("/who", self._who)]

    async def exchange_authorization_code(self, client: Any, authorization_code: Any) -> Any:
        """Give the tokens of the one whose browser it was."""
        self.counts["code"] += 1
        tokens = await super().exchange_authorization_code(client, authorization_code)
        self._is_of(self._people.pop(authorization_code.code), tokens)
        return tokens

    async def exchange_refresh_token(self, client: Any, refresh_token: Any, scopes: list[str]) -> Any:
        """Give others for the same person; the ones before end."""
        self.counts["refresh"] += 1
        self.was_asked.set()
        await self.may_answer.wait()
        person = self._people[refresh_token.token]
        tokens = await super().exchange_refresh_token(client, refresh_token, scopes)
        self._is_of(person, tokens)
        return tokens

    def _is_of(self, person: str, tokens: Any) -> None:
        access = self.access_tokens[tokens.access_token]
        claims = {"iss": self.url, "sub": person}
        self.access_tokens[tokens.access_token] = access.model_copy(update={"claims": claims, "subject": person})
        self._people[tokens.refresh_token] = person

    def token(self, person: str) -> str:
        """Return a token of somebody's, as their agent was given it."""
        token = token_urlsafe(16)
        claims = {"iss": self.url, "sub": person}
        self.access_tokens[token] = AccessToken(
            token=token, client_id="agent", scopes=[], subject=person, claims=claims
        )
        return token

    def expire(self) -> None:
        """End all access tokens; their holders may renew them."""
        self.access_tokens.clear()

    def end(self) -> None:
        """End all logins."""
        self.access_tokens.clear()
        self.refresh_tokens.clear()

    async def load_access_token(self, token: str) -> Any:
        """Return whose token it is."""
        return self.access_tokens.get(token)


def mailbox(url: str, cookie: str = "at_mail") -> tuple[FastMCP, Issuer]:
    """Return a server of whose tools each person has their own, and its issuer."""
    issuer = Issuer(url, cookie)
    server = FastMCP("mail", auth=issuer)

    @server.tool
    async def read() -> str:
        """Read one's own mail."""
        token = get_access_token()
        assert token is not None
        return f"mail of {token.claims['sub']}"

    return server, issuer


def free_socket() -> tuple[socket.socket, str]:
    """Return a socket on a free port, and the URL of what is served on it."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    return bound, f"http://127.0.0.1:{bound.getsockname()[1]}"


@asynccontextmanager
async def on_socket(app: Any, bound: socket.socket) -> AsyncIterator[None]:
    """Serve an application on a socket until the block is left."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1))
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.serve([bound]))
        while not server.started:
            assert not serving.done(), "it did not start"
            await asyncio.sleep(0.01)  # uvicorn has no event for it
        try:
            yield
        finally:
            server.should_exit = True


class Browser:
    """A person's browser: its cookies, and what is clicked in it.

    Args:
        cookies: by which issuers know who sits there.
    """

    def __init__(self, **cookies: str) -> None:
        self._web = httpx2.AsyncClient(cookies=cookies, follow_redirects=False, timeout=30)
        self.page, self.url = "", ""
        self.headers: dict[str, str] = {}
        """Of the forms that it sends."""
        self.seen: list[str] = []
        """Every address that it was at."""

    async def open(self, url: str) -> int:
        """Open an address, follow where it leads, and return the status of the page that it ends at."""
        return await self._follow(self._web.build_request("GET", url))

    async def press(self, **filled: str) -> int:
        """Send the form of the page that is shown."""
        form = re.search(r"<form[^>]*>.*?</form>", self.page, re.DOTALL)
        assert form is not None, self.page
        action = re.search(r'<form[^>]*action="([^"]*)"', form[0])
        given = {
            name[1]: html.unescape(value[1]) if (value := re.search(r'value="([^"]*)"', tag)) else ""
            for tag in re.findall(r"<input[^>]*>", form[0])
            if (name := re.search(r'name="([^"]*)"', tag))
        }
        target = urljoin(self.url, html.unescape(action[1]) if action else "")
        request = self._web.build_request("POST", target, data={**given, **filled}, headers=self.headers)
        return await self._follow(request)

    async def _follow(self, request: httpx2.Request) -> int:
        while True:
            self.seen.append(str(request.url))
            response = await self._web.send(request)
            if response.next_request is None:
                self.page, self.url = response.text, str(response.url)
                return response.status_code
            request = response.next_request

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._web.aclose()
