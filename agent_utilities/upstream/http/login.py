"""Logins at upstreams by OAuth: made once by the user, in a browser; used by every gateway from then on."""

from __future__ import annotations

import logging
import shlex
from collections.abc import AsyncGenerator
from hashlib import blake2b
from typing import TYPE_CHECKING

import httpx2
from fastmcp.client.auth import OAuth

from agent_utilities.upstream.folders import gateway_folder
from agent_utilities.upstream.http.token_files import TokenFiles

if TYPE_CHECKING:
    from agent_utilities.upstream.config import UpstreamConfig

# The SDK logs the traceback of an error that it raises besides, and that is told in a line: only who set up logging
# for it is shown both.
logging.getLogger("mcp.client.auth").addHandler(logging.NullHandler())


class LoginNeededError(PermissionError):
    """An upstream wants a login that nobody has made, or that has ended."""

    def __init__(self, upstream: str) -> None:
        super().__init__(f"it wants a login; run: agent-utilities gateway login {shlex.quote(upstream)}")


class Login(OAuth):
    """FastMCP's OAuth, whose tokens outlive the gateway, and which opens a browser only where the user asked for it.

    A gateway works behind others' backs, often where nobody sits: a window that asks for a password, unasked, is what
    a thief would open.

    Args:
        config: the upstream's.
        folder: the folder that the operator names for what gateways keep; the user's own where blank.
        is_asked_for: whether the user waits for a browser.
    """

    def __init__(self, config: UpstreamConfig, folder: str, *, is_asked_for: bool = False) -> None:
        client = config.oauth
        secret = client.client_secret if client is not None else None
        self._upstream, self._is_asked_for = config.name, is_asked_for
        super().__init__(
            client_name="agent-utilities gateway",
            scopes=list(client.scopes) or None if client is not None else None,
            callback_port=client.callback_port if client is not None else None,
            client_id=client.client_id if client is not None else None,
            client_secret=secret.get_secret_value() if secret is not None else None,
            token_storage=tokens_of(config, folder),
        )

    async def redirect_handler(self, authorization_url: str) -> None:
        """Open the browser where the user waits for it.

        Raises:
            LoginNeededError: nobody does.
        """
        if not self._is_asked_for:
            raise LoginNeededError(self._upstream)
        await super().redirect_handler(authorization_url)


def tokens_of(config: UpstreamConfig, folder: str) -> TokenFiles:
    """Return where an upstream's tokens are kept: by its name and address, so that none is shown to another address."""
    place = f"{config.name}\0{config.url.get_secret_value()}".encode("utf-8", "surrogatepass")
    return TokenFiles(gateway_folder("tokens", folder) / blake2b(place, digest_size=16).hexdigest())


class NoLogin(httpx2.Auth):
    """The login that nobody has made: no request is sent, and each says what to run.

    Args:
        upstream: the upstream's name.
    """

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Refuse a request.

        Raises:
            LoginNeededError: always.
        """
        raise LoginNeededError(self._upstream)
        yield request


def login_of(config: UpstreamConfig, folder: str) -> Login | NoLogin | None:
    """Return the user's login at an upstream; None where its config says another credential, or neither says one.

    Args:
        config: the upstream's.
        folder: the folder that the operator names for what gateways keep; the user's own where blank.
    """
    says_oauth = config.auth is not None and config.auth.get_secret_value() == "oauth"
    has_another = config.auth is not None or any(name.lower() == "authorization" for name in config.headers)
    if has_another and not says_oauth:
        return None
    if tokens_of(config, folder).read(_DONE)[0] is not None:
        return Login(config, folder)
    return NoLogin(config.name) if says_oauth else None


async def log_in(config: UpstreamConfig, folder: str) -> None:
    """Have the user log in at an upstream, in a browser, and keep what it gives; an earlier login is forgotten.

    Raises:
        Exception: whatever the client raises where the login fails.
    """
    from fastmcp import Client
    from fastmcp.client.transports import SSETransport, StreamableHttpTransport

    transport = SSETransport if config.transport == "sse" else StreamableHttpTransport
    headers = {name: value.get_secret_value() for name, value in config.headers.items()}
    tokens = tokens_of(config, folder)
    tokens.clear()
    login = Login(config, folder, is_asked_for=True)
    async with Client(transport(config.url.get_secret_value(), headers=headers, auth=login)):
        await tokens.put(_DONE, {"upstream": config.name})


_DONE = "login"
"""The key under which it is kept that a login was made."""
