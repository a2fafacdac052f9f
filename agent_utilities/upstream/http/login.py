"""Logins at upstreams by OAuth: made once by the user, in a browser; used by every gateway from then on."""

from __future__ import annotations

import json
import logging
import shlex
import time
from collections.abc import AsyncGenerator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat, cast

import httpx2
from fastmcp.client.auth import OAuth
from key_value.aio.protocols import AsyncKeyValue

from agent_utilities.runtime.process_io import write_whole
from agent_utilities.upstream.folders import gateway_folder

if TYPE_CHECKING:
    from agent_utilities.upstream.config import UpstreamConfig

# The SDK logs the traceback of an error that it raises besides, and that is told in a line: only who set up logging
# for it is shown both.
logging.getLogger("mcp.client.auth").addHandler(logging.NullHandler())

_DONE = "login"
"""The key under which it is kept that a login was made."""


class LoginNeededError(PermissionError):
    """An upstream wants a login that nobody has made, or that has ended."""

    def __init__(self, upstream: str) -> None:
        super().__init__(f"it wants a login; run: agent-utilities gateway login {shlex.quote(upstream)}")


class TokenFiles:
    """Keeps values by key, each in a file of its own with mode 0600, swapped in whole.

    It has what FastMCP's OAuth asks of an `AsyncKeyValue`. Nothing is encrypted: a key beside the files would keep
    nobody out whom the mode does not.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, key: str, collection: str | None = None) -> dict[str, Any] | None:
        """Return a value; None where there is none, its time is over, or its file is damaged."""
        try:
            kept = json.loads(self._path(key, collection).read_bytes())
            value, ends_at_s = kept["value"], kept["ends_at_s"]
            is_over = ends_at_s is not None and ends_at_s <= time.time()
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return value if isinstance(value, dict) and not is_over else None

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        """Return what `read` does."""
        return self.read(key, collection)

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        """Keep a value, for `ttl` seconds."""
        ends_at_s = None if ttl is None else time.time() + float(ttl)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps({"value": dict(value), "ends_at_s": ends_at_s})
        write_whole(self._path(key, collection), text.encode())

    async def delete(self, key: str, *, collection: str | None = None) -> bool:
        """Forget a value, and return whether there was one."""
        try:
            self._path(key, collection).unlink()
        except FileNotFoundError:
            return False
        return True

    def clear(self) -> None:
        """Forget everything."""
        for path in self._folder.glob("*.json"):
            path.unlink(missing_ok=True)

    def _path(self, key: str, collection: str | None) -> Path:
        return self._folder / f"{blake2b(json.dumps([collection, key]).encode(), digest_size=16).hexdigest()}.json"


class Login(OAuth):
    """FastMCP's OAuth, whose tokens outlive the gateway, and which opens a browser only where the user asked for it.

    A gateway works behind others' backs, often where nobody sits: a window that asks for a password, unasked, is what
    a thief would open.
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
            token_storage=cast(AsyncKeyValue, tokens_of(config, folder)),
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
    """The login that nobody has made: no request is sent, and each says what to run."""

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
    """Return the user's login at an upstream; None where its config says another credential, or neither says one."""
    says_oauth = config.auth is not None and config.auth.get_secret_value() == "oauth"
    has_another = config.auth is not None or any(name.lower() == "authorization" for name in config.headers)
    if has_another and not says_oauth:
        return None
    if tokens_of(config, folder).read(_DONE) is not None:
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
