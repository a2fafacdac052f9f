"""The user's own OAuth logins at upstreams: made once in a browser, and used by every gateway from then on."""

from __future__ import annotations

import shlex
import shutil
from functools import partial
from hashlib import blake2b
from pathlib import Path

import httpx2
from fastmcp.client.auth import BearerAuth, OAuth
from key_value.aio.stores.filetree import (
    FileTreeStore,
    FileTreeV1CollectionSanitizationStrategy,
    FileTreeV1KeySanitizationStrategy,
)

from agent_utilities.gateway.upstreams.config import OAuthClient, UpstreamConfig
from agent_utilities.gateway.upstreams.errors import UpstreamError
from agent_utilities.gateway.upstreams.folders import gateway_folder
from agent_utilities.gateway.upstreams.http.http_client import Guard

DONE = "login"
"""The file whose presence means that a login was made."""


class LoginNeededError(PermissionError):
    """An upstream requires a login that nobody has made, or that has ended."""

    def __init__(self, upstream: str) -> None:
        super().__init__(f"it wants a login; run: agent-utilities gateway login {shlex.quote(upstream)}")


class Login(OAuth):
    """FastMCP's OAuth with tokens that outlive the gateway; it opens a browser only where the user requests that.

    A gateway often runs where nobody sits, and an unexpected window that wants a password is what a thief would open.
    """

    def __init__(self, config: UpstreamConfig, folder: str, *, is_asked_for: bool = False) -> None:
        client = config.oauth or OAuthClient()
        secret = client.client_secret
        self._upstream, self._is_asked_for = config.name, is_asked_for
        super().__init__(
            config.url.get_secret_value(),
            client_name="agent-utilities gateway",
            scopes=list(client.scopes) or None,
            callback_port=client.callback_port,
            client_id=client.client_id,
            client_metadata_url=client.client_metadata_url,
            client_secret=secret.get_secret_value() if secret is not None else None,
            # Every authorization server must support this (RFC 6749 2.3.1); FastMCP would send the secret in the body.
            additional_client_metadata={"token_endpoint_auth_method": "client_secret_basic"} if secret else None,
            token_storage=_store(tokens_of(config, folder)),
        )

    async def redirect_handler(self, authorization_url: str) -> None:
        """Open the browser; `LoginNeededError` where no user waits for it."""
        if not self._is_asked_for:
            raise LoginNeededError(self._upstream)
        await super().redirect_handler(authorization_url)


def tokens_of(config: UpstreamConfig, folder: str) -> Path:
    """Return the folder of an upstream's tokens, by its name and address: no token is sent to another address."""
    place = f"{config.name}\0{config.url.get_secret_value()}".encode("utf-8", "surrogatepass")
    return gateway_folder("tokens", folder) / blake2b(place, digest_size=16).hexdigest()


def _store(folder: Path) -> FileTreeStore:
    """Return a store of tokens in a folder that only the user can read.

    Nothing is encrypted: a key beside the files would keep out nobody whom the mode lets in.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return FileTreeStore(
        data_directory=folder,
        key_sanitization_strategy=FileTreeV1KeySanitizationStrategy(folder),
        collection_sanitization_strategy=FileTreeV1CollectionSanitizationStrategy(folder),
    )


def auth_of(config: UpstreamConfig, folder: str) -> httpx2.Auth | None:
    """Return the authentication at an upstream: the token of its config, or the user's login; None for neither.

    Where callers have logins of their own the caller is the user: over stdio, and on the command line.

    Raises:
        UpstreamError: its config requires a login, and nobody has made it.
    """
    token = config.auth.get_secret_value() if config.auth is not None else ""
    says_oauth = token == "oauth" or config.credentials == "caller"
    if token and not says_oauth:
        return BearerAuth(token)
    if not says_oauth and any(name.lower() == "authorization" for name in config.headers):
        return None
    if (tokens_of(config, folder) / DONE).exists():
        return Login(config, folder)
    if says_oauth:
        raise UpstreamError(config.name, "refused", str(LoginNeededError(config.name)))
    return None


async def log_in(config: UpstreamConfig, folder: str) -> None:
    """Have the user log in at an upstream in a browser, and replace stored tokens; errors of the client raise."""
    from fastmcp import Client
    from fastmcp.client.transports import SSETransport, StreamableHttpTransport

    transport = SSETransport if config.transport == "sse" else StreamableHttpTransport
    headers = {name: value.get_secret_value() for name, value in config.headers.items()}
    tokens = tokens_of(config, folder)
    shutil.rmtree(tokens, ignore_errors=True)
    login, url = Login(config, folder, is_asked_for=True), config.url.get_secret_value()
    guard = Guard(url, (config.oauth or OAuthClient()).hosts)
    made = partial(httpx2.AsyncClient, event_hooks={"request": [guard]})
    async with Client(transport(url, headers=headers, auth=login, httpx_client_factory=made)):
        (tokens / DONE).touch()
