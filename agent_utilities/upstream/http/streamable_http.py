"""Streamable HTTP, in both eras: FastMCP's transport, with messages that fail alone and results of any size."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Unpack

from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.client.transports.base import SessionKwargs, TransportOptions
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from agent_utilities.upstream.http.http_client import UpstreamHttpClient

MAX_EVENT_BYTES = 96 * 1024 * 1024
"""The longest message: a result of 64 MiB, and what JSON adds to it."""


class HttpUpstream(StreamableHttpTransport):
    """Connects by streamable HTTP; headers and login are FastMCP's."""

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Unpack[SessionKwargs]
    ) -> AsyncIterator[ClientSession]:
        """Give a session that is not yet initialized."""
        options = transport_options or TransportOptions()
        client = UpstreamHttpClient(headers=self.headers, auth=self.auth)
        async with (
            client,
            streamable_http_client(self.url, http_client=client, max_sse_event_size=MAX_EVENT_BYTES) as streams,
            options.session_class(*streams, **session_kwargs) as session,
        ):
            yield session
