"""Verifies access tokens of an OpenID issuer: JWTs by its keys, opaque ones by introspection.

FastMCP's `JWTVerifier` takes one algorithm, tokens without an end or a subject, and ID tokens, and does not say why it
refuses one; so only the interface is FastMCP's, and signatures are joserfc's.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from hashlib import blake2b
from typing import Any
from urllib.parse import quote_plus
from weakref import WeakValueDictionary

import anyio
import httpx2
from cachetools import LRUCache, TLRUCache, TTLCache
from fastmcp.server.auth import AccessToken, TokenVerifier
from joserfc import jws
from joserfc.errors import JoseError

from agent_utilities.access import refusals
from agent_utilities.access.issuer import Issuer, IssuerUnreachable, Keys
from agent_utilities.access.refusals import TokenRefused, note, sender
from agent_utilities.access.token_file import PREFIX

LEEWAY_S = 30
"""Seconds that clocks may differ by. None for the end of a token, which an issuer chooses with that in mind."""
OPAQUE_S = 10
"""Seconds for which an introspected token is cached: one that is revoked at its issuer is refused soon after."""
_REFUSED_S = 3
"""Seconds for which a refusal is cached: the issuer may not know of a new token everywhere at once."""
_N_KNOWN, _N_STRANGERS, _WAIT_S = 10_000, 4, 5
"""How many opaque tokens are cached as good, and as refused; how many unknown ones are introspected at once, and the
seconds that one waits for its turn."""
_OPAQUE = re.compile(rf"(?!{PREFIX})[A-Za-z0-9._~+/-]+=*")
"""What may be one: RFC 6750 §2.1, and none of a file's."""
_MEMO_BYTES = 16 << 20
_LONGEST = 16 << 10
_ALGORITHMS = frozenset("RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519 Ed448".split())
_ACCESS_TYPES = ("at+jwt", "application/at+jwt")
_OF_ID_TOKENS = frozenset(("nonce", "at_hash", "c_hash", "s_hash", "events"))

Claims = Mapping[str, Any]


class _Registry(jws.JWSRegistry):
    """Which algorithms are accepted; advice on which to sign with is for issuers."""

    max_header_length = 8 << 10  # Some carry certificates, which are not looked at.

    def get_alg(self, name: str) -> Any:
        if name not in _ALGORITHMS:
            raise TokenRefused(refusals.UNSIGNED if name.lower() == "none" else refusals.WRONG_ALGORITHM)
        return self.algorithms[name]


_REGISTRY = _Registry(strict_check_header=False)


Seen = TLRUCache[str, tuple[AccessToken, float]]
"""Tokens that were verified, each with the time until which that is taken."""


def remembering(clock: Callable[[], float] = time.time) -> Seen:
    """Return a cache of verified tokens, bounded in bytes, that drops each at its end.

    Args:
        clock: seconds since 1970.
    """
    return TLRUCache(
        _MEMO_BYTES,
        ttu=lambda _, entry, __: min(entry[1], entry[0].expires_at or entry[1]),
        timer=clock,
        getsizeof=lambda entry: 2048 + 4 * len(entry[0].token),
    )


class OidcVerifier(TokenVerifier):
    """Verifies access tokens of one issuer, and notes why it refuses one. A missing scope is refused here too.

    Args:
        issuer: whose tokens are taken.
        audience: whom they must be for; the endpoint's URL where blank.
        scopes: what each must hold.
        client: id and secret for the introspection of opaque tokens; these are refused where None.
    """

    def __init__(
        self, issuer: Issuer, audience: str = "", scopes: Sequence[str] = (), client: tuple[str, str] | None = None
    ) -> None:
        super().__init__(required_scopes=list(scopes))
        self.issuer, self._client, self._clock = issuer, client, issuer.clock
        self._audience, self._audiences = audience, {audience} - {""}
        self._seen = remembering(issuer.clock)
        self._seen_by: Keys | None = None
        self._good: LRUCache[bytes, None] = LRUCache(_N_KNOWN)
        """Opaque tokens that were good at their last introspection."""
        self._refused: TTLCache[bytes, refusals.Reason] = TTLCache(_N_KNOWN, _REFUSED_S, issuer.clock)
        self._asking: WeakValueDictionary[bytes, anyio.Lock] = WeakValueDictionary()
        self._senders: WeakValueDictionary[str, anyio.CapacityLimiter] = WeakValueDictionary()
        self._strangers = anyio.CapacityLimiter(_N_STRANGERS)

    def bind(self, resource: str) -> None:
        """Accept the endpoint's URL, with or without a slash at its end, as the audience where none is configured."""
        if not self._audience:
            self._audiences = {resource.rstrip("/"), resource.rstrip("/") + "/"}

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the caller that a token identifies, or None with the reason noted."""
        try:
            known = self._seen.get(token)
            verified = await self._verified(token) if known is None else known[0]
            note()
            return verified
        except TokenRefused as refused:
            note(refused.reason)
        except IssuerUnreachable:
            note(refusals.UNREACHABLE)
        return None

    async def _verified(self, token: str) -> AccessToken:
        if (jwt := read(token)) is None:
            return await self._verified_opaque(token)
        signed, claims = jwt[0], self._checked(jwt[1])
        if claims.get("exp") is None:
            raise TokenRefused(refusals.NO_EXPIRY)
        check_kind(signed.headers(), claims, self._client[0] if self._client else None)
        # Last, since it may cost the issuer a request: a token that could not be good never does.
        return self._taken(token, claims, (await self._check_signature(signed)).fresh_until)

    async def _verified_opaque(self, token: str) -> AccessToken:
        """Return the caller that an opaque token identifies by introspection; one of another form is not sent."""
        if self._client is None or len(token) > _LONGEST or not _OPAQUE.fullmatch(token):
            raise TokenRefused(refusals.UNREADABLE)
        name = blake2b(token.encode(), digest_size=16).digest()
        async with self._turn(name):
            if (known := self._seen.get(token)) is not None:  # another request asked
                return known[0]
            if (reason := self._refused.get(name)) is not None:
                raise TokenRefused(reason)
            try:
                verified = self._taken(token, await self._introspected(token), self._clock() + OPAQUE_S)
            except TokenRefused as refused:
                self._good.pop(name, None)
                self._refused[name] = refused.reason
                raise
            self._good[name] = None
            return verified

    @asynccontextmanager
    async def _turn(self, name: bytes) -> AsyncIterator[None]:
        """Limit introspection: one request at a time for a token, few unknown tokens at once, fewer from one address.

        So a caller with a good token does not wait for strangers who make theirs up.
        """
        async with AsyncExitStack() as turn:
            try:
                with anyio.fail_after(_WAIT_S):
                    await turn.enter_async_context(self._asking.setdefault(name, anyio.Lock()))
                    if name not in self._good and name not in self._refused:
                        own = self._senders.setdefault(sender.get(), anyio.CapacityLimiter(_N_STRANGERS // 2))
                        await turn.enter_async_context(own)
                        await turn.enter_async_context(self._strangers)
            except TimeoutError:
                raise IssuerUnreachable("others are asked about") from None
            yield

    def _taken(self, token: str, claims: Claims, until: float) -> AccessToken:
        claim = claims.get("scope", claims.get("scp"))  # some issuers call them `scp`, and some write a list
        scopes = claim.split() if isinstance(claim, str) else _texts(claim)
        if not set(self.required_scopes) <= set(scopes):
            raise TokenRefused(refusals.MISSING_SCOPE)
        verified = AccessToken(
            token=token,
            client_id=next(iter(_texts(claims.get("client_id")) + _texts(claims.get("azp"))), ""),
            scopes=scopes,
            expires_at=None if claims.get("exp") is None else int(claims["exp"]),
            subject=claims["sub"],
            claims=dict(claims),
        )
        self._seen[token] = verified, until
        return verified

    def _checked(self, claims: Claims) -> Claims:
        now = self._clock()
        if claims.get("iss") != self.issuer.url:
            raise TokenRefused(refusals.WRONG_ISSUER)
        times = {name: _number(claims[name]) for name in ("exp", "nbf", "iat") if claims.get(name) is not None}
        if times.get("exp", math.inf) <= now:
            raise TokenRefused(refusals.EXPIRED)
        if times.get("nbf", 0) > now + LEEWAY_S:
            raise TokenRefused(refusals.NOT_YET)
        if times.get("iat", 0) > now + LEEWAY_S:
            raise TokenRefused(refusals.FROM_THE_FUTURE)
        if self._audiences.isdisjoint(_texts(claims.get("aud"))):
            raise TokenRefused(refusals.WRONG_AUDIENCE)
        if not isinstance(claims.get("sub"), str) or not claims["sub"]:
            raise TokenRefused(refusals.NO_SUBJECT)
        if "cnf" in claims:  # RFC 9449 §7.1: whoever stole it could send it as a plain bearer token.
            raise TokenRefused(refusals.KEY_BOUND)
        return claims

    async def _check_signature(self, signed: jws.CompactSignature) -> Keys:
        """Return the keys that verify a signature, fetched anew where the token names a new one."""
        came, keys = self._clock(), await self.issuer.keys()
        is_good = _is_of(signed, keys)
        if not is_good and signed.headers().get("kid") not in [key.kid for key in keys.signing if key.kid]:
            keys = await self.issuer.renewed(keys) or keys
            is_good = _is_of(signed, keys)
            if not is_good and keys.fetched_at < came:  # It may be of a key that came since.
                raise IssuerUnreachable("it was asked a moment ago")
        if not is_good:
            raise TokenRefused(refusals.FOREIGN_KEY)
        if keys is not self._seen_by:  # Nothing that a withdrawn key has signed is remembered.
            self._seen.clear()
            self._seen_by = keys
        return keys

    async def _introspected(self, token: str) -> Claims:
        """Return the checked claims that the issuer introspects of an opaque token (RFC 7662)."""
        url = (await self.issuer.keys()).document.get("introspection_endpoint")
        if self._client is None or not isinstance(url, str):
            raise TokenRefused(refusals.UNREADABLE)
        # RFC 6749 §2.3.1 has both encoded before they are joined.
        auth = httpx2.BasicAuth(*map(quote_plus, self._client))
        try:
            said = await self.issuer.ask("POST", url, data={"token": token}, auth=auth)
        except (httpx2.HTTPError, ValueError) as error:
            if not isinstance(error, httpx2.PoolTimeout):  # That is a flood's doing, not the issuer's.
                self.issuer.tell(f"introspection: {type(error).__name__}")
            raise IssuerUnreachable("introspection") from None
        self.issuer.tell("")
        if not isinstance(said, dict) or said.get("active") is not True:
            raise TokenRefused(refusals.INACTIVE)
        if str(said.get("token_type", "Bearer")).lower() not in ("bearer", "access_token"):
            raise TokenRefused(refusals.WRONG_TYPE)
        return self._checked({"iss": self.issuer.url, **said})


def read(token: str) -> tuple[jws.CompactSignature, Claims] | None:
    """Return a token as a JWT and its claims, unverified; None for one that is opaque.

    Raises:
        TokenRefused: its claims can't be read.
    """
    if token.count(".") != 2 or len(token) > _LONGEST:
        return None
    try:
        signed = jws.extract_compact(token.encode("ascii"), registry=_REGISTRY)
    except (JoseError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    try:
        claims = json.loads(signed.payload)
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict) or not isinstance(signed.protected, dict):
        raise TokenRefused(refusals.UNREADABLE)
    return signed, claims


def check_kind(header: Mapping[str, Any], claims: Claims, client_id: str | None) -> None:
    """Refuse a JWT that is not signed as issuers sign, or is no access token.

    Keys that it brings along or says where to get (`jwk`, `jku`, `x5c`, `x5u`) are never looked at. RFC 9068 asks for
    `typ: at+jwt`, but Keycloak, Auth0 and Entra ID send `JWT` or nothing with access tokens as with ID tokens. An ID
    token holds what binds it to a login, or names its own client as the only audience, and no scope; it matters where
    a client's id is configured as the audience.

    Raises:
        TokenRefused: with the reason.
    """
    _REGISTRY.get_alg(str(header.get("alg")))
    if "crit" in header:
        raise TokenRefused(refusals.CRITICAL_HEADER)
    typ = str(header.get("typ", "JWT")).lower()
    if typ not in (*_ACCESS_TYPES, "jwt"):
        raise TokenRefused(refusals.WRONG_TYPE)
    # Keycloak says what a token is in a claim `typ`, Cognito in `token_use`.
    kind = str(claims.get("typ") or claims.get("token_use") or "access").lower()
    own = {client_id, *_texts(claims.get("azp")), *_texts(claims.get("client_id"))}
    is_for_itself = own.issuperset(_texts(claims.get("aud"))) and not {"scope", "scp"} & claims.keys()
    is_marked = kind not in ("access", "bearer") or _OF_ID_TOKENS & claims.keys()
    if typ == "jwt" and (is_marked or is_for_itself):
        raise TokenRefused(refusals.ID_TOKEN)


def _is_of(signed: jws.CompactSignature, keys: Keys) -> bool:
    """Whether one of an issuer's keys verifies a signature; keys of another id than the token's are left out."""
    kid = signed.headers().get("kid")
    for key in keys.signing:
        if kid is None or key.kid is None or key.kid == kid:
            with suppress(JoseError, ValueError, TypeError, AttributeError):  # A key for something else.
                if jws.validate_compact(signed, key, registry=_REGISTRY):
                    return True
    return False


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 10**12:
        raise TokenRefused(refusals.UNREADABLE)
    return value


def _texts(value: object) -> list[str]:
    """Return the strings of a claim that is one or a list of them."""
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
