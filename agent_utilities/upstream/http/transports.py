"""The HTTP transports, of both eras and the older SSE: FastMCP's, with messages that fail alone and bounded bodies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Unpack

import anyio
import httpx2
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from fastmcp.client.transports import SSETransport, StreamableHttpTransport
from fastmcp.client.transports.base import SessionKwargs, TransportOptions
from mcp import ClientSession, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import sse_within_origin
from mcp.shared.message import ClientMessageMetadata, SessionMessage

from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.http.http_client import HttpTrouble, UpstreamHttpClient, trouble_of_status
from agent_utilities.upstream.limits import TooMuchError, Unfinished


def http_transport(
    config: UpstreamConfig, auth: str | httpx2.Auth | None, unfinished: Unfinished
) -> HttpUpstream | SseUpstream:
    """Return a transport that reaches an upstream by HTTP."""
    headers = {name: value.get_secret_value() for name, value in config.headers.items()}
    kind = SseUpstream if config.transport == "sse" else HttpUpstream
    transport = kind(config.url.get_secret_value(), headers=headers, auth=auth)
    transport.new_client = partial(
        UpstreamHttpClient,
        headers=headers,
        auth=transport.auth,
        limits=config.limits,
        unfinished=unfinished,
        is_answered_there=config.transport != "sse",
    )
    return transport


class HttpUpstream(StreamableHttpTransport):
    """Connects by streamable HTTP; headers and login are FastMCP's."""

    new_client: Callable[[], UpstreamHttpClient]
    """Makes what a connection sends by."""

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Unpack[SessionKwargs]
    ) -> AsyncIterator[ClientSession]:
        """Give a session that is not yet initialized."""
        options = transport_options or TransportOptions()
        async with (
            self.new_client() as client,
            streamable_http_client(self.url, http_client=client, max_sse_event_size=None) as streams,
            options.session_class(*streams, **session_kwargs) as session,
        ):
            yield session


class SseUpstream(SSETransport):
    """Connects by HTTP+SSE: one stream that is read, and a POST for each message; headers and login are FastMCP's.

    The SDK's own client ends at events over 1 MiB, and leaves a call without an answer whose POST failed.
    """

    new_client: Callable[[], UpstreamHttpClient]
    """Makes what a connection sends by."""
    exit_text = ""
    """Why we ended the stream; empty where we did not."""

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Unpack[SessionKwargs]
    ) -> AsyncIterator[ClientSession]:
        """Give a session that is not yet initialized."""
        options = transport_options or TransportOptions()
        async with (
            self.new_client() as client,
            sse_within_origin(client, self.url, max_event_size=None) as events,
            self._streams(client, events) as streams,
            options.session_class(*streams, **session_kwargs) as session,
        ):
            yield session

    @asynccontextmanager
    async def _streams(
        self, client: httpx2.AsyncClient, events: httpx2.EventSource
    ) -> AsyncIterator[
        tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
    ]:
        """Give what is read and what is written as messages, once it is known where they go."""
        if not events.response.is_success:
            raise _error(trouble_of_status(events.response.status_code, False, b""))
        read_send, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, write_receive = anyio.create_memory_object_stream[SessionMessage](0)
        async with read_send, read, write, write_receive, anyio.create_task_group() as group:
            address = await group.start(self._read, events, read_send)
            group.start_soon(_post_all, client, str(address), write_receive, read_send)
            yield read, write
            group.cancel_scope.cancel()

    async def _read(
        self,
        events: httpx2.EventSource,
        messages: MemoryObjectSendStream[SessionMessage | Exception],
        *,
        task_status: anyio.abc.TaskStatus[httpx2.URL],
    ) -> None:
        """Read events until the stream ends, and give the address that messages go to once it is told."""
        is_started = False
        async with messages:
            try:
                async for event in events:
                    if event.event == "endpoint" and not is_started:
                        address = events.response.url.join(event.data)
                        if address.join("/") != events.response.url.join("/"):
                            raise _error(HttpTrouble("not MCP", "it wants its messages at another host"))
                        is_started = True
                        task_status.started(address)
                    elif event.event == "message" and event.data:
                        try:
                            message = mcp_types.jsonrpc_message_adapter.validate_json(event.data, by_name=False)
                        except ValueError as error:
                            await messages.send(error)
                            continue
                        await messages.send(SessionMessage(message))
            except TooMuchError as error:
                self.exit_text = f"sent {error}"
            except (httpx2.TransportError, anyio.BrokenResourceError):
                pass
        if not is_started and self.exit_text:
            raise _error(HttpTrouble("sent too much", self.exit_text, is_final=True))
        if not is_started:
            raise _error(HttpTrouble("not MCP", "it did not say where its messages go"))


def _error(trouble: HttpTrouble) -> MCPError:
    return MCPError.from_error_data(trouble.as_error())


async def _post_all(
    client: httpx2.AsyncClient,
    address: str,
    messages: MemoryObjectReceiveStream[SessionMessage],
    answers: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    """Send what comes until no more does, requests beside each other, and answer those that do not arrive."""
    async with messages, anyio.create_task_group() as group:
        async for message in messages:
            if isinstance(message.message, mcp_types.JSONRPCRequest):
                group.start_soon(_post, client, address, message, answers)
            else:
                await _post(client, address, message, answers)


async def _post(
    client: httpx2.AsyncClient,
    address: str,
    message: SessionMessage,
    answers: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    body = message.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
    metadata = message.metadata
    headers = metadata.headers if isinstance(metadata, ClientMessageMetadata) else None
    response = await client.post(address, json=body, headers=headers)
    if response.is_success or not isinstance(message.message, mcp_types.JSONRPCRequest):
        return
    try:
        error = mcp_types.JSONRPCError.model_validate_json(response.content).error
    except ValueError:
        error = trouble_of_status(response.status_code, False, response.content).as_error()
    answer = mcp_types.JSONRPCError(jsonrpc="2.0", id=message.message.id, error=error)
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await answers.send(SessionMessage(answer))
