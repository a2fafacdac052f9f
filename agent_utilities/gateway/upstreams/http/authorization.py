"""OAuth logins by authorization code, as the SDK does them, but in two steps without a task that waits between."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urljoin, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, PKCEParameters, TokenStorage
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import handle_token_response_scopes, validate_authorization_response_iss
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import AnyUrl

from agent_utilities.gateway.upstreams.config import OAuthClient
from agent_utilities.gateway.upstreams.http.http_client import OwnLoginError, bounded_client

LOGIN_S = 600.0
"""Seconds that a person has for a login, from the link to the end."""
ANSWER_S = 60.0
"""Seconds that an authorization server may take for one step."""


class _FoundError(BaseException):
    """Ends the SDK's flow once the address for the browser is known; as an `Exception` the SDK would log it."""


@dataclass(frozen=True)
class Known(TokenStorage):
    """Gives a flow of the SDK's its client and tokens; new ones are taken from the flow's context instead."""

    client: OAuthClientInformationFull | None
    tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_tokens(self, tokens: OAuthToken) -> None: ...

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None: ...


class Authorization:
    """A server's authorization server, and the client that is registered there.

    Args:
        context: the SDK's, after discovery and registration.
        address: the authorization endpoint for a browser.
        redirect_uri: where the browser comes back to.
        hosts: see `bounded_client`.
    """

    def __init__(self, context: OAuthContext, address: str, redirect_uri: str, hosts: Iterable[str]) -> None:
        self.context, self._address, self._redirect_uri, self._hosts = context, address, redirect_uri, hosts
        self.made_s, self.is_gone = time.monotonic(), False
        """When the client was registered, and whether the authorization server has forgotten it."""

    @classmethod
    async def at(cls, url: str, redirect_uri: str, client: OAuthClient, headers: Mapping[str, str]) -> Authorization:
        """Return the authorization for a server, by the SDK's discovery and registration.

        Args:
            url: the server's MCP endpoint.
            redirect_uri: where browsers come back to.
            client: of an authorization server that does not let clients register themselves.
            headers: of requests to the server itself.

        Raises:
            Exception: whatever the SDK raises where this fails.
            TimeoutError: it took too long.
        """
        (about, known), addresses = _client(client, redirect_uri), list[str]()

        async def stop() -> AuthorizationCodeResult:
            raise _FoundError

        async def show(address: str) -> None:
            metadata = oauth.context.oauth_metadata
            if known is not None and metadata is not None and (taken := metadata.token_endpoint_auth_methods_supported):
                if known.client_secret is not None and known.token_endpoint_auth_method not in taken:
                    known.token_endpoint_auth_method = "client_secret_post"  # some do not take what all must
            addresses.append(address)

        oauth = OAuthClientProvider(
            url, about, Known(known), show, stop, client_metadata_url=client.client_metadata_url
        )
        try:
            async with asyncio.timeout(ANSWER_S), bounded_client(url, client.hosts) as web:
                response = await web.send(probe(url, headers), auth=oauth, stream=True)
            raise OwnLoginError(f"it asked for no login, and answered HTTP {response.status_code}")
        except _FoundError:
            if urlsplit(addresses[0]).scheme not in ("http", "https"):
                raise OwnLoginError("its authorization server has no address that browsers can be sent to") from None
            return cls(oauth.context, addresses[0], redirect_uri, client.hosts)

    def send(self) -> tuple[str, str, str]:
        """Return the address for a browser to log in, the state that it comes back with, and our PKCE verifier."""
        pkce, state = PKCEParameters.generate(), secrets.token_urlsafe(32)
        drawn = {"state": state, "code_challenge": pkce.code_challenge}
        return str(httpx2.URL(self._address).copy_merge_params(drawn)), state, pkce.code_verifier

    async def take(self, verifier: str, query: Mapping[str, str]) -> OAuthContext:
        """Return the context with the tokens of a login, once the browser has come back.

        Args:
            verifier: the PKCE verifier of `send`.
            query: the one that the browser has come back with.

        Raises:
            Exception: the login was refused, or failed.
            TimeoutError: it took too long.
        """
        if "code" not in query:
            raise OwnLoginError(f"it was refused: {query.get('error', 'no reason')[:100]}")
        context = replace(self.context)
        metadata, client = context.oauth_metadata, context.client_info
        assert client is not None
        validate_authorization_response_iss(query.get("iss"), metadata)
        data = {
            "grant_type": "authorization_code",
            "code": query["code"],
            "redirect_uri": self._redirect_uri,
            "client_id": client.client_id,
            "code_verifier": verifier,
        }
        if context.should_include_resource_param(context.protocol_version):
            data["resource"] = context.get_resource_url()
        data, headers = context.prepare_token_auth(data, {})
        base = context.get_authorization_base_url(context.server_url)
        endpoint = str(metadata.token_endpoint) if metadata is not None else urljoin(base, "/token")
        async with asyncio.timeout(ANSWER_S), bounded_client(context.server_url, self._hosts) as web:
            response = await web.post(endpoint, data=data, headers=headers)
            if response.status_code not in (200, 201):
                self.is_gone = b"invalid_client" in response.content
                raise OwnLoginError(f"its authorization server answered HTTP {response.status_code}")
            tokens = await handle_token_response_scopes(response)
        tokens.scope = tokens.scope or context.client_metadata.scope
        context.current_tokens = tokens
        context.update_token_expiry(tokens)
        return context


def _client(client: OAuthClient, redirect_uri: str) -> tuple[OAuthClientMetadata, OAuthClientInformationFull | None]:
    """Return the metadata for a registration, and the client if the configuration has one."""
    secret = client.client_secret.get_secret_value() if client.client_secret is not None else None
    about = OAuthClientMetadata(
        client_name="agent-utilities gateway",
        redirect_uris=[AnyUrl(redirect_uri)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        scope=" ".join(client.scopes) or None,
        token_endpoint_auth_method="client_secret_basic" if secret is not None else "none",
    )
    if client.client_id is None:
        return about, None
    return about, OAuthClientInformationFull(client_id=client.client_id, client_secret=secret, **about.model_dump())


def probe(url: str, headers: Mapping[str, str]) -> httpx2.Request:
    """Return a request that a server answers with where to log in."""
    own = {"accept": "application/json, text/event-stream", MCP_PROTOCOL_VERSION_HEADER: LATEST_HANDSHAKE_VERSION}
    return httpx2.Request("POST", url, headers={**headers, **own}, json={"jsonrpc": "2.0", "id": 0, "method": "ping"})
