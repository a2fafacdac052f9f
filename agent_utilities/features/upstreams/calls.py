"""Calls of one upstream's components, for the caller of the present request, whichever eras the two are of."""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import mcp_types
from fastmcp.prompts.base import InputRequiredPromptResult, Message, PromptResult
from fastmcp.resources.base import InputRequiredResourceResult, ResourceContent, ResourceResult
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from agent_utilities.catalog.document import ToolServer
from agent_utilities.features.upstreams.relay import (
    ServerRelay,
    answer_in_rounds,
    can_be_asked,
    check_offered,
    told_of_tasks,
)
from agent_utilities.features.upstreams.waiting import WaitingCalls
from agent_utilities.mcp.answers import RelayedError
from agent_utilities.mcp.request import TIMES, request_in_force
from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.errors import UpstreamError
from agent_utilities.upstream.names import Namespace

if TYPE_CHECKING:
    from agent_utilities.upstream.connections.session import UpstreamSession
    from agent_utilities.upstream.supervision.upstream import Upstream

# -- what upstreams answer, as FastMCP passes it through its middleware and we hand it on: as it was given -------------

_OF_CONNECTION = {
    *(mcp_types.SERVER_INFO_META_KEY, mcp_types.PROTOCOL_VERSION_META_KEY),
    *(mcp_types.CLIENT_INFO_META_KEY, mcp_types.CLIENT_CAPABILITIES_META_KEY),
}
"""Keys of a result's `_meta` that tell of the connection that it came on."""


class RelayedToolResult(ToolResult):
    """A tool's result as its upstream gave it."""

    raw: mcp_types.CallToolResult

    @classmethod
    def of(cls, raw: mcp_types.CallToolResult) -> RelayedToolResult:
        """Return a result; it is not validated again, and may be large."""
        values = {name: getattr(raw, name) for name in _TOLD}
        return cls.model_construct(**values, raw=raw)

    def to_mcp_result(self) -> mcp_types.CallToolResult:
        """Return it as it was given, but for what middleware made of it."""
        changed = {name: value for name in _TOLD if (value := getattr(self, name)) is not getattr(self.raw, name)}
        return self.raw.model_copy(update=changed) if changed else self.raw


_TOLD = ("content", "structured_content", "meta", "is_error")


class RelayedPromptResult(PromptResult):
    """A prompt as its upstream gave it."""

    raw: mcp_types.GetPromptResult

    @classmethod
    def of(cls, raw: mcp_types.GetPromptResult) -> RelayedPromptResult:
        """Return a result; it is not validated again."""
        messages = [Message.model_construct(role=each.role, content=cast(Any, each.content)) for each in raw.messages]
        return cls.model_construct(messages=messages, description=raw.description, meta=raw.meta, raw=raw)

    def to_mcp_prompt_result(self) -> mcp_types.GetPromptResult:
        """Return it as it was given."""
        return self.raw


class RelayedResourceResult(ResourceResult):
    """A resource's contents as its upstream gave them."""

    raw: mcp_types.ReadResourceResult

    @classmethod
    def of(cls, raw: mcp_types.ReadResourceResult) -> RelayedResourceResult:
        """Return a result; it is not validated again, and may be large."""
        contents = [
            ResourceContent.model_construct(
                content=each.text if isinstance(each, mcp_types.TextResourceContents) else b64decode(each.blob),
                mime_type=each.mime_type,
                meta=each.meta,
            )
            for each in raw.contents
        ]
        return cls.model_construct(contents=contents, meta=raw.meta, raw=raw)

    def to_mcp_result(self, uri: Any) -> mcp_types.ReadResourceResult:
        """Return them as they were given; to be kept for this caller alone, since others may be bounded otherwise."""
        return self.raw.model_copy(update={"cache_scope": "private"})


# -- how they are asked ------------------------------------------------------------------------------------------------

_THEIRS, _OURS = "u", "w"
"""What a request's state begins with: the upstream's own, or the name of a call that waits."""


@dataclass(frozen=True)
class Kind:
    """A kind of request that an upstream may have questions on.

    Args:
        request: of the protocol; its params have `input_responses`, `request_state` and `_meta` besides.
        relayed: makes of that what FastMCP passes through its middleware.
        asked: makes that of what its caller is asked first.
    """

    request: Callable[..., Any]
    result: type[mcp_types.Result]
    relayed: Callable[[Any], Any]
    asked: Callable[[mcp_types.InputRequiredResult], Any]

    @cached_property
    def any_result(self) -> TypeAdapter[Any]:
        """What it is answered with, or asked."""
        either: Any = self.result | mcp_types.InputRequiredResult
        return TypeAdapter(either)


CALL_TOOL = Kind(mcp_types.CallToolRequest, mcp_types.CallToolResult, RelayedToolResult.of, InputRequiredToolResult)
GET_PROMPT = Kind(
    mcp_types.GetPromptRequest, mcp_types.GetPromptResult, RelayedPromptResult.of, InputRequiredPromptResult
)
READ_RESOURCE = Kind(
    mcp_types.ReadResourceRequest, mcp_types.ReadResourceResult, RelayedResourceResult.of, InputRequiredResourceResult
)
_NO_VALUES = mcp_types.Completion(values=[])
COMPLETE = Kind(mcp_types.CompleteRequest, mcp_types.CompleteResult, attrgetter("completion"), lambda _: _NO_VALUES)


@dataclass(frozen=True)
class Caller:
    """Calls one upstream for the caller of the present request."""

    upstream: Upstream
    config: UpstreamConfig
    namespace: Namespace
    operators_tags: frozenset[str]
    """The tags that are the operator's to give, folded."""
    waiting: WaitingCalls

    @property
    def described(self) -> ToolServer:
        """What the upstream is called and for, by its configuration, and by what it tells of itself."""
        snapshot = self.upstream.snapshot
        told = snapshot.server_info if snapshot is not None else {}
        title, description = (str(told.get(key) or "") for key in ("title", "description"))
        return ToolServer(
            name=self.config.name,
            title=title or str(told.get("name") or ""),
            description=self.config.description or description,
        )

    async def call_tool(self, tool: mcp_types.Tool, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool, as the upstream lists it; a failure of the upstream is told in a result.

        Raises:
            RelayedError: the upstream answered with an error.
        """
        try:
            result: ToolResult = await self._request(CALL_TOOL, name=tool.name, arguments=arguments)
        except UpstreamError as error:
            text = mcp_types.TextContent(type="text", text=str(error))
            return RelayedToolResult.of(mcp_types.CallToolResult(content=[text], is_error=True))
        except RelayedError as error:
            raise RelayedError(told_of_tasks(error.error, tool)) from None
        return result

    async def ask(self, kind: Kind, **params: Any) -> Any:
        """Get a prompt, read a resource or complete an argument, by what the upstream calls it.

        Raises:
            RelayedError: the upstream answered with an error, or failed.
        """
        try:
            return await self._request(kind, **params)
        except UpstreamError as error:
            data = {"upstream": error.upstream, "cause": error.cause, "retryInS": error.retry_in_s}
            told = {key: value for key, value in data.items() if value is not None}
            failed = mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message=str(error), data=told)
            raise RelayedError(failed) from None

    async def complete(
        self,
        reference: mcp_types.PromptReference | mcp_types.ResourceTemplateReference,
        argument: mcp_types.CompletionArgument,
        given: mcp_types.CompletionContext | None,
    ) -> mcp_types.Completion:
        """Complete an argument; an upstream that can't, or fails, knows no values.

        Raises:
            MCPError: the upstream answered with an error.
        """
        snapshot = self.upstream.snapshot
        if snapshot is None or "completions" not in snapshot.capabilities:
            return _NO_VALUES
        try:
            completion: mcp_types.Completion = await self.ask(COMPLETE, ref=reference, argument=argument, context=given)
        except RelayedError as error:
            raise MCPError.from_error_data(error.error) from None
        return completion

    # -- eras --------------------------------------------------------------------------------------------------------

    async def _request(self, kind: Kind, **params: Any) -> Any:
        relay = ServerRelay(get_context())
        if self.config.isolate:
            relay.at_session_end(self.upstream.forget_session)
        try:
            if relay.is_modern:
                result = await self._for_modern_caller(get_context(), relay, kind, params)
            else:
                result = await self.upstream.request(self._sending(relay, kind, params), relay, relay.headers)
        except MCPError as error:
            raise RelayedError(error.error) from None
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            such = f"{'.'.join(map(str, first['loc']))[:200]}: {first['msg'][:200]}"
            told = f"its answer is none: {error.error_count()} errors, such as {such}"
            raise UpstreamError(self.config.name, "not MCP", told) from None
        finally:
            await relay.flush()
        if isinstance(result, mcp_types.InputRequiredResult):
            return kind.asked(result)
        if result.meta is not None and not _OF_CONNECTION.isdisjoint(result.meta):
            meta = {key: value for key, value in result.meta.items() if key not in _OF_CONNECTION}
            result = result.model_copy(update={"meta": meta or None})
        return kind.relayed(result)

    async def _for_modern_caller(
        self, context: Context, relay: ServerRelay, kind: Kind, params: Mapping[str, Any]
    ) -> Any:
        """Send a request for a caller who is asked in its result."""
        state, responses = context.request_state, context.input_responses
        if state is not None and not state.startswith((_OURS, _THEIRS)):
            state = responses = None  # of a question of a feature's, which is answered
        target = (self.config.name, params.get("name", params.get("uri")))
        if state is not None and state.startswith(_OURS):
            result = await self.waiting.resume(relay, target, state.removeprefix(_OURS), responses or {})
            return _with_state(result, _OURS)
        snapshot = self.upstream.snapshot
        is_of_before = snapshot is not None and snapshot.protocol_version not in MODERN_PROTOCOL_VERSIONS
        if is_of_before and self.waiting.is_running and can_be_asked(relay.capabilities):
            send = self._sending(relay, kind, params)
            begun = self.waiting.begin(relay, target, lambda call: self.upstream.request(send, call, relay.headers))
            return _with_state(await begun, _OURS)
        theirs = state.removeprefix(_THEIRS) if state is not None else None
        send = self._sending(relay, kind, {**params, "request_state": theirs, "input_responses": responses})
        result = await self.upstream.request(send, relay, relay.headers)
        if isinstance(result, mcp_types.InputRequiredResult):
            check_offered(result, relay.capabilities)
        return _with_state(result, _THEIRS)

    def _sending(self, relay: ServerRelay, kind: Kind, params: Mapping[str, Any]) -> Callable[[UpstreamSession], Any]:
        """Return what sends a request on a connection; a caller who isn't asked in results is asked meanwhile."""
        meta = relay.request_meta(self.config.forward_meta)
        request, made_s = request_in_force(), time.perf_counter()

        async def send(live: UpstreamSession) -> Any:
            answer = kind.any_result if live.is_modern else kind.result

            async def again(responses: mcp_types.InputResponses | None, state: str | None) -> Any:
                given = {**params, "input_responses": responses, "request_state": state, "_meta": meta}
                return await live.send_request(kind.request(params=given), answer)

            sent_s = time.perf_counter()
            try:
                result = await again(params.get("input_responses"), params.get("request_state"))
                return result if relay.is_modern else await answer_in_rounds(result, relay, again)
            finally:
                if request is not None:
                    request.values[TIMES] = sent_s - made_s, time.perf_counter() - sent_s

        return send


def _with_state(result: Any, whose: str) -> Any:
    """Return a result whose state, if it has one, tells whose it is."""
    if not isinstance(result, mcp_types.InputRequiredResult) or result.request_state is None:
        return result
    return result.model_copy(update={"request_state": whose + result.request_state})
