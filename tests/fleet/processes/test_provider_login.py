"""A login through a server that is the one client of a real OpenID provider: each step at another replica."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.server.dependencies import get_access_token
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_utilities import AgentServer, create_mcp_server
from tests.access.provider import CLIENT, Person, Provider
from tests.fleet.processes.replicas import Shared
from tests.gateway.logins.issuers import free_socket, on_socket

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.outside, pytest.mark.timeout(300)]
AT_HERE = ("/register", "/authorize", "/consent", "/mcp", "/.well-known")
"""Where a login begins, and what is used after it; the rest is the other replica's."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def notes(provider: Provider, url: str, shared: Shared) -> AgentServer:
    """Return a replica that its callers reach at a URL."""
    login = {"MCP_AUTH_ISSUER": provider.closed_url, "MCP_AUTH_BASE_URL": url}
    client = {"MCP_AUTH_CLIENT_ID": CLIENT[0], "MCP_AUTH_CLIENT_SECRET": CLIENT[1]}
    kept = {"MCP_GRAPH": "off", "MCP_CONFIG_FILE": "none"}
    server = create_mcp_server("notes", environ={**kept, **login, **client, **shared.environ})

    @server.tool
    def whoami() -> dict[str, Any]:
        token = get_access_token()
        assert token is not None
        return {"subject": token.subject, "client": token.client_id}

    return server


class Balancer:
    """Hands each request to one of two replicas, by its path.

    Args:
        here, there: where they are.
    """

    def __init__(self, here: str, there: str) -> None:
        self._here, self._there = here, there
        self.is_here: Callable[[str], bool] = lambda path: path.startswith(AT_HERE)
        self.seen: list[tuple[str, str]] = []
        """Each path, and which replica served it."""
        self.app = Starlette(routes=[Route("/{path:path}", self._hand_on, methods=["GET", "POST"])])

    async def _hand_on(self, request: Request) -> Response:
        path = request.url.path
        is_here = self.is_here(path)
        self.seen.append((path, "here" if is_here else "there"))
        target = f"{self._here if is_here else self._there}{path}?{request.url.query}"
        async with httpx2.AsyncClient(follow_redirects=False, timeout=60) as web:
            sent = await web.request(request.method, target, headers=request.headers.raw, content=await request.body())
        back = Response(sent.content, sent.status_code)
        names = (b"content-encoding", b"transfer-encoding", b"connection")
        back.raw_headers = [(name.lower(), value) for name, value in sent.headers.raw if name.lower() not in names]
        return back


@asynccontextmanager
async def fleet(folder: Path, shared: Shared) -> AsyncIterator[tuple[str, Balancer]]:
    """Serve two replicas behind one address for a block."""
    (front, url), (one, here), (other, there) = free_socket(), free_socket(), free_socket()
    provider, balancer = Provider(folder, f"{url}/auth/callback"), Balancer(here, there)
    provider.start()
    try:
        async with AsyncExitStack() as stack:
            for socket in (one, other):
                await stack.enter_async_context(on_socket(notes(provider, url, shared).http_app(), socket))
            await stack.enter_async_context(on_socket(balancer.app, front))
            yield f"{url}/mcp", balancer
    finally:
        provider.kill()


async def who(url: str, auth: Any) -> dict[str, Any]:
    async with Client(url, auth=auth, mode="2026-07-28") as client:
        return dict((await client.call_tool("whoami")).data)


async def test_is_begun_at_one_ended_at_the_other_and_used_at_both(shared: Shared, tmp_path: Path) -> None:
    async with fleet(tmp_path, shared) as (url, balancer):
        person = Person(url)
        said = await who(url, person)
        assert said["subject"] == "ann"
        at = dict(balancer.seen)
        steps = ("/register", "/authorize", "/auth/callback", "/token", "/mcp")
        assert [at[step] for step in steps] == ["here", "here", "there", "there", "here"]
        tokens = person.context.current_tokens
        assert tokens is not None
        for is_here in (True, False):
            balancer.is_here = lambda _, is_here=is_here: is_here
            assert await who(url, tokens.access_token) == said
        dumped = shared.told()
        secrets = (tokens.access_token, tokens.refresh_token or "", CLIENT[1], "ann")
        assert [secret for secret in secrets if secret.encode() in dumped] == []


async def test_that_was_revoked_at_one_is_renewed_by_none(shared: Shared, tmp_path: Path) -> None:
    async with fleet(tmp_path, shared) as (url, balancer), httpx2.AsyncClient() as web:
        person, base = Person(url), url.removesuffix("/mcp")
        await who(url, person)
        tokens, client = person.context.current_tokens, person.context.client_info
        assert tokens is not None
        assert client is not None
        form = {"grant_type": "refresh_token", "client_id": client.client_id}
        renewed = (await web.post(f"{base}/token", data={**form, "refresh_token": tokens.refresh_token})).json()
        balancer.is_here = lambda _: True
        assert (await who(url, renewed["access_token"]))["subject"] == "ann"
        ended = {"token": renewed["refresh_token"], "client_id": client.client_id, "client_secret": ""}
        revoked = await web.post(f"{base}/revoke", data=ended)
        assert revoked.status_code == 200, revoked.text
        for is_here in (True, False):
            balancer.is_here = lambda _, is_here=is_here: is_here
            again = await web.post(f"{base}/token", data={**form, "refresh_token": renewed["refresh_token"]})
            assert again.json()["error"] == "invalid_grant"


async def test_of_one_put_in_the_place_of_anothers_lets_nobody_in_as_them(shared: Shared, tmp_path: Path) -> None:
    async with fleet(tmp_path, shared) as (url, balancer):
        people = {name: Person(url, name) for name in ("ann", "bob")}
        kept: dict[str, set[bytes]] = {}
        for name, person in people.items():
            before = set(shared.admin.scan_iter())
            assert (await who(url, person))["subject"] == name
            kept[name] = set(shared.admin.scan_iter("agent-utilities:notes:logins:*")) - before
        balancer.is_here = lambda _: False  # which has looked at none of their tokens yet
        contents = {key: shared.admin.dump(key) for key in kept["ann"] | kept["bob"]}
        for ours in kept["ann"]:
            for theirs in kept["bob"]:
                shared.admin.restore(theirs, 0, contents[ours], replace=True)
        tokens = people["bob"].context.current_tokens
        assert tokens is not None
        async with httpx2.AsyncClient(headers={"authorization": f"Bearer {tokens.access_token}"}) as web:
            assert (await web.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})).status_code == 401
