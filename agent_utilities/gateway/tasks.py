"""Background tasks of upstreams, for callers who take them: the upstream's messages, under ids of ours (SEP-2663).

The gateway keeps no state of a task: an id of ours contains, sealed, where it leads. So tasks take no memory, and with
an operator's key every replica, and the next start, can open an id.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import mcp_types
from fastmcp.utilities.tasks import TASKS_EXTENSION_ID
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.jsonrpc import HEADER_MISMATCH
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agent_utilities.compat.fastmcp_server import low_level_server
from agent_utilities.errors import SettingsError
from agent_utilities.gateway.relay import ServerRelay, as_error_data
from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.connections.session import UpstreamSession
from agent_utilities.gateway.upstreams.errors import UpstreamError
from agent_utilities.gateway.upstreams.names import Namespace
from agent_utilities.gateway.upstreams.sealed_store import read_key
from agent_utilities.gateway.upstreams.supervision.upstream import Upstream
from agent_utilities.seam.caller import caller_key
from agent_utilities.seam.components import entry_of
from agent_utilities.seam.host import Host, Pending
from agent_utilities.seam.request import TOOL_OF_TASK, Request, request_in_force

logger = logging.getLogger("agent_utilities.gateway")

TASKS: Mapping[str, Any] = {TASKS_EXTENSION_ID: {}}
"""The extension as clients and servers declare it."""
_METHODS = frozenset(("tasks/get", "tasks/update", "tasks/cancel"))
_LONGEST_ID = 1_024
"""The longest id of an upstream's that is taken, in characters: our id contains it, and is sent in a header."""

_Context = ServerRequestContext[Any, Any]


class _Task(NamedTuple):
    upstream: str
    tool: str
    """Its name here."""
    of: list[str]
    """Who started the task."""
    id: str
    """The upstream's own id."""


class TaskIds:
    """Ids of ours for upstreams' tasks, sealed: nobody can read or forge one.

    Args:
        host: the server that can open them, with its replicas where the operator sets a key; None for none.
    """

    def __init__(self, host: Host | None = None) -> None:
        self.host, name, secret = host, b"", os.urandom(32)
        if host is not None:
            name, settings = host.name.encode(), host.operator.settings
            text, file = settings.secret_key.get_secret_value(), settings.secret_key_file
            try:
                secret = read_key(text, file) if text or file else secret
            except SettingsError as error:  # features that need the key refuse to start
                logger.warning("%s; ids of tasks are known to this process alone", error)
        key = blake2b(name, digest_size=32, key=secret, person=b"ids of tasks").digest()
        self._codec = AESGCMRequestStateCodec([key])

    def declared(
        self, upstream: Upstream, namespace: Namespace, relay: ServerRelay, method: str, tool: Any
    ) -> Mapping[str, Any] | None:
        """Return the extensions that a request declares to its upstream: tasks, if its own caller can take one.

        They can if they take tasks, and call this very tool of this very server: a tool that calls another awaits its
        result. Where the upstream has a process for each session, the session must also be recognizable later.
        """
        request, config = request_in_force(), upstream.config
        if request is None or method != "tools/call" or request.method != method or not has_tasks(upstream):
            return None
        is_here = any(each.host is self.host for each in request.entered[-1:])
        is_called = is_here and request.params.get("name") == namespace.namespaced(config.name, str(tool))
        has_lasting_session = not config.isolate or isinstance(relay.session, str)
        return TASKS if is_called and has_lasting_session and relay.takes_tasks else None

    def taken(self, by: UpstreamConfig, result: dict[str, Any], session: UpstreamSession | None) -> dict[str, Any]:
        """Return the result that announces an upstream's task, with an id of ours.

        The upstream's process is kept for the task's time to live, or at most as long as a call may take.

        Args:
            session: the connection that it was made on; None where no task was permitted.

        Raises:
            UpstreamError: no task was permitted, or its id can't be taken.
        """
        request, theirs, ttl_ms = request_in_force(), result.get("taskId"), result.get("ttlMs")
        if request is None or session is None:
            raise UpstreamError(by.name, "not MCP", "it answered with a task, and none was to be made")
        if not isinstance(theirs, str) or not 0 < len(theirs) <= _LONGEST_ID:
            raise UpstreamError(by.name, "not MCP", f"it answered with a task whose id is {theirs!r:.99}")
        limit_ms = by.limits.call_s * 1_000
        lasts_s = (min(limit_ms, ttl_ms) if isinstance(ttl_ms, int | float) else limit_ms) / 1_000
        session.works_until_s = max(session.works_until_s, asyncio.get_running_loop().time() + lasts_s)
        request.values[TOOL_OF_TASK] = request.params["name"]
        task = _Task(by.name, request.params["name"], _whose(request), theirs)
        return {**result, "taskId": self._codec.seal(json.dumps(task).encode())}

    def opened(self, task_id: Any, request: Request) -> _Task | None:
        """Return the task of an id; None for an id that is not ours, or another caller's."""
        try:
            task = _Task(*json.loads(self._codec.unseal(task_id)))
        except (InvalidRequestState, AttributeError):
            return None
        return task if task.of == _whose(request) else None


def _whose(request: Request) -> list[str]:
    """Return the identity of a request's sender, independent of their token, which may be renewed during a task."""
    caller = request.caller
    known = [] if caller is None else [caller.issuer, caller.subject, caller.client]
    return known if any(known) else [caller_key()]


def has_tasks(upstream: Upstream) -> bool:
    """Whether an upstream announces background tasks."""
    extensions = upstream.snapshot.capabilities.get("extensions") if upstream.snapshot is not None else None
    return isinstance(extensions, dict) and TASKS_EXTENSION_ID in extensions


class Tasks:
    """Answers requests for tasks of upstreams, from their owners while they may use the tool (law L1)."""

    def __init__(self, host: Host, ids: TaskIds, tools: Callable[[], Iterable[Any]], pending: Pending) -> None:
        self._host, self._ids, self._tools, self._pending = host, ids, tools, pending

    def are_told(self, request: Request) -> bool:
        """Whether a caller may learn of tasks: they may use a tool of an upstream that has them."""
        of_tasks = (tool for tool in self._tools() if has_tasks(tool.caller.upstream))
        return any(request.verdict.bounds.refusal(entry_of("tool", tool)) is None for tool in of_tasks)

    async def __call__(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        """Answer a request for a task of an upstream's; others, and those for the server's own tasks, go on.

        Streams carry no updates of tasks, and acknowledge no subscription to one: callers poll.
        """
        request, answer = request_in_force(), None
        if request is not None and _is_of_tasks(ctx) and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            await self._pending.wait_for_first(request.selection, "tool", None)
            answer = await self._answer(ctx, request) if self.are_told(request) else None
        return await call_next(ctx) if answer is None else answer

    async def _answer(self, ctx: _Context, request: Request) -> dict[str, Any] | None:
        """Return the upstream's answer for a task; to others than its owner it reads as one that never existed.

        Raises:
            MCPError: the upstream's own, or of a request that breaks the extension's rules.
        """
        relay = ServerRelay(cast(Any, SimpleNamespace(request_context=ctx, fastmcp=self._host)))
        params = ctx.params or {}
        task_id = params.get("taskId")
        _check(relay, task_id)
        if ctx.method not in _METHODS:
            return None
        task = self._ids.opened(task_id, request)
        tool: Any = await self._host.component("tool", "" if task is None else task.tool)
        caller = getattr(getattr(tool, "parent_tool", tool), "caller", None)
        if task is not None and caller is not None and caller.config.name == task.upstream:
            request.values[TOOL_OF_TASK] = task.tool
            return await _forwarded(caller, relay, ctx.method, params, task.id)
        if low_level_server(self._host).get_request_handler(ctx.method) is not None:
            return None  # it may be the server's own
        raise MCPError(mcp_types.INVALID_PARAMS, f"Task {task_id} not found")


def _is_of_tasks(ctx: _Context) -> bool:
    wished = (ctx.params or {}).get("notifications") if ctx.method == "subscriptions/listen" else None
    return ctx.method in _METHODS or (isinstance(wished, dict) and "taskIds" in wished)


def _check(relay: ServerRelay, task: Any) -> None:
    """Refuse a request of a client that does not declare tasks, or whose header names another one."""
    if not relay.takes_tasks:
        message = f"the client does not declare {TASKS_EXTENSION_ID} with this request"
        data = {"requiredCapabilities": {"extensions": TASKS}}
        raise MCPError(mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY, message, data)
    header = None if relay.headers is None else relay.headers.get(MCP_NAME_HEADER)
    if task is not None and header is not None and decode_header_value(header) != task:
        raise MCPError(HEADER_MISMATCH, f"the {MCP_NAME_HEADER} header and `taskId` in the body differ")


async def _forwarded(
    caller: Any, relay: ServerRelay, method: str, params: Mapping[str, Any], theirs: str
) -> dict[str, Any]:
    """Return an upstream's answer to a request for one of its tasks, with our id and URIs as they are here."""
    ours, meta = params["taskId"], relay.request_meta(caller.config.forward_meta) or {}

    async def send(live: UpstreamSession) -> dict[str, Any]:
        return await live.ask(method, {**params, "taskId": theirs, "_meta": {**meta}}, TASKS)

    try:
        raw = await caller.upstream.request(send, relay, relay.headers)
    except UpstreamError as error:
        raise MCPError.from_error_data(as_error_data(error)) from None
    except MCPError as error:
        message = re.sub(rf"(?<![\w-]){re.escape(theirs)}(?![\w-])", ours, error.message)
        raise MCPError(error.code, message, error.data) from None
    return cast(dict[str, Any], caller.as_here({**raw, "taskId": ours} if "taskId" in raw else raw))
