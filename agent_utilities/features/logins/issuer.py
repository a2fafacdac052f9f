"""A server's own issuer, at which browsers show who sits at them, and the one client that is registered there."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

import fastmcp

from agent_utilities.upstream.config import OAuthClient
from agent_utilities.upstream.http.authorization import Authorization

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer

_KEPT_S = 3600.0
"""Seconds for which a registration serves: where it is gone at the other end, only a browser that is sent is told."""


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
