"""A gateway whose callers log in at its upstreams themselves, on real sockets, with real issuers."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server.auth import AuthProvider

from agent_utilities import AgentServer, create_gateway
from agent_utilities.access.token_file import new_token
from agent_utilities.gateway.upstreams.sealed_store import new_key
from tests.gateway.logins.issuers import Browser, Issuer, free_socket, mailbox, on_socket

KEY = new_key()
LOGGED_IN = "You are logged in at mail, and its 1 tools are listed now."


class Office:
    """A gateway with a server `mail` behind it that each caller logs in at.

    Args:
        url: of the gateway.
        issuer: of the server behind it.
        ann, bob: tokens of two people.
        folder: where the gateway keeps things.
    """

    def __init__(self, url: str, issuer: Issuer, folder: Path, gateway: AgentServer, ann: str, bob: str) -> None:
        self.url, self.issuer, self.folder, self.gateway = url, issuer, folder, gateway
        self.ann, self.bob = ann, bob
        self.gate = gateway.auth if isinstance(gateway.auth, Issuer) else None
        """The issuer that its callers log in at, if they do."""
        self.kept = folder / "kept" / "logins"

    @asynccontextmanager
    async def restarted(self, **environ: str) -> AsyncIterator[Office]:
        """Serve another gateway for a block, as the next process of the same operator would."""
        bound, url = free_socket()
        gateway = gateway_at(url, self.issuer.url, self.folder, environ)
        async with on_socket(gateway.http_app(), bound):
            yield Office(url, self.issuer, self.folder, gateway, self.ann, self.bob)

    def client(self, token: str, **options: Any) -> Client[Any]:
        """Return a client of somebody's."""
        return Client(StreamableHttpTransport(f"{self.url}/mcp", auth=token), **options)


def gateway_at(
    url: str, mail_url: str, folder: Path, environ: Mapping[str, str], auth: AuthProvider | None = None
) -> AgentServer:
    """Return a gateway that is to be served at a URL."""
    given = {
        "PATH": os.environ["PATH"],
        "MCP_GRAPH": "off",
        "MCP_CONFIG_FILE": "none",
        "MCP_GATEWAY_FOLDER": str(folder / "kept"),
        "MCP_AUTH_TOKENS": str(folder / "tokens.json"),
        "MCP_AUTH_BASE_URL": url,
        "MCP_SECRET_KEY": KEY,
        "MCP_FIRST_LIST_S": "0",
        "MCP_RESULT_TOKENS": "off",
        **environ,
    }
    servers = {"mail": {"url": f"{mail_url}/mcp", "credentials": "caller"}}
    if auth is not None or "MCP_AUTH_ISSUER" in environ:
        del given["MCP_AUTH_TOKENS"]
    return create_gateway({"mcpServers": servers}, environ=given, auth=auth)


@asynccontextmanager
async def office(folder: Path, *, has_issuer: bool = False, **environ: str) -> AsyncIterator[Office]:
    """Serve one for a block.

    Args:
        folder: where it keeps things.
        has_issuer: whether its callers log in at an issuer; else by tokens of a file.
        environ: of its environment besides.
    """
    (mail_socket, mail_url), (gateway_socket, url) = free_socket(), free_socket()
    mail, issuer = mailbox(mail_url)
    gate = Issuer(url, "at_gate") if has_issuer else None
    ann, bob = (gate.token(name) if gate else new_token(folder / "tokens.json", name) for name in ("ann", "bob"))
    gateway = gateway_at(url, mail_url, folder, environ, gate)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(on_socket(mail.http_app(), mail_socket))
        await stack.enter_async_context(on_socket(gateway.http_app(), gateway_socket))
        yield Office(url, issuer, folder, gateway, ann, bob)


async def log_in(link: str, token: str, **cookies: str) -> None:
    """Log in by a link in a person's browser."""
    async with Browser(**cookies) as browser:
        assert await browser.open(link) == 200, browser.page
        assert await browser.press(token=token) == 200, browser.page
        assert await browser.press() == 200, browser.page
        assert "You can close this page" in browser.page


def link_in(text: str) -> str:
    """Return the link in a text."""
    found = re.search(r"http\S+/logins/\S+", text)
    assert found is not None, text
    return found[0]


async def told(client: Client[Any], tool: str = "mail_login") -> tuple[bool, str]:
    """Return whether a call failed, and the text that it was answered with."""
    result = await client.call_tool(tool, raise_on_error=False)
    (content,) = result.content
    assert isinstance(content, mcp_types.TextContent)
    return result.is_error, content.text


async def asked(client: Client[Any]) -> str:
    """Return the link that somebody is given in an error."""
    is_error, text = await told(client)
    assert is_error
    return link_in(text)


async def logged_in(at: Office, token: str, account: str) -> None:
    """Have somebody log in, and listed what there is for them."""
    async with at.client(token) as client:
        await log_in(await asked(client), token, at_mail=account)
        assert await told(client) == (False, LOGGED_IN)


async def has_login(at: Office, token: str) -> bool:
    """Whether somebody is logged in at the server behind."""
    async with at.client(token) as client:
        return await told(client) == (False, LOGGED_IN)
