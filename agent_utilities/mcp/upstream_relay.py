"""The caller of the present request, as an upstream that works on it may ask and tell him."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, TypeVar, cast

import mcp_types
from fastmcp.server.context import Context
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel

from agent_utilities.mcp.fastmcp_internals import connection_of_session
from agent_utilities.selection.channels import META_KEY

_R = TypeVar("_R", bound=BaseModel)

_OF_CONNECTION = frozenset(
    {
        META_KEY,
        "progressToken",
        mcp_types.PROTOCOL_VERSION_META_KEY,
        mcp_types.CLIENT_INFO_META_KEY,
        mcp_types.CLIENT_CAPABILITIES_META_KEY,
    }
)
"""Keys of a request's `_meta` that are for this server, or tell of the caller's connection."""


class ServerRelay:
    """The caller's side of one call.

    Args:
        context: of the request that is served.
    """

    def __init__(self, context: Context) -> None:
        request = context.request_context
        assert request is not None
        self._request_id = request.request_id
        self._session = request.session
        self._meta = request.meta
        self.headers: Mapping[str, str] | None = request.request.headers if request.request is not None else None
        """The HTTP request's headers; None on transports that have none."""

    @property
    def session(self) -> Hashable:
        """The caller's connection."""
        return connection_of_session(self._session)

    def request_meta(self) -> mcp_types.RequestParamsMeta | None:
        """Return what of the caller's `_meta` goes on to the upstream."""
        meta = {key: value for key, value in (self._meta or {}).items() if key not in _OF_CONNECTION}
        return cast(mcp_types.RequestParamsMeta, meta) or None

    async def sample(
        self, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult | mcp_types.CreateMessageResultWithTools | mcp_types.ErrorData:
        """Have the caller's model answer."""
        request = mcp_types.CreateMessageRequest(params=params)
        if params.tools or params.tool_choice:
            return await self._ask(request, mcp_types.CreateMessageResultWithTools)
        return await self._ask(request, mcp_types.CreateMessageResult)

    async def elicit(self, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """Ask the caller's user."""
        return await self._ask(mcp_types.ElicitRequest(params=params), mcp_types.ElicitResult)

    async def roots(self) -> mcp_types.ListRootsResult | mcp_types.ErrorData:
        """Ask for the caller's roots."""
        return await self._ask(mcp_types.ListRootsRequest(), mcp_types.ListRootsResult)

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Hand on a log message."""
        await self._session.send_notification(
            mcp_types.LoggingMessageNotification(params=params), related_request_id=self._request_id
        )

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Hand on progress of the call."""
        await self._session.report_progress(progress, total, message)

    async def _ask(self, request: Any, result: type[_R]) -> _R | mcp_types.ErrorData:
        try:
            metadata = ServerMessageMetadata(related_request_id=self._request_id)
            return await self._session.send_request(request, result, metadata=metadata)
        except MCPError as error:
            return error.error
