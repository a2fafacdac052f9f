"""The caller of the present request, as an upstream that works on it may ask and tell him."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from secrets import token_urlsafe
from typing import Any, TypeVar, cast

import mcp_types
from fastmcp.server.context import Context
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from agent_utilities.mcp.fastmcp_internals import connection_of_session, takes_log_message
from agent_utilities.mcp.surface.caller_catalogs import NOBODY, caller_key
from agent_utilities.mcp.upstreams.capabilities import can_be_asked, offers, refusal

_R = TypeVar("_R", bound=BaseModel)

_FORGETTING = "agent-utilities/forgetting"
"""Where a connection's state has what is called at its end."""
_CROSSING = ("traceparent", "tracestate", mcp_types.LOG_LEVEL_META_KEY)
"""Keys of a request's `_meta` that cross to every upstream: the trace that a call is part of, and which log messages of
the upstream the caller takes."""


class ServerRelay:
    """The caller's side of one request: his client is asked on the connection that the request came on.

    Args:
        context: of the request that is served.
    """

    def __init__(self, context: Context) -> None:
        request = context.request_context
        assert request is not None
        self._context = context
        self._request_id = request.request_id
        self._session = request.session
        self._meta = request.meta or {}
        self._http = request.request
        self._n_telling, self._is_told = 0, asyncio.Event()
        self.is_modern = request.protocol_version in MODERN_PROTOCOL_VERSIONS
        """Whether the caller can be asked nothing but in a result."""

    @property
    def session(self) -> Hashable:
        """The caller's connection."""
        return connection_of_session(self._session)

    def at_session_end(self, forget: Callable[[Hashable], None]) -> None:
        """Have something called once the caller's session has ended, with what names it.

        Args:
            forget: what is called: once, however often it is given in one session.
        """
        connection = connection_of_session(self._session)
        forgetting = connection.state.setdefault(_FORGETTING, set())
        if forget not in forgetting:
            forgetting.add(forget)
            connection.exit_stack.callback(forget, connection)

    @property
    def headers(self) -> Mapping[str, str] | None:
        """The HTTP request's headers; None on transports that have none."""
        return self._http.headers if self._http is not None else None

    @property
    def caller(self) -> str:
        """What tells callers apart as far as that can be told: the token, hashed, or else the address."""
        key = caller_key()
        if key != NOBODY or self._http is None or self._http.client is None:
            return key
        return f"address {self._http.client.host}"

    @property
    def capabilities(self) -> mcp_types.ClientCapabilities | None:
        """What the caller's client offers to be asked; its extensions are between it and this server."""
        offered = self._session.client_capabilities
        if offered is None:
            return None
        return mcp_types.ClientCapabilities(
            sampling=offered.sampling, elicitation=offered.elicitation, roots=offered.roots
        )

    @property
    def asked_at_once(self) -> mcp_types.ClientCapabilities | None:
        """What of it can be asked in the middle of a call: nothing, None, of a caller who is asked by results alone."""
        offered = self.capabilities
        if self.is_modern or offered is None or not can_be_asked(offered):
            return None
        # That roots changed is not handed on, so it is not offered either.
        return offered.model_copy(update={"roots": mcp_types.RootsCapability()}) if offered.roots else offered

    def request_meta(self, named: Sequence[str]) -> mcp_types.RequestParamsMeta | None:
        """Return what of the caller's `_meta` crosses: the trace and the log level as texts, and what is named.

        Args:
            named: keys that the operator names for the upstream.
        """
        told = {key: value for key in _CROSSING if isinstance(value := self._meta.get(key), str)}
        meta = {**told, **{key: self._meta[key] for key in named if key in self._meta}}
        return cast(mcp_types.RequestParamsMeta, meta) if meta else None

    async def sample(
        self, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult | mcp_types.CreateMessageResultWithTools | mcp_types.ErrorData:
        """Have the caller's model answer."""
        question = mcp_types.CreateMessageRequest(params=params)
        if params.tools is not None or params.tool_choice is not None:
            return await self._ask(question, mcp_types.CreateMessageResultWithTools)
        return await self._ask(question, mcp_types.CreateMessageResult)

    async def elicit(self, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """Ask the caller's user."""
        if isinstance(params, mcp_types.ElicitRequestURLParams) and params.elicitation_id is None:
            # 2026-07-28 knows no such id; clients of before refuse a question without one.
            params = params.model_copy(update={"elicitation_id": token_urlsafe(16)})
        return await self._ask(mcp_types.ElicitRequest(params=params), mcp_types.ElicitResult)

    async def roots(self) -> mcp_types.ListRootsResult | mcp_types.ErrorData:
        """Ask for the caller's roots."""
        return await self._ask(mcp_types.ListRootsRequest(), mcp_types.ListRootsResult)

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Hand on a log message, where it is of a level that the caller takes."""
        if takes_log_message(self._context, self._session, self._meta, params.level):
            notification = mcp_types.LoggingMessageNotification(params=params)
            with self._telling():
                await self._session.send_notification(notification, related_request_id=self._request_id)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Hand on progress of the call; the caller who asked for none is told none."""
        with self._telling():
            await self._session.report_progress(progress, total, message)

    async def told(self) -> None:
        """Return once all that came before is handed on: nothing can be told of a request after its result."""
        while self._n_telling:
            self._is_told.clear()
            await self._is_told.wait()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        self._n_telling += 1
        try:
            yield
        finally:
            self._n_telling -= 1
            self._is_told.set()

    async def _ask(self, question: Any, answer: type[_R]) -> _R | mcp_types.ErrorData:
        if self.is_modern or not offers(self.capabilities, question):
            return refusal(question)
        metadata = ServerMessageMetadata(related_request_id=self._request_id)
        try:
            return await self._session.send_request(question, answer, metadata=metadata)
        except MCPError as error:
            return error.error
        except ValidationError as error:
            message = f"the caller's client gave no valid answer to {question.method}: {error.error_count()} errors"
            return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=message)
