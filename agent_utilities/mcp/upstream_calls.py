"""Calls of an upstream's components, for the caller of the present request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

import mcp_types
from fastmcp.prompts.base import PromptResult
from fastmcp.resources.base import ResourceResult
from fastmcp.server.dependencies import get_context
from fastmcp.tools.base import ToolResult
from mcp import ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from agent_utilities.mcp.upstream_relay import ServerRelay
from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.errors import UpstreamError
from agent_utilities.upstream.relay import Relay
from agent_utilities.upstream.snapshot import Snapshot

T = TypeVar("T")


class Connected(Protocol):
    """A connection to an upstream that is up."""

    session: ClientSession

    @property
    def is_modern(self) -> bool:
        """Whether it speaks 2026-07-28 or later."""


class CalledUpstream(Protocol):
    """What is asked of an upstream."""

    config: UpstreamConfig

    @property
    def snapshot(self) -> Snapshot | None:
        """What it last listed, or None where it was never reached."""

    async def request(
        self,
        send: Callable[[Any], Awaitable[T]],
        relay: Relay | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """Send requests on its connection, which is made where there is none.

        Raises:
            UpstreamError: it can't be used, or failed.
        """


class RelayedToolResult(ToolResult):
    """A tool's result as its upstream gave it."""

    raw: mcp_types.CallToolResult

    def __init__(self, raw: mcp_types.CallToolResult) -> None:
        BaseModel.__init__(
            self,
            content=raw.content,
            structured_content=raw.structured_content if isinstance(raw.structured_content, dict) else None,
            meta=raw.meta,
            is_error=raw.is_error,
            raw=raw,
        )

    def to_mcp_result(self) -> mcp_types.CallToolResult:
        """Return it as it was given."""
        return self.raw


class RelayedPromptResult(PromptResult):
    """A prompt as its upstream gave it."""

    raw: mcp_types.GetPromptResult

    def __init__(self, raw: mcp_types.GetPromptResult) -> None:
        BaseModel.__init__(self, messages=[], description=raw.description, meta=raw.meta, raw=raw)

    def to_mcp_prompt_result(self) -> mcp_types.GetPromptResult:
        """Return it as it was given."""
        return self.raw


class RelayedResourceResult(ResourceResult):
    """A resource's contents as its upstream gave them."""

    raw: mcp_types.ReadResourceResult

    def __init__(self, raw: mcp_types.ReadResourceResult) -> None:
        BaseModel.__init__(self, contents=[], meta=raw.meta, raw=raw)

    def to_mcp_result(self, uri: Any) -> mcp_types.ReadResourceResult:
        """Return them as they were given."""
        return self.raw


class Caller:
    """Calls one upstream for the caller of the present request.

    Args:
        upstream: the upstream.
    """

    def __init__(self, upstream: CalledUpstream) -> None:
        self.upstream = upstream

    @property
    def config(self) -> UpstreamConfig:
        """How the upstream is configured."""
        return self.upstream.config

    async def call_tool(self, tool: mcp_types.Tool, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool as the upstream lists it."""
        relay = ServerRelay(get_context())

        async def send(live: Connected) -> mcp_types.CallToolResult:
            return await live.session.send_request(
                mcp_types.CallToolRequest(
                    params=mcp_types.CallToolRequestParams(
                        name=tool.name, arguments=arguments, _meta=relay.request_meta()
                    )
                ),
                mcp_types.CallToolResult,
            )

        try:
            return RelayedToolResult(await self.upstream.request(send, relay, relay.headers))
        except UpstreamError as error:
            text = mcp_types.TextContent(type="text", text=str(error))
            return RelayedToolResult(mcp_types.CallToolResult(content=[text], is_error=True))

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None) -> PromptResult:
        """Get a prompt by the name that the upstream calls it."""
        relay = ServerRelay(get_context())

        async def send(live: Connected) -> mcp_types.GetPromptResult:
            return await live.session.send_request(
                mcp_types.GetPromptRequest(
                    params=mcp_types.GetPromptRequestParams(name=name, arguments=arguments, _meta=relay.request_meta())
                ),
                mcp_types.GetPromptResult,
            )

        return RelayedPromptResult(await self._answered(send, relay))

    async def read_resource(self, uri: str) -> ResourceResult:
        """Read a resource by the URI that the upstream knows."""
        relay = ServerRelay(get_context())

        async def send(live: Connected) -> mcp_types.ReadResourceResult:
            return await live.session.send_request(
                mcp_types.ReadResourceRequest(
                    params=mcp_types.ReadResourceRequestParams(uri=uri, _meta=relay.request_meta())
                ),
                mcp_types.ReadResourceResult,
            )

        return RelayedResourceResult(await self._answered(send, relay))

    async def _answered(self, send: Callable[[Connected], Awaitable[T]], relay: ServerRelay) -> T:
        try:
            return await self.upstream.request(send, relay, relay.headers)
        except UpstreamError as error:
            raise MCPError(mcp_types.INTERNAL_ERROR, str(error)) from None
