"""The caller of the current request, whom an upstream may ask for input and send log messages and progress."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from secrets import token_urlsafe
from typing import Any, cast

import mcp_types
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_http_request
from fastmcp.utilities.tasks import TASKS_EXTENSION_ID
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from agent_utilities.compat.sdk_client import answer_rounds
from agent_utilities.compat.sdk_server import connection_of, least_log_level, takes_log_message
from agent_utilities.gateway.upstreams.connections.calls import present_call
from agent_utilities.gateway.upstreams.errors import UpstreamError
from agent_utilities.seam.caller import ANONYMOUS, caller_key
from agent_utilities.seam.request import request_in_force

Question = mcp_types.InputRequest
"""A request for input that an upstream may send during a call."""


def wants(question: Question) -> tuple[dict[str, Any], type[BaseModel]]:
    """Return the capabilities that a client needs for a question, as on the wire, and the type of its answer."""
    match question:
        case mcp_types.CreateMessageRequest(params=said) if said.tools is not None or said.tool_choice is not None:
            return {"sampling": {"tools": {}}}, mcp_types.CreateMessageResultWithTools
        case mcp_types.CreateMessageRequest():
            return {"sampling": {}}, mcp_types.CreateMessageResult
        case mcp_types.ElicitRequest(params=mcp_types.ElicitRequestURLParams()):
            return {"elicitation": {"url": {}}}, mcp_types.ElicitResult
        case mcp_types.ElicitRequest():
            return {"elicitation": {"form": {}}}, mcp_types.ElicitResult
        case _:
            return {"roots": {}}, mcp_types.ListRootsResult


def offers(capabilities: mcp_types.ClientCapabilities | None, question: Question) -> bool:
    """Whether a client with these capabilities can answer a question.

    One that offers elicitation and names no mode takes forms, the only mode of older versions.
    """
    if capabilities is None:
        return False
    offered = capabilities.model_dump(exclude_none=True)
    if "elicitation" in offered and "url" not in offered["elicitation"]:
        offered["elicitation"]["form"] = {}
    return _has(offered, wants(question)[0])


def _has(offered: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(key in offered and _has(offered[key], value) for key, value in wanted.items())


def can_be_asked(capabilities: mcp_types.ClientCapabilities | None) -> bool:
    """Whether a client with these capabilities can answer any question."""
    return capabilities is not None and any((capabilities.sampling, capabilities.elicitation, capabilities.roots))


def with_task_hint(error: mcp_types.ErrorData, tool: Mapping[str, Any]) -> mcp_types.ErrorData:
    """Return an upstream's error; where its tool runs only as a task of 2025-11-25, the message says so."""
    if error.code != mcp_types.METHOD_NOT_FOUND or "required" not in str(tool.get("execution")):
        return error
    why = "this tool runs as a background task alone, and a gateway carries none: call it at its own server"
    return error.model_copy(update={"message": f"{error.message}; {why}"})


def as_error_data(error: UpstreamError) -> mcp_types.ErrorData:
    """Return an upstream's failure as a JSON-RPC error, for requests whose results have no place for it."""
    facts = {"upstream": error.upstream, "cause": error.cause, "retryInS": error.retry_in_s}
    data = {key: value for key, value in facts.items() if value is not None}
    return mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message=str(error), data=data)


def refusal(question: Question, why: str = "does not offer it") -> mcp_types.ErrorData:
    """Return the error for an upstream whose question the caller's client can't answer."""
    message = f"{question.method} refused: the client of the gateway that this call is made for {why}"
    data = {"requiredCapabilities": wants(question)[0]}
    return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=message, data=data)


def present_caller() -> str:
    """Return the owner of the current request's links: its session, or its caller where it has no session."""
    request = request_in_force()
    if request is not None and request.session is not None:
        return request.session.id
    try:
        return _caller(get_http_request())
    except RuntimeError:  # over stdio
        return caller_key()


def _caller(http: Any) -> str:
    key = caller_key()
    return key if key != ANONYMOUS or http is None or http.client is None else f"address {http.client.host}"


_FORGETTING = "agent-utilities/forgetting"
"""The key of a connection's state under which callbacks for its end are kept."""
_CROSSING = ("traceparent", "tracestate", mcp_types.LOG_LEVEL_META_KEY)
"""Keys of a request's `_meta` that cross to every upstream: the trace that a call is part of, and which log messages of
the upstream the caller takes."""


class ServerRelay:
    """The caller's side of the current request; questions go to its client on the connection that it came on."""

    def __init__(self, context: Context) -> None:
        request = context.request_context
        assert request is not None
        self._context = context
        self._request_id = request.request_id
        self._session = request.session
        self._meta = request.meta or {}
        self._http = request.request
        self.is_modern = request.protocol_version in MODERN_PROTOCOL_VERSIONS
        """Whether the caller can be asked by results alone."""

    @property
    def session(self) -> Hashable:
        """The caller's connection; for 2026-07-28, whose requests share none, the caller's key.

        Over HTTP that is their token. Without a token each request is a session of its own: it may be anybody's.
        """
        key = caller_key() if self.is_modern else ANONYMOUS
        return connection_of(self._session) if key == ANONYMOUS else key

    def at_session_end(self, forget: Callable[[Hashable], None]) -> None:
        """Call a function once with the caller's session when that has ended, however often it is registered."""
        connection = connection_of(self._session)
        if self.session is not connection:
            return  # it ends with disuse: such a caller leaves no sign
        forgetting = connection.state.setdefault(_FORGETTING, set())
        if forget not in forgetting:
            forgetting.add(forget)
            connection.exit_stack.callback(forget, connection)

    @property
    def headers(self) -> Mapping[str, str] | None:
        """Of the HTTP request; None on other transports."""
        return self._http.headers if self._http is not None else None

    @property
    def caller(self) -> str:
        """What identifies the caller: the token, hashed, or else the address."""
        return _caller(self._http)

    @property
    def capabilities(self) -> mcp_types.ClientCapabilities | None:
        """The kinds of question that the caller's client answers; its extensions concern this server alone.

        Changes of its roots are not forwarded, so they are not offered either.
        """
        offered = self._session.client_capabilities
        if offered is None:
            return None
        roots = mcp_types.RootsCapability() if offered.roots is not None else None
        return mcp_types.ClientCapabilities(sampling=offered.sampling, elicitation=offered.elicitation, roots=roots)

    @property
    def takes_tasks(self) -> bool:
        """Whether the caller declares with the request that they take a background task in place of a result."""
        offered = self._session.client_capabilities if self.is_modern else None
        return offered is not None and TASKS_EXTENSION_ID in (offered.extensions or {})

    @property
    def asked_at_once(self) -> mcp_types.ClientCapabilities | None:
        """The capabilities that hold during a call; None where the client has none, or is asked by results alone."""
        offered = self.capabilities
        return None if self.is_modern or not can_be_asked(offered) else offered

    @property
    def log_level(self) -> mcp_types.LoggingLevel | None:
        return least_log_level(self._session, self._meta, self._context.fastmcp.client_log_level)

    def request_meta(self, named: Sequence[str]) -> mcp_types.RequestParamsMeta | None:
        """Return the part of the caller's `_meta` that crosses: trace, log level, and what the operator names."""
        meta = {key: value for key in _CROSSING if isinstance(value := self._meta.get(key), str)}
        meta |= {key: self._meta[key] for key in named if key in self._meta}
        return cast(mcp_types.RequestParamsMeta, meta) if meta else None

    async def log(self, params: Mapping[str, Any]) -> None:
        """Forward a log message, if the caller takes its level."""
        if takes_log_message(self._session, self._meta, params.get("level"), self.log_level):
            await self._tell("notifications/message", params)

    async def progress(self, params: Mapping[str, Any]) -> None:
        """Forward progress of the call, if the caller sent a token for it."""
        if (token := self._meta.get("progressToken")) is not None:
            await self._tell("notifications/progress", {**params, "progressToken": token})

    async def _tell(self, method: str, params: Mapping[str, Any]) -> None:
        notice: Any = mcp_types.Notification[dict[str, Any], str](method=method, params=dict(params))
        await self._session.send_notification(notice, self._related)

    @property
    def _related(self) -> Any:
        """The id of the request, on whose response messages are sent; None once it is answered."""
        return self._request_id if self.is_modern or self._session.can_send_request else None

    async def ask(self, question: Question) -> Any:
        if not offers(self.capabilities, question):
            return refusal(question)
        if self.is_modern:
            return refusal(question, "can be asked in the result of a request that is under way alone")
        match question:
            case mcp_types.ElicitRequest(params=mcp_types.ElicitRequestURLParams(elicitation_id=None) as params):
                # 2026-07-28 knows no such id; clients of before refuse a question without one.
                question = mcp_types.ElicitRequest(
                    params=params.model_copy(update={"elicitation_id": token_urlsafe(16)})
                )
        metadata = ServerMessageMetadata(related_request_id=self._related)
        try:
            return await self._session.send_request(question, wants(question)[1], metadata=metadata)
        except MCPError as error:
            return error.error
        except ValidationError as error:
            message = f"the caller's client gave no valid answer to {question.method}: {error.error_count()} errors"
            return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=message)


N_ROUNDS = 32
"""The most rounds of questions in one call."""

Again = Callable[[mcp_types.InputResponses | None, str | None], Awaitable[Any]]
"""Sends a request again, with the answers to its questions and the state that came with them."""


def check_offered(asks: mcp_types.InputRequiredResult, capabilities: mcp_types.ClientCapabilities | None) -> None:
    """Refuse questions that a client doesn't support, by `MCPError` -32021 with the capabilities that it lacks."""
    for question in (asks.input_requests or {}).values():
        if not offers(capabilities, question):
            message = f"the upstream asks for {question.method}, and this client does not offer it"
            data = {"requiredCapabilities": wants(question)[0]}
            raise MCPError(mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY, message, data)


async def answer_in_rounds(result: Any, relay: ServerRelay, again: Again) -> Any:
    """Ask the caller what an upstream's result asks for, and send the request again, until it brings a final result.

    Raises:
        MCPError: the caller's client refused, or the upstream asked too often.
    """
    call = present_call()
    assert call is not None

    async def ask(key: str, question: Question) -> Any:
        with call.asking():
            return await relay.ask(question)

    return await answer_rounds(result, ask=ask, again=again, n_rounds=N_ROUNDS)
