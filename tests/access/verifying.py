"""A verifier of a local issuer's tokens, by itself and in front of a server."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from fastmcp import FastMCP
from fastmcp.server.auth import TokenVerifier
from fastmcp.server.dependencies import get_access_token
from pydantic import AnyHttpUrl

from agent_utilities.access import refusals
from agent_utilities.access.feature import Login, Remote
from agent_utilities.access.issuer import Issuer
from agent_utilities.access.oidc import OidcVerifier
from agent_utilities.access.refusals import Reason
from tests.access.local_issuer import RESOURCE, LocalIssuer

ANSWER = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


Ask = Callable[[str | None], Awaitable[httpx2.Response]]


class Clock:
    """Seconds since the epoch, which a test moves on."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


def verifier_of(issuer: LocalIssuer, *, retry_s: float = 0, clock: Any = time.time, **how: Any) -> OidcVerifier:
    verifier = OidcVerifier(Issuer(issuer.url, clock, retry_s), **how)
    verifier.bind(RESOURCE)
    return verifier


@asynccontextmanager
async def served(
    verifier: OidcVerifier, tokens: TokenVerifier | None = None
) -> AsyncIterator[Callable[[str | None], Any]]:
    """Serve behind a login, and yield what sends a call with a token and returns its HTTP response."""
    remote = Remote(verifier, [AnyHttpUrl(verifier.issuer.url)], base_url="http://tools.example")
    server = FastMCP("notes", auth=Login(tokens, verifier, remote))

    @server.tool
    def whoami() -> dict[str, Any]:
        token = get_access_token()
        assert token is not None
        return {"subject": token.subject, "client": token.client_id, "scopes": token.scopes}

    app = server.http_app(stateless_http=True, json_response=True)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami", "arguments": {}}}
    async with (
        app.lifespan(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://tools.example") as http,
    ):

        async def ask(token: str | None) -> httpx2.Response:
            sent = {} if token is None else {"authorization": f"Bearer {token}"}
            return await http.post("/mcp", headers={**ANSWER, **sent}, json=body)

        yield ask


async def verdict(verifier: TokenVerifier, token: str) -> Reason | None:
    """Return why a token is refused; None where it lets somebody in."""
    noted: list[Reason] = []
    reset = refusals._noted.set(noted)
    try:
        return None if await verifier.verify_token(token) is not None else noted[0]
    finally:
        refusals._noted.reset(reset)
