"""HTTP transports of both eras and the older SSE, with bounded bodies and errors of single messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import anyio
import httpx2
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import ClientMessageMetadata, SessionMessage

from agent_utilities.compat.sdk_client import events_of
from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.http.http_client import Guard, HttpTrouble, UpstreamHttpClient, trouble_of_status
from agent_utilities.gateway.upstreams.limits import TooMuchError, Unfinished


class HttpUpstream:
    """Connects by streamable HTTP."""

    is_handshake_only = False
    """Whether it carries the handshake's era alone, and answers don't come in the responses to POSTs."""
    exit_text = ""
    """Why the gateway ended the stream; empty where it did not."""

    def __init__(self, config: UpstreamConfig, auth: httpx2.Auth | None, unfinished: Unfinished) -> None:
        self._url = config.url.get_secret_value()
        self._new_client = partial(
            UpstreamHttpClient,
            headers={name: value.get_secret_value() for name, value in config.headers.items()},
            guard=Guard(self._url, config.oauth.hosts if config.oauth is not None else ()),
            auth=auth,
            limits=config.limits,
            unfinished=unfinished,
            is_answered_there=not self.is_handshake_only,
        )

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Yield the streams of incoming and outgoing messages."""
        async with (
            self._new_client() as client,
            streamable_http_client(self._url, http_client=client, max_sse_event_size=None) as streams,
        ):
            yield streams


class SseUpstream(HttpUpstream):
    """Connects by HTTP+SSE: one stream that is read, and a POST for each message.

    The SDK's own client ends at events over 1 MiB, and leaves a call without an answer whose POST failed.
    """

    is_handshake_only = True

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Yield the streams of incoming and outgoing messages, once the address of the latter is known."""
        async with (
            self._new_client() as client,
            events_of(client, self._url) as events,
        ):
            if not events.response.is_success:
                raise _error(trouble_of_status(events.response, b""))
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
        """Read events until the stream ends, and report the address for messages once it comes."""
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
            raise _error(HttpTrouble("sent too much", self.exit_text))
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
    """Send outgoing messages, requests side by side, and answer failed requests with an error."""

    async def post(message: SessionMessage) -> None:
        body = message.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        metadata = message.metadata
        headers = metadata.headers if isinstance(metadata, ClientMessageMetadata) else None
        response = await client.post(address, json=body, headers=headers)
        if response.is_success or not isinstance(message.message, mcp_types.JSONRPCRequest):
            return
        try:
            error = mcp_types.JSONRPCError.model_validate_json(response.content).error
        except ValueError:
            error = trouble_of_status(response, response.content).as_error()
        answer = mcp_types.JSONRPCError(jsonrpc="2.0", id=message.message.id, error=error)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await answers.send(SessionMessage(answer))

    async with messages, anyio.create_task_group() as group:
        async for message in messages:
            if isinstance(message.message, mcp_types.JSONRPCRequest):
                group.start_soon(post, message)
            else:
                await post(message)
