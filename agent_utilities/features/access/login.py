"""The login in front of a server that its settings ask for, over the verifiers of an issuer and of a file of tokens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
from fastmcp.server.auth import AccessToken, AuthProvider, MultiAuth, RemoteAuthProvider, TokenVerifier
from starlette.middleware import Middleware
from starlette.routing import Route

from agent_utilities.access.rules import LOCAL
from agent_utilities.access.token_file import PREFIX, Token, read_tokens
from agent_utilities.errors import SettingsError
from agent_utilities.features.access import refusals
from agent_utilities.features.access.issuer import Issuer, IssuerUnreachable, as_spelled
from agent_utilities.features.access.oidc import OidcVerifier
from agent_utilities.features.access.refusals import TellsWhy, note
from agent_utilities.runtime.hosts import is_loopback

if TYPE_CHECKING:
    from agent_utilities.settings import Settings
    from agent_utilities.state.redis_state import RedisState

logger = logging.getLogger("agent_utilities.access")


class FileTokens(TokenVerifier):
    """Verifies tokens of a file, and notes why it refuses one.

    Args:
        path: the file.
        is_revoked: returns whether another replica took a token of this SHA-256 out of its file.

    Raises:
        InputError: it can't be read.
    """

    def __init__(self, path: Path, is_revoked: Callable[[str], bool] | None = None) -> None:
        super().__init__()
        self.path, self.file, self._is_revoked = path, read_tokens(path), is_revoked or (lambda _: False)

    def find(self, text: str) -> Token | None:
        """Return the token that a text is, expired or not; None for one that is revoked."""
        found = self.file.find(text)
        return None if found is None or self._is_revoked(found.sha256) else found

    def taken(self) -> frozenset[Token]:
        """Return the tokens that are neither over nor revoked."""
        return frozenset(token for token in self.file.taken() if not self._is_revoked(token.sha256))

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return whom a token speaks for; None for one that the file does not have, or no more."""
        found = self.find(token)
        if found is None or found.is_over():
            note(refusals.EXPIRED if found else refusals.UNKNOWN)
            return None
        return AccessToken(
            token=token,
            client_id=found.name,
            scopes=[],
            expires_at=int(found.expires.timestamp()) if found.expires else None,
            subject=found.name,
            claims={"iss": LOCAL, "sub": found.name},
        )


class Login(MultiAuth):
    """What callers log in with: tokens of a file, those of an issuer, or both.

    FastMCP's `MultiAuth` tries one source after another and renames clients; here a token's first letters tell whose
    it is, and its client stays who it is.

    Args:
        tokens: verifies tokens of the operator's file.
        verifier: verifies the issuer's.
        server: takes the issuer's, and tells clients where to log in.
    """

    def __init__(
        self, tokens: TokenVerifier | None, verifier: OidcVerifier | None = None, server: AuthProvider | None = None
    ) -> None:
        # Scopes are for the issuer's verifier to refuse: tokens of the file have none.
        named = {"file": tokens} if tokens else None
        super().__init__(
            server=server, server_source_id="issuer" if server else None, verifiers=named, required_scopes=[]
        )
        self._tokens, self._verifier = tokens, verifier

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return whom a token speaks for, or None with the reason noted."""
        if self.server is not None and (self._tokens is None or not token.startswith(PREFIX)):
            return await self.server.verify_token(token)
        return await self._tokens.verify_token(token) if self._tokens is not None else None

    def get_routes(self, mcp_path: str | None = None) -> list[Route]:
        """Return the routes of the login, once the endpoint's URL is known to be the audience."""
        if self._verifier is not None:
            self._verifier.bind(f"{str(self.base_url).rstrip('/')}/{(mcp_path or '').lstrip('/')}")
        return super().get_routes(mcp_path)

    def get_challenge_scopes(self, required_scopes: list[str] | None = None) -> list[str]:
        """Return the scopes that a client is told to ask the issuer for."""
        return self.server.get_challenge_scopes() if self.server else []

    def get_middleware(self) -> list[Middleware]:
        """Return what reads tokens, within what says why one was refused."""
        return [Middleware(TellsWhy), *super().get_middleware()]

    @property
    def trouble(self) -> str:
        """What everybody may be told where tokens can't be checked as they should be: no names."""
        is_down = self._verifier is not None and self._verifier.issuer.trouble
        return "the issuer of tokens can't be asked; known keys are taken for 24 h" if is_down else ""


class Remote(RemoteAuthProvider):
    """Tells clients where to log in: at the issuer, whose tokens are taken here."""

    @property
    def scopes_supported(self) -> list[str] | None:  # type: ignore[override]  # FastMCP's own routes take None
        """The scopes to ask for; none named, since clients take an empty list to the letter."""
        return self.token_verifier.required_scopes or None


def login_of(settings: Settings, tokens: TokenVerifier | None = None, state: RedisState | None = None) -> Login | None:
    """Return the login that settings ask for; None where they ask for none.

    Clients log in at an issuer that registers them, or takes their metadata documents. Before another, where a client
    id and secret are configured, this server stands as its one client. Which it is has to be known at the start: by a
    login of the other kind clients would lose the tokens that they have.

    Args:
        settings: the operator's.
        tokens: verifies tokens of the operator's file.
        state: what replicas share, if they do: logins through this server are in it.

    Raises:
        SettingsError: they can't be served.
    """
    _check(settings)
    if not settings.auth_issuer:
        return Login(tokens) if tokens else None
    secret = settings.auth_client_secret.get_secret_value()
    client = (settings.auth_client_id, secret) if secret else None
    scopes = settings.auth_scopes.replace(",", " ").split()
    verifier = OidcVerifier(Issuer(settings.auth_issuer), settings.auth_audience, scopes, client)
    document = _asked(settings.auth_issuer) if client else {"registration_endpoint": "not needed"}
    if document.get("registration_endpoint") or document.get("client_id_metadata_document_supported"):
        servers = [as_spelled(settings.auth_issuer)]
        return Login(tokens, verifier, Remote(verifier, servers, base_url=settings.auth_base_url))
    from agent_utilities.features.access.proxy import Proxy  # FastMCP takes most of a second to load it

    return Login(tokens, verifier, Proxy(settings, document, verifier, state))


def _asked(url: str) -> Mapping[str, Any]:
    with ThreadPoolExecutor(1) as thread:  # There may be a loop in this one.
        try:
            return thread.submit(anyio.run, Issuer(url).keys).result().document
        except IssuerUnreachable as error:
            hint = f"with a client id it must answer at the start, whether it registers clients: {error}"
            raise SettingsError("the issuer can't be asked", url, "auth_issuer", hint) from None


def _check(settings: Settings) -> None:
    issuer, secret = settings.auth_issuer, settings.auth_client_secret.get_secret_value()
    if not issuer:
        given = {name: getattr(settings, name) for name in ("auth_audience", "auth_client_id", "auth_scopes")}
        for alone, value in {**given, "auth_client_secret": secret}.items():
            if value:
                raise SettingsError("nothing is verified by it", alone, alone, "set auth_issuer too, or leave it out")
        return
    if not settings.auth_base_url:
        hint = "set it to this server's URL without /mcp as callers reach it, such as https://tools.example"
        raise SettingsError("the issuer's tokens are for nobody", "", "auth_base_url", hint)
    for name, url in (("auth_issuer", issuer), ("auth_base_url", settings.auth_base_url)):
        parts = urlsplit(url)
        if parts.scheme not in ("https", "http") or not parts.hostname or parts.username or "?" in url:
            hint = "write it as https://login.example/realms/team"
            raise SettingsError("not a URL that will do", url.rpartition("@")[2], name, hint)
    if issuer.startswith("http:") and not is_loopback(urlsplit(issuer).hostname or ""):
        logger.warning("the issuer %s is asked over plain HTTP: whoever stands between can let anybody in", issuer)
    if bool(settings.auth_client_id) != bool(secret):
        missing = "auth_client_secret" if settings.auth_client_id else "auth_client_id"
        raise SettingsError("it is missing", "", missing, "auth_client_id and auth_client_secret go together")
