"""Private names of FastMCP's server, and what is built on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from fastmcp import FastMCP
from fastmcp.server.context import reset_transport, set_transport
from fastmcp.server.providers import Provider, fastmcp_provider
from fastmcp.server.providers.aggregate import AggregateProvider
from fastmcp.tools.base import Tool
from fastmcp.utilities.components import FastMCPComponent
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

from agent_utilities.compat import Part

if TYPE_CHECKING:
    import mcp_types
    from fastmcp.resources.security import ResourceSecurity
    from fastmcp.server.auth import AuthProvider
    from fastmcp.server.lifespan import Lifespan
    from fastmcp.server.middleware import Middleware
    from fastmcp.server.server import DuplicateBehavior, LifespanCallable
    from fastmcp.server.transforms import Transform
    from key_value.aio.protocols import AsyncKeyValue

_INJECTED = (
    "tools that `ToolInjectionMiddleware` adds are listed and called beside the transforms, so past every bound",
    "FastMCP passes injected tools through a server's transforms",
)
_WRAPPED = (
    "it hides the provider that a transform or a namespace wraps, whose changes are watched",
    "a wrapper names publicly what it wraps",
    "changes of what a namespaced or mounted server has are not told to clients",
)
_MOUNTED = (
    fastmcp_provider.FastMCPProviderTool,
    fastmcp_provider.FastMCPProviderPrompt,
    fastmcp_provider.FastMCPProviderResource,
    fastmcp_provider.FastMCPProviderResourceTemplate,
)
_MOUNTS = (
    "a deny of a mounted server's component also holds where a tool calls it within that server",
    "a listed component names its server publicly",
)
PARTS = (
    Part(
        "fastmcp.server.server:FastMCP._mcp_server",
        "SDK middleware, handlers, cache hints, the schema look-up and the lifespan as a whole are the SDK server's",
        "FastMCP offers them, or its SDK server, by a public name",
    ),
    Part("fastmcp.server.server:FastMCP._injected_tools", *_INJECTED),
    Part("fastmcp.server.server:FastMCP._get_injected_tool", *_INJECTED),
    Part(
        "fastmcp.server.server:FastMCP._list_tools",
        "every provider is listed for each request, though few tools are shown of many",
        "FastMCP keeps what providers list",
        "providers are listed anew for each request",
    ),
    Part("fastmcp.server.providers.wrapped_provider:_WrappedProvider._inner", *_WRAPPED),
    *(Part(f"{kind.__module__}:{kind.__name__}._server", *_MOUNTS) for kind in _MOUNTED),
)


def low_level_server(server: Any) -> Server[Any]:
    """Return the SDK's server."""
    sdk: Server[Any] = server._mcp_server
    return sdk


def whole_lifespan(server: FastMCP[Any]) -> AbstractAsyncContextManager[Any]:
    """Return a context in which every lifespan has been entered; it may be nested.

    Bounds are checked, and may end the launch, once all tools are there and before any is served: an error in a web
    server's own lifespan would only reach its log.
    """
    sdk = low_level_server(server)
    return sdk.lifespan(sdk)


def hold_injected_tools(server: Any, permits: Callable[[Tool], bool]) -> Callable[[], list[Tool]]:
    """Keep injected tools off FastMCP's lists, and let a request call only those that `permits` accepts.

    Returns a function that returns the injected tools, for the visibility transform to list.
    """
    injected: Callable[[], list[Tool]] = server._injected_tools
    get = server._get_injected_tool

    def get_injected(name: str) -> Tool | None:
        tool: Tool | None = get(name)
        return tool if tool is None or permits(tool) else None

    server._injected_tools = list
    server._get_injected_tool = get_injected
    return injected


_ListTools = Callable[[], Awaitable[Sequence[Tool]]]


def keep_lists(server: Any, kept: Callable[[_ListTools], Awaitable[Sequence[Tool]]]) -> None:
    """Replace how a server lists tools by `kept`, which gets the function that lists providers' before transforms."""
    listed = getattr(server, "_list_tools", None)
    if listed is None:
        return

    async def list_tools() -> Sequence[Tool]:
        return await kept(listed)

    server._list_tools = list_tools


class _State:
    """A store of sessions' state: in memory until replicas share one. Importing stores, 400 modules, is put off."""

    shared: AsyncKeyValue | None = None

    def __getattr__(self, name: str) -> Any:
        if self.shared is None:
            from key_value.aio.stores.memory import MemoryStore

            self.shared = MemoryStore()
        return getattr(self.shared, name)


class FastMCPOptions(TypedDict, total=False):
    """The options of `fastmcp.FastMCP` beside name and instructions, for type checkers."""

    version: str | int | float | None
    website_url: str | None
    icons: list[mcp_types.Icon] | None
    auth: AuthProvider | None
    middleware: Sequence[Middleware] | None
    providers: Sequence[Provider] | None
    transforms: Sequence[Transform] | None
    lifespan: LifespanCallable | Lifespan | None
    tools: Sequence[Tool | Callable[..., Any]] | None
    on_duplicate: DuplicateBehavior | None
    mask_error_details: bool | None
    dereference_schemas: bool
    strict_input_validation: bool | None
    list_page_size: int | None
    resource_security: ResourceSecurity | None
    request_state_security: RequestStateSecurity | None
    cache_ttl: int | None
    cache_scope: Literal["public", "private"] | None
    tasks: bool | None
    session_state_store: AsyncKeyValue | None
    client_log_level: mcp_types.LoggingLevel | None
    experimental_capabilities: dict[str, dict[str, Any]] | None


class Replicated:
    """Shares FastMCP's own session state and `requestState` among replicas, unless the author set their own."""

    def __init__(self, options: FastMCPOptions) -> None:
        self._seals = options.get("request_state_security") is None
        self._state = _State() if options.get("session_state_store") is None else None
        if self._state is not None:
            options["session_state_store"] = self._state

    def share(self, server: FastMCP[Any], key: bytes, values: AsyncKeyValue) -> None:
        """Seal `requestState` with a key of 32 bytes that all replicas have, and keep session state in `values`."""
        if self._state is not None:
            self._state.shared = values
        if self._seals:
            boundary: Any = RequestStateBoundary(RequestStateSecurity(keys=[key]), default_audience=server.name)
            chain = low_level_server(server).middleware
            chain[:] = [boundary if isinstance(each, RequestStateBoundary) else each for each in chain]


def import_state() -> None:
    """Import what FastMCP's first list would import, for its session state.

    A thread that imports upstreams' clients needs the same modules, and two threads that import one package can
    deadlock: Python then raises in one of them.
    """
    import key_value.aio.adapters.pydantic
    import key_value.aio.stores.memory  # noqa: F401


def is_over_stdio() -> bool:
    """Whether stdio is being served, where FastMCP skips components' `auth` checks.

    `Context.transport` says so within a request alone; the token of a change has the value before it.
    """
    token = set_transport("stdio")
    reset_transport(token)
    return bool(token.old_value == "stdio")


@contextmanager
def as_over_stdio() -> Iterator[None]:
    """Skip components' `auth` checks within, as for who launched the server over stdio."""
    token = set_transport("stdio")
    try:
        yield
    finally:
        reset_transport(token)


def parts_of(provider: Provider) -> Sequence[Provider]:
    """Return the providers that one delegates to: a wrapped one, a mounted server, or an aggregate's members."""
    match provider:
        case fastmcp_provider.FastMCPProvider():
            return [provider.server]
        case AggregateProvider():
            return provider.providers
        case _:
            inner = getattr(provider, "_inner", None)
            return [inner] if isinstance(inner, Provider) else []


def mounted_server(component: FastMCPComponent) -> FastMCP[Any] | None:
    """Return the mounted server that a component comes from; None for a server's own."""
    server = component._server if isinstance(component, _MOUNTED) else None
    return server if isinstance(server, FastMCP) else None
