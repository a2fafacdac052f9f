"""People's browsers, at every door that they log in by: forms, cookies, and what is sent from where."""

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
from agent_utilities.server.agent_server import AgentServer

_N_FIELDS = 1_000
_KEPT_S = 3600.0
"""Seconds for which a registration serves: where it is gone at the other end, only a browser that is sent is told."""


async def form_of(request: Request, most: int) -> dict[str, str]:
    """Return the fields of a form that was sent, blank ones too; none where it is longer than so many bytes."""
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
    """Return the origin of a server's own pages: as people reach it, where its operator says how."""
    base = urlsplit(base_url)
    scheme, netloc = (base.scheme, base.netloc) if base.netloc else (request.url.scheme, request.url.netloc)
    return f"{scheme}://{netloc}".lower()


def is_of_own_page(request: Request, base_url: str) -> bool:
    """Return whether a form was sent by a page of the server's own, or by no browser: another port is a stranger."""
    sent_from, site = (request.headers.get(name) for name in ("origin", "sec-fetch-site"))
    return (
        sent_from.lower() == own_origin(base_url, request) if sent_from is not None else site in (None, "same-origin")
    )


class Cookie:
    """A cookie by which browsers are known: no script has it, and over HTTPS no other host can set it.

    Ports of a host share cookies, so its name has the port; that another port can set it all the same is why forms are
    taken from the server's own pages alone.

    Args:
        what: it is for.
        same_site: `lax` where a browser brings it along as it comes back from another site.
        base_url: as people reach the server, where its operator says how.
        age_s: how long it is kept; None for as long as the browser runs.
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
        """Return what a browser brings; empty where it brings none."""
        return request.cookies.get(self._name(request), "")

    def set(self, request: Request, answer: Response, value: str) -> Response:
        """Return an answer that has a browser bring it from now on."""
        name = self._name(request)
        is_https = name.startswith("__Host-")
        answer.set_cookie(name, value, max_age=self._age_s, secure=is_https, httponly=True, samesite=self._same_site)
        return answer


def is_same(one: str, other: str) -> bool:
    """Return whether two secrets are the same, in a time that tells nothing of them."""
    return secrets.compare_digest(one.encode(), other.encode())


class OwnIssuer:
    """Where people log in at a server itself; found and registered at once for all, as anybody may begin a login.

    Args:
        host: the server, whose operator says by which address browsers reach it.
        back: the path that they come back to.
    """

    def __init__(self, host: AgentServer, back: str) -> None:
        settings = host.surface.operator.settings
        base = settings.auth_base_url.rstrip("/")
        client = OAuthClient(
            client_id=settings.auth_client_id or None, client_secret=settings.auth_client_secret or None, hosts=("*",)
        )
        url = base + fastmcp.settings.streamable_http_path
        self._find = partial(Authorization.at, url, base + back, client, {})
        self._turn = asyncio.Lock()
        self._known: Authorization | None = None

    async def authorization(self) -> Authorization:
        """Return where people log in.

        Raises:
            Exception: it could not be found, or registered at.
        """
        async with self._turn:
            known = self._known
            if known is None or known.is_gone or time.monotonic() > known.made_s + _KEPT_S:
                known = self._known = await self._find()
            return known
