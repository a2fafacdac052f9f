"""Calls an upstream's tools, prompts and resources for the current caller, whichever protocol era each side speaks."""

from __future__ import annotations

import json
import time
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

import mcp_types
from fastmcp.prompts.base import InputRequiredPromptResult, Message, PromptResult
from fastmcp.resources.base import InputRequiredResourceResult, ResourceContent, ResourceResult
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from agent_utilities.catalog.document import ToolServer
from agent_utilities.gateway.relay import (
    ServerRelay,
    answer_in_rounds,
    as_error_data,
    can_be_asked,
    check_offered,
    with_task_hint,
)
from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.connections.session import UpstreamSession, plain
from agent_utilities.gateway.upstreams.errors import UpstreamError
from agent_utilities.gateway.upstreams.names import Namespace
from agent_utilities.gateway.upstreams.supervision.upstream import Upstream
from agent_utilities.gateway.uris import with_uris
from agent_utilities.gateway.waiting_calls import WaitingCalls
from agent_utilities.seam.request import TIMES, RelayedError, hand_on, request_in_force

# -- results of upstreams: forwarded as they came, beside what FastMCP passes through its middleware ------------------

_OF_CONNECTION = {
    *(mcp_types.SERVER_INFO_META_KEY, mcp_types.PROTOCOL_VERSION_META_KEY),
    *(mcp_types.CLIENT_INFO_META_KEY, mcp_types.CLIENT_CAPABILITIES_META_KEY),
}
"""Keys of a result's `_meta` that describe the connection that it came on."""


class Relayed(BaseModel):
    """A result as its upstream sent it, with the fields of FastMCP's result, which middleware may read and change.

    A field is made when it is first read: most results go through no middleware, and may be large.
    """

    raw: dict[str, Any] = Field(exclude=True)
    reads: ClassVar[Mapping[str, tuple[str, Callable[[Any], Any]]]]
    """By field, the key of the raw result that it is made from, and the function that makes it."""

    @classmethod
    def of(cls, raw: dict[str, Any]) -> Self:
        """Return a result without validating it."""
        result = cast(Self, cls.model_construct(raw=raw))
        for name in cls.reads:
            result.__dict__.pop(name, None)
        return result

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return a field, made when it is first read."""
            if name not in type(self).reads:
                return super().__getattr__(name)
            value = self.__dict__[name] = self._made(name)
            return value

    def _made(self, name: str) -> Any:
        key, make = self.reads[name]
        return make(self.raw.get(key))

    def handed_on(self) -> dict[str, Any]:
        """Return the raw result with the changes of middleware."""
        changed = {}
        for name, (key, _) in self.reads.items():
            if name in self.__dict__ and (value := self.__dict__[name]) != self._made(name):
                changed[key] = plain(value)
        return {**self.raw, **changed} if changed else self.raw


_BLOCK: TypeAdapter[mcp_types.ContentBlock] = TypeAdapter(mcp_types.ContentBlock)


def _blocks(value: Any) -> list[Any]:
    """Return content blocks as FastMCP has them; a block of an unknown type becomes its JSON as text."""
    return [_block(each) for each in value] if isinstance(value, list) else []


def _block(value: Any) -> Any:
    try:
        return _BLOCK.validate_python(value)
    except ValidationError:
        return mcp_types.TextContent(type="text", text=json.dumps(value))


def _object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _messages(value: Any) -> list[Message]:
    messages = [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
    return [
        Message.model_construct(role=each.get("role", "user"), content=_block(each.get("content"))) for each in messages
    ]


def _contents(value: Any) -> list[ResourceContent]:
    contents = [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
    return [
        ResourceContent.model_construct(
            content=each["text"] if isinstance(each.get("text"), str) else _bytes(each.get("blob")),
            mime_type=each.get("mimeType"),
            meta=_object(each.get("_meta")),
        )
        for each in contents
    ]


def _bytes(blob: Any) -> bytes:
    try:
        return b64decode(blob)
    except (TypeError, ValueError):
        return b""


class RelayedToolResult(Relayed, ToolResult):
    reads = {
        "content": ("content", _blocks),
        "structured_content": ("structuredContent", _object),
        "meta": ("_meta", _object),
        "is_error": ("isError", lambda value: value is True),
    }

    def to_mcp_result(self) -> mcp_types.CallToolResult:
        """Return a stand-in that our server replaces by the raw result; for any other server the result itself."""
        if (meta := hand_on(self.handed_on())) is not None:
            return mcp_types.CallToolResult(content=[], _meta=meta)
        return mcp_types.CallToolResult.model_construct(**{name: getattr(self, name) for name in self.reads})


def text_result(text: str, *, is_error: bool) -> RelayedToolResult:
    """Return a tool's result that is a text of the gateway's own."""
    return RelayedToolResult.of({"content": [{"type": "text", "text": text}], "isError": is_error})


class RelayedPromptResult(Relayed, PromptResult):
    reads = {
        "messages": ("messages", _messages),
        "description": ("description", lambda value: value),
        "meta": ("_meta", _object),
    }

    def to_mcp_prompt_result(self) -> mcp_types.GetPromptResult:
        """Return a stand-in for our server, or the prompt itself, as for a tool's result."""
        raw = self.handed_on()
        if (meta := hand_on(raw)) is not None:
            return mcp_types.GetPromptResult(messages=[], _meta=meta)
        return mcp_types.GetPromptResult.model_validate(raw)


class RelayedResourceResult(Relayed, ResourceResult):
    reads = {"contents": ("contents", _contents), "meta": ("_meta", _object)}

    def to_mcp_result(self, uri: Any) -> mcp_types.ReadResourceResult:
        """Return the same for a resource, cacheable for this caller alone: bounds differ between callers."""
        if (meta := hand_on(self.raw)) is not None:
            return mcp_types.ReadResourceResult(contents=[], _meta=meta)
        return mcp_types.ReadResourceResult.model_validate({**self.raw, "cacheScope": "private"})


# -- requests to upstreams ---------------------------------------------------------------------------------------------

_THEIRS, _OURS = "u", "w"
"""Prefixes of a request's state: of the upstream's own state, and of the name of a call that waits here."""


_R = TypeVar("_R")


@dataclass(frozen=True)
class Kind(Generic[_R]):
    """A kind of request during which an upstream may ask its caller for input.

    Args:
        relayed: converts a result to what FastMCP passes through its middleware.
        asked: converts a request for input to the same.
    """

    method: str
    relayed: Callable[[dict[str, Any]], _R]
    asked: Callable[[mcp_types.InputRequiredResult], _R]


def _completion(raw: dict[str, Any]) -> mcp_types.Completion:
    hand_on(raw)
    return _NO_VALUES


_NO_VALUES = mcp_types.Completion(values=[])
CALL_TOOL = Kind[ToolResult]("tools/call", RelayedToolResult.of, InputRequiredToolResult)
GET_PROMPT = Kind[PromptResult]("prompts/get", RelayedPromptResult.of, InputRequiredPromptResult)
READ_RESOURCE = Kind[ResourceResult]("resources/read", RelayedResourceResult.of, InputRequiredResourceResult)
COMPLETE = Kind("completion/complete", _completion, lambda _: _NO_VALUES)


@dataclass(frozen=True)
class Caller:
    """Calls one upstream for the caller of the present request."""

    upstream: Upstream
    config: UpstreamConfig
    namespace: Namespace
    operators_tags: frozenset[str]
    """The tags that only the operator may assign, folded."""
    waiting: WaitingCalls
    uri_here: Callable[[str, str], str]
    """Returns the URI here for an upstream, by name, and its own URI, as the current caller reads it."""

    @property
    def described(self) -> ToolServer:
        """The upstream's name, title and description, from its configuration and its own server info."""
        snapshot = self.upstream.snapshot
        info = snapshot.server_info if snapshot is not None else {}
        title, description = (str(info.get(key) or "") for key in ("title", "description"))
        return ToolServer(
            name=self.config.name,
            title=title or str(info.get("name") or ""),
            description=self.config.description or description,
        )

    async def call_tool(self, tool: Mapping[str, Any], arguments: dict[str, Any]) -> ToolResult:
        """Call a tool, as the upstream lists it; a failure of the upstream becomes an error result.

        Raises:
            RelayedError: the upstream answered with an error.
        """
        try:
            return await self._request(CALL_TOOL, name=tool["name"], arguments=arguments)
        except UpstreamError as error:
            return text_result(str(error), is_error=True)
        except RelayedError as error:
            raise RelayedError(with_task_hint(error.error, tool)) from None

    async def ask(self, kind: Kind[_R], **params: Any) -> _R:
        """Get a prompt, read a resource or complete an argument, by the upstream's own name for it.

        Args:
            here: the URI that the caller used for a resource.

        Raises:
            RelayedError: the upstream answered with an error, or failed.
        """
        try:
            return await self._request(kind, **params)
        except UpstreamError as error:
            raise RelayedError(as_error_data(error)) from None

    async def complete(
        self,
        reference: mcp_types.PromptReference | mcp_types.ResourceTemplateReference,
        argument: mcp_types.CompletionArgument,
        values: mcp_types.CompletionContext | None,
    ) -> mcp_types.Completion:
        """Complete an argument; no values where the upstream lacks the capability, `MCPError` where it fails."""
        snapshot = self.upstream.snapshot
        if snapshot is None or "completions" not in snapshot.capabilities:
            return _NO_VALUES
        try:
            more = {} if values is None else {"context": plain(values)}
            return await self.ask(COMPLETE, ref=plain(reference), argument=plain(argument), **more)
        except RelayedError as error:
            raise MCPError.from_error_data(error.error) from None

    # -- eras --------------------------------------------------------------------------------------------------------

    async def _request(self, kind: Kind[_R], *, here: str | None = None, **params: Any) -> _R:
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
        except ValidationError as error:  # of a question of its: its results are not validated
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            such = f"{'.'.join(map(str, first['loc']))[:200]}: {first['msg'][:200]}"
            detail = f"what it asks can't be read: {error.error_count()} errors, such as {such}"
            raise UpstreamError(self.config.name, "not MCP", detail) from None
        if isinstance(result, mcp_types.InputRequiredResult):
            return kind.asked(result)
        return kind.relayed(self.as_here(result, (params["uri"], here) if here else None))

    def as_here(self, result: dict[str, Any], known: tuple[str, str] | None = None) -> dict[str, Any]:
        """Return a result with URIs as the current caller has them; `known` is a pair of a URI and what it is here."""
        meta = result.get("_meta")
        if isinstance(meta, dict) and not _OF_CONNECTION.isdisjoint(meta):
            kept = {key: value for key, value in meta.items() if key not in _OF_CONNECTION}
            result = {**result, "_meta": kept} if kept else {key: result[key] for key in result if key != "_meta"}
        if "taskId" in result and isinstance(inlined := result.get("result"), dict):
            result = {**result, "result": self.as_here(inlined)}
        here = partial(self.uri_here, self.config.name)
        return with_uris(result, lambda uri: known[1] if known is not None and uri == known[0] else here(uri))

    async def _for_modern_caller(
        self, context: Context, relay: ServerRelay, kind: Kind[Any], params: Mapping[str, Any]
    ) -> Any:
        """Send a request for a caller of 2026-07-28, who is asked for input by the result."""
        state, responses = context.request_state, context.input_responses
        if state is not None and not state.startswith((_OURS, _THEIRS)):
            state = responses = None  # of a feature's question, which has its answer
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
        send = self._sending(relay, kind, params, responses, theirs)
        result = await self.upstream.request(send, relay, relay.headers)
        if isinstance(result, mcp_types.InputRequiredResult):
            check_offered(result, relay.capabilities)
        return _with_state(result, _THEIRS)

    def _sending(
        self,
        relay: ServerRelay,
        kind: Kind[Any],
        params: Mapping[str, Any],
        responses: mcp_types.InputResponses | None = None,
        state: str | None = None,
    ) -> Callable[[UpstreamSession], Any]:
        """Return a function that sends a request on a connection, and asks a caller of the older era meanwhile."""
        meta = relay.request_meta(self.config.forward_meta)
        request, made_s = request_in_force(), time.perf_counter()
        ids, tool = self.waiting.task_ids, params.get("name")
        takes = ids.declared(self.upstream, self.namespace, relay, kind.method, tool)

        async def send(live: UpstreamSession) -> Any:
            async def again(responses: mcp_types.InputResponses | None, state: str | None) -> Any:
                answers = {key: plain(answer) for key, answer in responses.items()} if responses else None
                more = {"inputResponses": answers, "requestState": state, "_meta": meta}
                sent = {**params, **{key: value for key, value in more.items() if value is not None}}
                result = await live.ask(kind.method, sent, takes)
                if result.get("resultType") == "task":
                    return ids.taken(self.config, result, live if takes else None)
                if result.get("resultType") != "input_required":
                    return result
                return mcp_types.InputRequiredResult.model_validate(result)

            sent_s = time.perf_counter()
            try:
                result = await again(responses, state)
                return result if relay.is_modern else await answer_in_rounds(result, relay, again)
            finally:
                if request is not None:
                    request.values[TIMES] = sent_s - made_s, time.perf_counter() - sent_s

        return send


def _with_state(result: Any, whose: str) -> Any:
    """Return a result whose state, if it has one, begins with the prefix of its owner."""
    if not isinstance(result, mcp_types.InputRequiredResult) or result.request_state is None:
        return result
    return result.model_copy(update={"request_state": whose + result.request_state})
