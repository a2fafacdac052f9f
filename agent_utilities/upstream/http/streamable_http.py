"""Streamable HTTP, in both eras: FastMCP's transport, with messages that fail alone and results of any size."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Unpack

from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.client.transports.base import SessionKwargs, TransportOptions
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from agent_utilities.upstream.http.http_client import UpstreamHttpClient
from agent_utilities.upstream.limits import Limits, Unfinished


class HttpUpstream(StreamableHttpTransport):
    """Connects by streamable HTTP; headers and login are FastMCP's.

    Args:
        url: the upstream's.
        limits: what it may send.
        unfinished: counts what has begun to come on all of its connections.
        more: as FastMCP's transport takes it.
    """

    def __init__(self, url: str, *, limits: Limits, unfinished: Unfinished, **more: Any) -> None:
        super().__init__(url, **more)
        self._limits, self._unfinished = limits, unfinished

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Unpack[SessionKwargs]
    ) -> AsyncIterator[ClientSession]:
        """Give a session that is not yet initialized."""
        options = transport_options or TransportOptions()
        client = UpstreamHttpClient(
            headers=self.headers, auth=self.auth, limits=self._limits, unfinished=self._unfinished
        )
        async with (
            client,
            streamable_http_client(self.url, http_client=client, max_sse_event_size=None) as streams,
            options.session_class(*streams, **session_kwargs) as session,
        ):
            yield session
