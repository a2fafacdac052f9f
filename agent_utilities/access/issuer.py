"""An OpenID issuer's keys: discovered, refreshed as they rotate, and kept for a day while the issuer is down."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
from joserfc.jwk import ECKey, OKPKey, RSAKey
from pydantic import AnyHttpUrl, ConfigDict, TypeAdapter

from agent_utilities.access.refusals import RETRY_S
from agent_utilities.errors import AgentUtilitiesError

FRESH_S = 3600
"""Seconds after which keys are fetched again, so that a withdrawn one is no longer accepted."""
KEPT_S = 24 * 3600
"""Seconds for which keys are accepted while their issuer can't be reached."""
LATER_S = 60
"""Seconds until known keys are fetched again after a failure."""
_ANSWER_S = 5
_MOST_BYTES = 256 << 10

logger = logging.getLogger("agent_utilities.access")

SigningKey = RSAKey | ECKey | OKPKey
_KEY_TYPES: Mapping[object, type[SigningKey]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}


class IssuerUnreachable(AgentUtilitiesError, RuntimeError):
    """An issuer can't be reached, or its response can't be used."""


@dataclass(frozen=True, eq=False)
class Keys:
    """What an issuer said at one time.

    Args:
        document: what it says of itself.
        signing: its keys that check signatures.
        fetched_at: when they were fetched, in seconds since 1970.
        fresh_until: until when known keys are not fetched again.
    """

    document: Mapping[str, Any]
    signing: tuple[SigningKey, ...]
    fetched_at: float
    fresh_until: float


def discovery_urls(issuer: str) -> tuple[str, str]:
    """Return where an issuer says what it is: the place of OpenID Connect Discovery, then that of RFC 8414."""
    parts = urlsplit(issuer)
    rfc8414 = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server{parts.path.rstrip('/')}"
    return f"{issuer.rstrip('/')}/.well-known/openid-configuration", rfc8414


def as_spelled(url: str) -> AnyHttpUrl:
    """Return a URL that is compared to the letter: one without a path gets no slash at its end."""
    return TypeAdapter(AnyHttpUrl, config=ConfigDict(url_preserve_empty_path=True)).validate_python(url)


def read_document(issuer: str, document: object) -> Mapping[str, Any]:
    """Return what an issuer says of itself.

    Raises:
        IssuerUnreachable: it is another issuer's, whose tokens would be taken for this one's, or names no keys.
    """
    said = document if isinstance(document, dict) else {}
    if said.get("issuer") != issuer:
        raise IssuerUnreachable(f"it calls itself {said.get('issuer')!r}; auth_issuer must be that to the letter")
    # Over plain HTTP anybody between could name keys, or be sent the client's secret.
    schemes = ("https:",) if issuer.startswith("https:") else ("https:", "http:")
    for name in ("jwks_uri", "introspection_endpoint", "token_endpoint"):
        if not str(said.get(name, None if name == "jwks_uri" else issuer)).startswith(schemes):
            raise IssuerUnreachable(f"its {name} can't be used: {said.get(name)!r}")
    return said


def read_keys(key_set: object) -> tuple[SigningKey, ...]:
    """Return the keys of a JWKS that check signatures; others are left out, as RFC 7517 §5 asks for.

    Raises:
        IssuerUnreachable: there is none.
    """
    entries = key_set.get("keys") if isinstance(key_set, dict) else None
    keys: list[SigningKey] = []
    for entry in entries if isinstance(entries, list) else ():
        try:
            keys.append(_KEY_TYPES[entry["kty"]].import_key(entry))
        except Exception as error:  # Whatever is wrong with one, the others are good.
            logger.debug("a key of the issuer can't be used: %s", type(error).__name__)
    if not keys:
        raise IssuerUnreachable("it has no key that checks signatures")
    return tuple(keys)


class Issuer:
    """Fetches an issuer's keys when they are first needed, each hour, and where a token names a new one.

    However many tokens come, one request at a time asks it, and once in some seconds.

    Args:
        url: the issuer, as its tokens spell it.
        clock: seconds since 1970.
        retry_s: seconds between two fetches at least.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.time, retry_s: float = RETRY_S) -> None:
        self.url, self.trouble = url, ""
        self.known: Keys | None = None
        """What it said last."""
        self.clock, self._retry_s, self._ask_after = clock, retry_s, 0.0
        self._asking = anyio.Lock()
        # No connection is kept open, so that none has to be closed, and few are opened at once.
        limits = httpx2.Limits(max_connections=12, max_keepalive_connections=0)
        self._http = httpx2.AsyncClient(timeout=_ANSWER_S, limits=limits)

    async def keys(self) -> Keys:
        """Return keys that were fetched within the day.

        Raises:
            IssuerUnreachable: there are none.
        """
        known = self.known
        # While one request fetches known keys again, the others use them on.
        if known is None or (self.clock() >= known.fresh_until and not self._asking.locked()):
            known = await self.renewed(known)
        if known is None or self.clock() >= known.fetched_at + KEPT_S:
            raise IssuerUnreachable(self.trouble or "it was asked a moment ago")
        return known

    async def renewed(self, than: Keys | None) -> Keys | None:
        """Return newer keys than the given ones; the same where the issuer can't be reached, or was just now."""
        async with self._asking:
            now = self.clock()
            if self.known is not than or now < self._ask_after:
                return self.known
            self._ask_after = now + self._retry_s
            try:
                with anyio.fail_after(3 * _ANSWER_S):
                    self.known = await self._fetched(now)
                self.tell("")
            except (httpx2.HTTPError, IssuerUnreachable, TimeoutError, ValueError) as error:
                self.tell(str(error) or type(error).__name__)
                if than is not None:
                    self.known = replace(than, fresh_until=min(now + LATER_S, than.fetched_at + KEPT_S))
            return self.known

    def tell(self, trouble: str) -> None:
        """Log once that the issuer can't be reached, and once that it can again."""
        if trouble and not self.trouble:
            logger.warning("the issuer %s can't be asked; known keys are taken for 24 h: %s", self.url, trouble)
        elif self.trouble and not trouble:
            logger.info("the issuer %s can be asked again", self.url)
        self.trouble = trouble

    async def _fetched(self, now: float) -> Keys:
        first, second = discovery_urls(self.url)
        try:
            said = await self.ask("GET", first)
        except httpx2.HTTPStatusError:
            said = await self.ask("GET", second)
        document = read_document(self.url, said)
        return Keys(document, read_keys(await self.ask("GET", document["jwks_uri"])), now, now + FRESH_S)

    async def ask(self, method: str, url: str, **how: Any) -> object:
        """Return the JSON of a response; redirects are not followed.

        Raises:
            httpx2.HTTPError: there is none, or it is no success.
            ValueError: it can't be read, or is too long.
        """
        body = bytearray()
        async with self._http.stream(method, url, **how) as response:
            response.raise_for_status()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MOST_BYTES:
                    raise ValueError(f"an answer of over {_MOST_BYTES} bytes")
        return json.loads(body)
