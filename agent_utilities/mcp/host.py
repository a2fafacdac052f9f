"""The server, as its parts and features know it: the one protocol that stands for it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from fastmcp.prompts.base import Prompt
from fastmcp.resources.base import Resource
from fastmcp.resources.template import ResourceTemplate
from fastmcp.server.auth import AuthProvider
from fastmcp.server.completions import CompletionHandler
from fastmcp.server.middleware import Middleware
from fastmcp.server.providers import Provider
from fastmcp.server.transforms import Transform
from fastmcp.tools.base import Tool
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import VersionSpec

from agent_utilities.catalog.model import Catalog, ComponentKind
from agent_utilities.mcp.changes.changes import Changes
from agent_utilities.mcp.events import Event
from agent_utilities.mcp.request import Request
from agent_utilities.mcp.sessions import Client, Session, Sessions
from agent_utilities.mcp.surface.surface import Surface
from agent_utilities.mcp.tool_origin import ToolOrigin
from agent_utilities.selection.model import Selection

_T = TypeVar("_T")


class Host(Protocol):
    """A server that holds one verdict on every wire, and asks its features."""

    auth: AuthProvider | None
    surface: Surface
    sessions: Sessions
    changes: Changes
    transport: str | None
    """What it is served over: `stdio`, `http`, `sse`; None where it is neither, as in this process."""
    completes: bool
    """Whether anything completes arguments of its prompts and resources."""
    author_injected_tools: Callable[[], list[Tool]]
    """Returns the tools that the author's middleware injects."""
    providers: list[Provider]
    middleware: list[Middleware]

    @property
    def name(self) -> str:
        """The server's name, as clients see it."""
        ...

    @property
    def instructions(self) -> str | None:
        """What the server is for, as its author wrote it for models."""
        ...

    @property
    def transforms(self) -> list[Transform]:
        """All transforms, the visibility transform outermost."""
        ...

    def note_listed(self, kind: ComponentKind, catalog: Catalog) -> None:
        """Take note of the catalog of a whole listing."""
        ...

    async def request(
        self,
        selection: Selection,
        *,
        method: str = "",
        params: Mapping[str, Any] | None = None,
        session: Session | None = None,
        client: Client | None = None,
        is_dry: bool = False,
    ) -> Request:
        """Return a request of a caller as all features narrowed and shaped it; one without a method lists tools."""
        ...

    def feature(self, kind: type[_T]) -> _T | None:
        """Return the feature of a class, or None where the server does not have it."""
        ...

    async def wait_for_first(self, caller: Selection, kind: ComponentKind) -> None:
        """Wait for what was never seen before a list, at the very start."""
        ...

    async def instructions_for(self, request: Request) -> str | None:
        """Return what a caller is told of the server for models."""
        ...

    def notify(self, event: Event) -> None:
        """Tell features and observers of an event; returns at once."""
        ...

    # -- what there is -----------------------------------------------------------------------------------------------

    async def components(self, kind: ComponentKind) -> Sequence[FastMCPComponent]:
        """Return the components of a kind under the verdict in force, without middleware."""
        ...

    async def catalog(self, kind: ComponentKind) -> Catalog:
        """Return what the present caller was last listed of a kind; they are listed it where that is not known."""
        ...

    async def list_tools(self) -> Sequence[Tool]:
        """Return the visible tools under the verdict in force, as the author's middleware leaves them."""
        ...

    async def get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        """Return a tool that the present caller may call, or None."""
        ...

    async def get_prompt(self, name: str, version: VersionSpec | None = None) -> Prompt | None:
        """Return a prompt that the present caller may render, or None."""
        ...

    async def get_resource(self, uri: str, version: VersionSpec | None = None) -> Resource | None:
        """Return a resource that the present caller may read, or None."""
        ...

    async def get_resource_template(self, uri: str, version: VersionSpec | None = None) -> ResourceTemplate | None:
        """Return the template that makes a URI that the present caller may read, or None."""
        ...

    def origin_of(self, tool: Tool) -> ToolOrigin:
        """Return where a tool comes from; a server without a name for the server's own."""
        ...

    # -- put in ------------------------------------------------------------------------------------------------------

    def add_provider(self, provider: Provider, *, namespace: str = "") -> None:
        """Add a provider, under the same verdict as the server's own components."""
        ...

    def add_completion_handler(self, handler: CompletionHandler) -> None:
        """Complete arguments of permitted prompts and resources."""
        ...

    def start(self, work: Coroutine[None, None, None]) -> bool:
        """Start bounded work that no request waits for; return whether it was started."""
        ...

    def health(self) -> Mapping[str, Any]:
        """Return whether it has started, under `status`, and what features tell everybody."""
        ...
