"""One person's login at one upstream: made in their browser, kept sealed, and renewed once for all requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from functools import partial
from typing import Any

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import BaseModel, ConfigDict

from agent_utilities.gateway.upstreams.config import OAuthClient, UpstreamConfig
from agent_utilities.gateway.upstreams.http.authorization import Authorization, Known, probe
from agent_utilities.gateway.upstreams.http.http_client import bounded_client
from agent_utilities.gateway.upstreams.sealed_store import SealedStore
from agent_utilities.runtime.waiting import in_daemon_thread

logger = logging.getLogger(__name__)

Start = Callable[[Callable[[], Awaitable[Any]]], "asyncio.Task[Any]"]
"""Starts a task that ends with the server; an error that it raises becomes its result."""
Name = tuple[str, ...]
"""The name of a login: its person's issuer and subject, and the upstream's name and address."""
RENEWAL_S = 20.0
"""Seconds that an authorization server has to renew a login."""
_LONG_AGO_S = 1.0
"""An expiry in the past; the SDK reads 0 as none."""


class OwnLoginNeededError(PermissionError):
    """A person has not logged in at an upstream, or the login has ended."""

    def __init__(self) -> None:
        super().__init__("it wants your own login, which was not made yet, or has ended")


class Kept(BaseModel):
    """A login as it is stored, with all that renewing it needs."""

    model_config = ConfigDict(frozen=True)

    tokens: OAuthToken
    client: OAuthClientInformationFull | None
    metadata: OAuthMetadata | None
    resource: ProtectedResourceMetadata | None
    expires_at_s: float | None

    @classmethod
    def of(cls, context: OAuthContext) -> Kept:
        assert context.current_tokens is not None
        return cls(
            tokens=context.current_tokens,
            client=context.client_info,
            metadata=context.oauth_metadata,
            resource=context.protected_resource_metadata,
            expires_at_s=context.token_expiry_time,
        )


class LoginStore:
    """Keeps people's logins, each under its name, in this machine's folder; see `SealedStore`."""

    folder: SealedStore
    """Set before anything is stored."""

    def __init__(self) -> None:
        self._unwritten: set[Name] = set()
        """Logins that could not be written; the folder may have older ones."""

    def follow(self, account: Account) -> None:
        """Notify an account of changes to its login by others, in stores that learn of them."""

    async def load(self, name: Name, here: Kept | None) -> Kept | None:
        """Return a stored login; where there is none, `here`, which is this process's own."""
        if name in self._unwritten:
            return here
        return await in_daemon_thread(partial(self.folder.load, Kept, *name)) or here

    async def keep(self, name: Name, kept: Kept | None) -> None:
        """Store a login in place of the one before; None for one that has ended."""
        write = partial(self.folder.save, kept, *name) if kept is not None else partial(self.folder.remove, *name)
        try:
            await in_daemon_thread(write)
            self._unwritten.discard(name)
        except OSError as error:
            self._unwritten.add(name)
            logger.warning("a login is kept in memory only: %s", error.strerror or type(error).__name__)

    def alone(self, name: Name) -> AbstractAsyncContextManager[None]:
        """Return a lock under which no other process that shares this store renews a login."""
        return nullcontext()


class Account(httpx2.Auth):
    """One person's login at one upstream, which authorizes every connection of theirs there.

    Args:
        config: the upstream's.
        person: issuer and subject.
        store: keeps it under its name, so that no token is sent to another address.
        start: starts a task that outlives the request that began it.
    """

    def __init__(self, config: UpstreamConfig, person: tuple[str, str], store: LoginStore, start: Start) -> None:
        self.person, self.upstream = person, config.name
        self._url, self._client = config.url.get_secret_value(), config.oauth or OAuthClient()
        self._headers = {name: value.get_secret_value() for name, value in config.headers.items()}
        self._store, self.name = store, ("login", *person, config.name, self._url)
        self._start, self._turn = start, asyncio.Lock()
        self._renewal: asyncio.Task[Any] | None = None
        self._kept: Kept | None = None
        self.has_login = asyncio.Event()
        self.on_login: Callable[[], None] = lambda: None
        store.follow(self)

    # -- storage -----------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read the login from the store; one that is made meanwhile stays."""
        before = self._kept
        async with self._turn:
            pass  # after a write that is under way
        kept = await self._store.load(self.name, before)
        if self._kept is before:
            self._take(kept)

    def _take(self, kept: Kept | None) -> None:
        if kept == self._kept:
            return
        self._kept = kept
        if kept is None:
            self.has_login.clear()
        elif not self.has_login.is_set():
            self.has_login.set()
            self.on_login()

    async def _keep(self, kept: Kept | None) -> None:
        """Use and store a login from now on; the last one is also written last."""
        self._take(kept)
        async with self._turn:
            await self._store.keep(self.name, self._kept)

    # -- making and using it -----------------------------------------------------------------------------------------

    async def authorization(self, redirect_uri: str) -> Authorization:
        """Return the authorization of new logins there, registered anew each time.

        A stored registration may be gone at the other end, and a browser would get an error page of theirs.
        """
        return await Authorization.at(self._url, redirect_uri, self._client, self._headers)

    async def logged_in(self, context: OAuthContext) -> None:
        """Store a new login in place of the one before."""
        await self._keep(Kept.of(context))

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request as the person; a token that is refused is renewed once."""
        token = ""
        for _ in range(2):
            token = await self._token(refused=token)
            request.headers["Authorization"] = f"Bearer {token}"
            response = yield request
            if response.status_code != 401:
                return
        await self.load()  # they may have logged in again by another process
        if self._kept is not None and self._kept.tokens.access_token == token:
            await self._keep(None)
        raise OwnLoginNeededError

    async def _token(self, refused: str) -> str:
        """Return a valid token that was not refused; a renewal is shared by all requests that wait for it.

        The renewal goes on even if its first request is cancelled: the issuer may have ended the old token by then.
        """
        kept = self._kept
        has_ended = kept is not None and kept.expires_at_s is not None and time.time() > kept.expires_at_s
        if kept is not None and (has_ended or kept.tokens.access_token == refused):
            if self._renewal is None or self._renewal.done():
                self._renewal = self._start(partial(self._renewed, kept))
            outcome = await asyncio.shield(self._renewal)
            if isinstance(outcome, Exception):
                raise outcome
            kept = outcome
        if kept is None:
            raise OwnLoginNeededError
        return kept.tokens.access_token

    async def _renewed(self, kept: Kept) -> Kept | None:
        """Return the login with new tokens; None where it has ended.

        Once another process has renewed it, an issuer may refuse the old token, or revoke the whole grant as stolen. So
        the store is read first, under its lock, and again after a failure.

        Raises:
            httpx2.TransportError: the authorization server can't be reached, or can't renew it for now.
        """
        async with self._store.alone(self.name):
            there = await self._store.load(self.name, kept)
            if there is not None and there.tokens == kept.tokens:
                there = await self._exchanged(kept) or await self._store.load(self.name, kept)
                if there is not None and there.tokens == kept.tokens:
                    there = None
            if self._kept is kept:  # else they have logged in again meanwhile
                await self._keep(there)
        return self._kept

    async def _exchanged(self, kept: Kept) -> Kept | None:
        """Return a login with the tokens of its authorization server; None where that refuses."""
        about = OAuthClientMetadata(redirect_uris=None)
        oauth = OAuthClientProvider(self._url, about, Known(kept.client, kept.tokens))
        oauth.context.oauth_metadata, oauth.context.protected_resource_metadata = kept.metadata, kept.resource
        oauth.context.token_expiry_time = _LONG_AGO_S
        request = probe(self._url, {})
        web = bounded_client(self._url, self._client.hosts)
        async with web as client, aclosing(oauth.async_auth_flow(request)) as flow:
            if (renewal := await anext(flow)) is not request:  # else there is nothing to renew it by
                try:
                    async with asyncio.timeout(RENEWAL_S):
                        response = await client.send(renewal)
                except TimeoutError:
                    raise httpx2.NetworkError("the authorization server did not answer in time") from None
                if response.status_code == 429 or response.status_code >= 500:
                    raise httpx2.NetworkError(f"the authorization server answered HTTP {response.status_code}")
                await flow.asend(response)
        return Kept.of(oauth.context) if oauth.context.is_token_valid() else None
