"""Browsers that log in, at the page or by a link: forms, cookies, the origin of requests, and the server's issuer."""

from __future__ import annotations

import asyncio
import secrets
import time
from functools import partial
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

import fastmcp
from starlette.requests import Request
from starlette.responses import Response

from agent_utilities.gateway.upstreams.config import OAuthClient
from agent_utilities.gateway.upstreams.http.authorization import Authorization
from agent_utilities.seam.host import Host

_N_FIELDS = 1_000
_KEPT_S = 3600.0
"""Seconds for which a client registration is used: if the issuer drops it, only redirected browsers show that."""


async def form_of(request: Request, most: int) -> dict[str, str]:
    """Return the fields of a submitted form, blank ones too; none where it is longer than `most` bytes."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            return {}
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_N_FIELDS))
    except ValueError:  # there are more, which take long to read
        return {}


def own_origin(base_url: str, request: Request) -> str:
    """Return the origin of a server's own pages: of its public address, where its operator set one."""
    base = urlsplit(base_url)
    scheme, netloc = (base.scheme, base.netloc) if base.netloc else (request.url.scheme, request.url.netloc)
    return f"{scheme}://{netloc}".lower()


def is_of_own_page(request: Request, base_url: str) -> bool:
    """Whether a form was sent by a page of this server, or by no browser; another port is another origin."""
    sent_from, site = (request.headers.get(name) for name in ("origin", "sec-fetch-site"))
    return (
        sent_from.lower() == own_origin(base_url, request) if sent_from is not None else site in (None, "same-origin")
    )


class Cookie:
    """A cookie that identifies a browser: no script can read it, and over HTTPS no other host can set it.

    Ports of a host share cookies, so its name has the port. Another port can still set it, which is why forms are
    accepted from the server's own pages alone.

    Args:
        what: its purpose, a part of its name.
        same_site: `lax` where a browser must send it when it comes back from another site.
        base_url: the server's public address; empty where its operator set none.
        age_s: how long a browser keeps it; None until it is closed.
    """

    def __init__(
        self, what: str, same_site: Literal["lax", "strict"], base_url: str, age_s: float | None = None
    ) -> None:
        self._what, self._same_site, self._base_url = what, same_site, base_url
        self._age_s = None if age_s is None else int(age_s)

    def _name(self, request: Request) -> str:
        parts = urlsplit(own_origin(self._base_url, request))
        prefix = "__Host-" if parts.scheme == "https" else ""
        return f"{prefix}agent-utilities-{self._what}-{parts.port or parts.scheme}"

    def of(self, request: Request) -> str:
        """Return the value that a request carries; empty where it has none."""
        return request.cookies.get(self._name(request), "")

    def set(self, request: Request, answer: Response, value: str) -> Response:
        """Return an answer that sets the cookie."""
        name = self._name(request)
        is_https = name.startswith("__Host-")
        answer.set_cookie(name, value, max_age=self._age_s, secure=is_https, httponly=True, samesite=self._same_site)
        return answer


def is_same(one: str, other: str) -> bool:
    """Compare two secrets in constant time."""
    return secrets.compare_digest(one.encode(), other.encode())


class OwnIssuer:
    """The issuer that people log in to this server with; discovered once for all, as anybody may begin a login.

    Args:
        host: the server, whose settings have its public address.
        back: the path that the issuer redirects browsers to.
    """

    def __init__(self, host: Host, back: str) -> None:
        settings = host.operator.settings
        base = settings.auth_base_url.rstrip("/")
        client = OAuthClient(
            client_id=settings.auth_client_id or None, client_secret=settings.auth_client_secret or None, hosts=("*",)
        )
        url = base + fastmcp.settings.streamable_http_path
        self._find = partial(Authorization.at, url, base + back, client, {})
        self._turn = asyncio.Lock()
        self._known: Authorization | None = None

    async def authorization(self) -> Authorization:
        """Return the issuer's metadata with this server's registration.

        Raises:
            Exception: discovery or registration failed.
        """
        async with self._turn:
            known = self._known
            if known is None or known.is_gone or time.monotonic() > known.made_s + _KEPT_S:
                known = self._known = await self._find()
            return known
