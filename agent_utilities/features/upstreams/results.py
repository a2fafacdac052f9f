"""What upstreams answer, errors too, as FastMCP passes it through its middleware and we hand it on: as it was given."""

from __future__ import annotations

from base64 import b64decode
from typing import Any, TypeVar, cast

import mcp_types
from fastmcp.prompts.base import Message, PromptResult
from fastmcp.resources.base import ResourceContent, ResourceResult
from fastmcp.tools.base import ToolResult

from agent_utilities.mcp.answers import RelayedError
from agent_utilities.upstream.errors import UpstreamError

_R = TypeVar("_R", bound=mcp_types.Result)

_OF_CONNECTION = frozenset(
    {
        mcp_types.SERVER_INFO_META_KEY,
        mcp_types.PROTOCOL_VERSION_META_KEY,
        mcp_types.CLIENT_INFO_META_KEY,
        mcp_types.CLIENT_CAPABILITIES_META_KEY,
    }
)
"""Keys of a result's `_meta` that tell of the connection that it came on."""


def relayed_failure(error: UpstreamError) -> RelayedError:
    """Return the error of a request that its upstream's failure left unanswered."""
    data = {"upstream": error.upstream, "cause": error.cause, "retryInS": error.retry_in_s}
    told = {key: value for key, value in data.items() if value is not None}
    return RelayedError(mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message=str(error), data=told))


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


def without_connection(raw: _R) -> _R:
    """Return a result without what tells of the connection that it came on."""
    if raw.meta is None or _OF_CONNECTION.isdisjoint(raw.meta):
        return raw
    return raw.model_copy(
        update={"meta": {key: value for key, value in raw.meta.items() if key not in _OF_CONNECTION} or None}
    )
