"""`Proxy`: the server as an OAuth client of an issuer without client registration; it issues tokens of its own."""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import httpx2
from fastmcp.server.auth import AccessToken
from fastmcp.server.auth.oidc_proxy import OIDCConfiguration, OIDCProxy
from joserfc.errors import JoseError
from mcp.server.auth.provider import AuthorizationParams, RefreshToken
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.exceptions import HTTPException

from agent_utilities.access import refusals
from agent_utilities.access.issuer import as_spelled, discovery_urls
from agent_utilities.access.oidc import OPAQUE_S, OidcVerifier, remembering
from agent_utilities.access.refusals import note, noted

if TYPE_CHECKING:
    from agent_utilities.settings import Settings
    from agent_utilities.state.redis_state import RedisState


class Proxy(OIDCProxy):
    """Authorizes clients at an issuer without client registration, as its one client, and issues its own tokens.

    Args:
        settings: the operator's.
        document: the issuer's discovery document.
        verifier: verifies the issuer's tokens.
        state: what replicas share: then a login at one is one at all.
    """

    def __init__(
        self,
        settings: Settings,
        document: Mapping[str, Any],
        verifier: OidcVerifier,
        state: RedisState | None = None,
    ) -> None:
        self._document, self._verifier, self._seen = document, verifier, remembering()
        # With these a login outlives the issuer's first token.
        lasting = {"openid", "offline_access"}.intersection(document.get("scopes_supported", ()))
        shared: dict[str, Any] = {}
        if state is not None:
            from agent_utilities.state.redis_state import SharedValues

            key = urlsafe_b64encode(state.derived("login"))
            shared = {"client_storage": SharedValues(state, "logins"), "jwt_signing_key": key}
        super().__init__(
            config_url=discovery_urls(settings.auth_issuer)[0],
            client_id=settings.auth_client_id,
            client_secret=settings.auth_client_secret.get_secret_value(),
            token_verifier=verifier,
            base_url=as_spelled(settings.auth_base_url.rstrip("/")),
            valid_scopes=[*verifier.required_scopes, *sorted(lasting.difference(verifier.required_scopes))],
            # OpenID Connect Core §11: without it `offline_access` is ignored.
            extra_authorize_params={"prompt": "consent"} if "offline_access" in lasting else None,
            # An audience that is not the endpoint's URL is requested by its own name alone.
            audience=settings.auth_audience or None,
            forward_resource=not settings.auth_audience,
            **shared,
        )

    def get_oidc_configuration(self, *_: object, **__: object) -> OIDCConfiguration:
        """Return the issuer's discovery document, which was fetched and checked before."""
        return OIDCConfiguration.model_validate({**self._document, "strict": False})

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """Return the URL at which a client logs in; without scopes of its own it requests those that a login needs."""
        scopes = params.scopes or self.scopes_supported
        return await super().authorize(client, params.model_copy(update={"scopes": scopes}))

    async def load_access_token(self, token: str) -> AccessToken | None:
        """Return the person that a token of this server identifies, and the client that it was issued to.

        FastMCP names its own client at the issuer instead, and reads three files each time; here a verified login is
        cached for some seconds.
        """
        if (known := self._seen.get(token)) is not None:
            return known[0]
        try:
            own = self.jwt_issuer.verify_token(token)
        except (JoseError, ValueError, TypeError) as error:
            note(refusals.EXPIRED if "expired" in str(error) else refusals.NOT_FROM_HERE)
            return None
        verified = await super().load_access_token(token)
        if not isinstance(verified, AccessToken):
            if noted() is refusals.EXPIRED:  # The issuer's token was not renewed: it may be that nobody answered.
                issuer = self._verifier.issuer
                await issuer.renewed(issuer.known)
                if issuer.trouble:
                    note(refusals.UNREACHABLE)
            else:
                note(noted() or refusals.LOGIN_ENDED)
            return None
        end = min(int(own["exp"]), verified.expires_at or int(own["exp"]))
        verified = verified.model_copy(update={"client_id": str(own["client_id"]), "expires_at": end})
        self._seen[token] = verified, time.time() + OPAQUE_S
        return verified

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        """Refresh a login; where the issuer does not answer, respond 503: the client keeps its login."""
        try:
            return await super().exchange_refresh_token(client, refresh_token, scopes)
        except httpx2.HTTPError:
            raise HTTPException(503, refusals.UNREACHABLE.text, {"retry-after": str(refusals.RETRY_S)}) from None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:  # type: ignore[override]  # as FastMCP's own
        """Revoke a token, and clear the cache of verified ones."""
        await super().revoke_token(token)
        self._seen.clear()
