"""The only file that touches private names of FastMCP or the SDK: each with why, and what would end it.

`tests/mcp/test_fastmcp_internals.py` names every one of them, so that an upgrade that moves one says which.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import mcp_types
from fastmcp import FastMCP
from fastmcp.resources.base import Resource
from fastmcp.server.context import (
    _MCP_LEVEL_SEVERITY,
    Context,
    _current_transport,
    _log_level_session_key,
    reset_transport,
    set_transport,
)
from fastmcp.server.providers import Provider
from fastmcp.server.providers.aggregate import AggregateProvider
from fastmcp.server.providers.fastmcp_provider import (
    FastMCPProvider,
    FastMCPProviderPrompt,
    FastMCPProviderResource,
    FastMCPProviderResourceTemplate,
    FastMCPProviderTool,
)
from fastmcp.server.providers.local_provider import LocalProvider
from fastmcp.server.providers.wrapped_provider import _WrappedProvider
from fastmcp.tools.base import Tool
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import VersionSpec, version_sort_key
from mcp.server.connection import Connection, allowed_log_levels
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.session import ServerSession

from agent_utilities.mcp.kept_provider import KeptProvider

if TYPE_CHECKING:
    from key_value.aio.protocols import AsyncKeyValue


def hold_private_lists(
    server: FastMCP[Any],
    kept: Callable[[Callable[[], Awaitable[Sequence[Tool]]]], Awaitable[Sequence[Tool]]],
    permits: Callable[[Tool], bool],
) -> Callable[[], list[Tool]]:
    """Have a server answer for what FastMCP lists and finds by private methods, by replacing three of them.

    Why: tools that `ToolInjectionMiddleware` adds are listed and called beside the transforms, so past every bound;
    and every provider is listed for each request, though few tools are shown of many.
    Ends when: FastMCP passes injected tools through a server's transforms, and keeps what providers list.

    Args:
        kept: given what lists the providers' tools, returns them before any transform: as they are, or were kept.
        permits: whether the current request may call an injected tool.

    Returns:
        What returns the injected tools; the visibility transform puts them into the listing.
    """
    injected, listed, get = server._injected_tools, server._list_tools, server._get_injected_tool

    async def list_tools() -> Sequence[Tool]:
        return await kept(listed)

    def get_injected(name: str) -> Tool | None:
        tool = get(name)
        return tool if tool is None or permits(tool) else None

    server._list_tools = list_tools  # type: ignore[method-assign]
    server._injected_tools = list  # type: ignore[method-assign]
    server._get_injected_tool = get_injected  # type: ignore[method-assign]
    return injected


def low_level_server(server: FastMCP[Any]) -> Server[Any]:
    """Return the SDK's server, `FastMCP._mcp_server`.

    Why: SDK middleware, a handler for `subscriptions/listen`, cache hints and the schema look-up live there.
    Ends when: FastMCP offers them, or its SDK server, by a public name.
    """
    return server._mcp_server


async def list_tools_result(
    server: Any, ctx: ServerRequestContext[Any, Any], params: mcp_types.PaginatedRequestParams | None
) -> mcp_types.ListToolsResult:
    """Return what FastMCP answers `tools/list` with, `FastMCP._on_list_tools`.

    Why: what of it was served before is not made ready again, so that a handler of ours stands before FastMCP's.
    Ends when: the SDK's server tells its handlers, or FastMCP serves what was served before as it was.

    Raises:
        MCPError: the cursor is none of ours.
    """
    listed: mcp_types.ListToolsResult = await server._on_list_tools(ctx, params)
    return listed


def is_started(server: FastMCP[Any]) -> bool:
    """Whether every lifespan has been entered, `FastMCP._started`.

    Why: `/ready` must not say so before the lifespans of mounted servers have run.
    Ends when: FastMCP tells it by a public name.
    """
    return server._started.is_set()


def whole_lifespan(server: Any) -> AbstractAsyncContextManager[None]:
    """Return a block within which every lifespan has been entered, `FastMCP._lifespan_manager`; it may be nested.

    Why: what the operator's bounds come to is said, and may end the launch, when all tools are there and before any is
    served; an error that is raised in a web server's own lifespan only reaches its log.
    Ends when: FastMCP has a hook between its lifespans and its transports.
    """
    lifespan: AbstractAsyncContextManager[None] = server._lifespan_manager()
    return lifespan


def make_session_state(server: Any) -> None:
    """Make what a server keeps its sessions' state in, `FastMCP._state_store`, with the packages that it takes.

    Why: FastMCP imports them in the first request that lists anything, some 400 modules. A thread that imports what
    reaches upstreams needs the same ones, and two threads that import one package can deadlock: Python ends that with
    an error in either.
    Ends when: FastMCP imports them with its server, or its client does without them.
    """
    _ = server._state_store


def share(server: FastMCP[Any], key: bytes, values: AsyncKeyValue) -> None:
    """Have replicas of a server take one another's `requestState`, and keep what its author sets for sessions together.

    Why: FastMCP takes both when it is made, `_request_state_security` and `_state_storage`, which is before the
    operator's settings are read. What an author gave it stays.
    Ends when: it takes them later.

    Args:
        key: what `requestState` is sealed with, 32 bytes.
    """
    if server._request_state_security is None:
        boundary: Any = RequestStateBoundary(RequestStateSecurity(keys=[key]), default_audience=server.name)
        chain = low_level_server(server).middleware
        chain[:] = [boundary if isinstance(each, RequestStateBoundary) else each for each in chain]
    if server._state_storage is None:
        server._state_storage = values


async def look_up_resource(server: Any, uri: str) -> tuple[Resource | None, bool]:
    """Return a resource that the caller may read, and whether one exists at all, `FastMCP._lookup_resource`.

    Why: `get_resource` gives None for a hidden one and a missing one alike, and only a missing one may be a template's.
    Ends when: the public look-up tells the two apart.
    """
    found: tuple[Resource | None, bool] = await server._lookup_resource(uri)
    return found


async def tool_of_task(server: Any, task_id: str) -> tuple[str, VersionSpec | None] | None:
    """Return name and version of the tool that a background task of the caller's runs, or None for no such task.

    Why: `FastMCP._docket` and the keys in it are all that tells; FastMCP looks the tool up itself only when it is done.
    Ends when: the tasks extension asks whether the caller may use a task's tool before it answers for the task.
    """
    docket = server._docket
    if docket is None:
        return None
    from fastmcp_tasks.context import get_task_scope
    from fastmcp_tasks.keys import parse_task_key, task_redis_prefix

    async with docket.redis() as redis:
        key = await redis.get(docket.key(f"{task_redis_prefix(get_task_scope())}:{task_id}"))
    component = parse_task_key(key.decode())["component_identifier"] if key else ""
    if not component.startswith("tool:"):
        return None
    key = component.removeprefix("tool:")
    name, version = key.rsplit("@", 1) if "@" in key else (key, "")
    return name, VersionSpec(eq=version) if version else None


async def is_task_of_issuer(server: Any, task_id: str, issuer: str | None) -> bool:
    """Whether a background task, of the caller's client and subject, was started by a token of an issuer.

    Why: FastMCP tells tasks apart by client and subject alone, so that one issuer's subject has another's tasks.
    Ends when: `get_task_scope` counts the issuer.
    """
    from fastmcp_tasks.context import TaskContextSnapshot, get_task_scope
    from fastmcp_tasks.encryption import snapshot_codec
    from fastmcp_tasks.keys import task_redis_prefix

    async with server._docket.redis() as redis:
        kept = await redis.get(server._docket.key(f"{task_redis_prefix(get_task_scope())}:{task_id}:snapshot"))
    if kept is None:
        return False
    token = TaskContextSnapshot.from_json(snapshot_codec().decode(kept)).access_token_json
    return token is not None and (json.loads(token).get("claims") or {}).get("iss") == issuer


def connection_of(session: ServerSession) -> Connection:
    """Return the connection that a request's session object is made for, `ServerSession._connection`.

    Why: `list_changed` outlives the request that a session object is made for.
    Ends when: the request context bears its connection.
    """
    return session._connection


def takes_log_message(
    context: Context, session: ServerSession, meta: Mapping[str, Any], level: mcp_types.LoggingLevel
) -> bool:
    """Whether a request's caller takes a log message of a level, `FastMCP._client_log_levels`.

    Callers of 2026-07-28 say so in each request; others with `logging/setLevel`, which FastMCP keeps.
    Why: FastMCP judges levels where it makes log messages itself; one that is handed on must be judged alike.
    Ends when: a server tells the level that a session takes, or `Context` sends a log message as it is.
    """
    if level not in allowed_log_levels(session.protocol_version, meta):
        return False
    server = context.fastmcp
    least = server._client_log_levels.get(_log_level_session_key(session), server.client_log_level)
    return least is None or _MCP_LEVEL_SEVERITY[level] >= _MCP_LEVEL_SEVERITY[least]


def is_over_stdio() -> bool:
    """Whether what runs now is served over stdio, `fastmcp.server.context._current_transport`.

    Why: FastMCP passes over components' own `auth` checks there, and the catalog must be judged likewise.
    Ends when: FastMCP has a public function that tells the transport outside a request's `Context`.
    """
    return _current_transport.get() == "stdio"


@contextmanager
def as_over_stdio() -> Iterator[None]:
    """List within as the one who launched the server, over stdio, would: past every component's own `auth` check."""
    token = set_transport("stdio")
    try:
        yield
    finally:
        reset_transport(token)


def parts_of(provider: Provider) -> Sequence[Provider]:
    """Return the providers that one lists through: what a transform is wrapped around, a mounted server, or its own.

    Why: `_WrappedProvider` and its `_inner` hide the providers whose changes are watched.
    Ends when: a wrapped provider tells what it wraps.
    """
    match provider:
        case _WrappedProvider():
            return [provider._inner]
        case FastMCPProvider():
            return [provider.server]
        case AggregateProvider():
            return provider.providers
        case _:
            return []


def mounted_server(component: FastMCPComponent) -> FastMCP[Any] | None:
    """Return the mounted server that a component comes from, `FastMCPProviderTool._server`; None for a server's own.

    Why: a request that fits a server's tools likely means one of them, and what denies a component denies it in the
    server that it comes from too. Names are all that a listing tells of that.
    Ends when: a listed component tells its server.
    """
    server = component._server if isinstance(component, _MOUNTED) else None
    return server if isinstance(server, FastMCP) else None


_MOUNTED = (FastMCPProviderTool, FastMCPProviderPrompt, FastMCPProviderResource, FastMCPProviderResourceTemplate)


def watch_components(provider: LocalProvider, on_change: Callable[[FastMCPComponent], None]) -> None:
    """Have every component that is added to or removed from a provider told, by replacing two of its methods.

    Why: `_add_component` and `_remove_component` are where all of them pass; FastMCP tells nobody.
    Ends when: a provider offers a hook for changes of what it holds.
    """
    add, remove = provider._add_component, provider._remove_component
    _generations[provider] = next(_counter)

    def add_and_tell(component: Any) -> Any:
        added = add(component)
        _generations[provider] = next(_counter)
        on_change(component)
        return added

    def remove_and_tell(key: str) -> None:
        component = provider._get_component(key)
        remove(key)
        _generations[provider] = next(_counter)
        if component is not None:
            on_change(component)

    provider._add_component = add_and_tell  # type: ignore[method-assign]
    provider._remove_component = remove_and_tell  # type: ignore[method-assign]
    if type(provider) is LocalProvider:
        provider._get_tool = _ToolsByName(provider).get  # type: ignore[method-assign]


class _ToolsByName:
    """The tools of a local provider by their names, in place of `LocalProvider._get_tool`.

    Why: FastMCP looks through all components for one name, a third of a millisecond for each thousand at every call.
    Ends when: a local provider keeps its components by name.
    """

    def __init__(self, provider: LocalProvider) -> None:
        self._provider = provider
        self._generation: int | None = None
        self._tools: dict[str, list[Tool]] = {}

    async def get(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        """Return the tool of a name, the highest of the versions asked for."""
        if self._generation != (current := _generations[self._provider]):
            by_name: dict[str, list[Tool]] = {}
            for component in list(self._provider._components.values()):
                if isinstance(component, Tool):
                    by_name.setdefault(component.name, []).append(component)
            self._tools, self._generation = by_name, current  # in this order: another thread may look a name up
        found = [tool for tool in self._tools.get(name, ()) if version is None or version.matches(tool.version)]
        return max(found, key=version_sort_key, default=None)


_counter = count()
"""Never the same number twice, from whichever thread: two changes at once can't be taken for none."""
_generations: WeakKeyDictionary[Provider, int] = WeakKeyDictionary()


def generation(provider: Provider) -> Hashable | None:
    """Return what changes with what a provider lists to the present caller, or None where nothing tells of that.

    Only a watched `LocalProvider` or a `KeptProvider`, without transforms, lists the same until it is told of: a
    subclass may reload when it is listed, and a server mounted or wrapped gives copies of what may change within it.
    """
    if provider.transforms:
        return None
    if isinstance(provider, KeptProvider):
        return provider.generation_for_caller
    return _generations.get(provider) if type(provider) is LocalProvider else None
