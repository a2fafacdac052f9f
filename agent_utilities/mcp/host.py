"""What the rooms of the host ask of the server they belong to; they know this, and not the server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from fastmcp.server.auth import AuthProvider
from fastmcp.tools.base import Tool
from fastmcp.utilities.components import FastMCPComponent

from agent_utilities.catalog.model import Catalog, ComponentKind
from agent_utilities.mcp.search_session import SessionView
from agent_utilities.mcp.surface.surface import Surface
from agent_utilities.mcp.surface.verdict import Verdict
from agent_utilities.selection.model import Selection
from agent_utilities.visibility.bounds import Bounds


class Host(Protocol):
    """A server that holds one verdict on every wire."""

    auth: AuthProvider | None
    surface: Surface
    toolsets_to_come: Callable[[], Collection[str]]

    @property
    def name(self) -> str:
        """The server's name, as clients see it."""
        ...

    async def verdict(
        self, caller: Selection, *, lists_tools: bool, view: SessionView | None = None, is_about_tools: bool = True
    ) -> Verdict:
        """Return the verdict for one request of a caller, its query resolved where tools are listed."""
        ...

    async def components(self, kind: ComponentKind) -> Sequence[FastMCPComponent]:
        """Return the components of a kind under the verdict in force, without middleware."""
        ...

    async def catalog(self, kind: ComponentKind) -> Catalog:
        """Return what the present caller was last listed of a kind; he is listed it where that is not known."""
        ...

    async def list_tools(self) -> Sequence[Tool]:
        """Return the visible tools under the verdict in force, as the author's middleware leaves them."""
        ...

    async def verdict_once(self, caller: Selection) -> Verdict:
        """Return the verdict for a caller's list where no server runs, its query resolved."""
        ...

    def absent(self, bounds: Bounds) -> Sequence[str]:
        """Return what a caller may learn of that should be listed, and is not known yet: names of upstreams."""
        ...

    async def wait_for_first(self, caller: Selection, kind: ComponentKind, name: str | None = None) -> None:
        """Wait for what was never seen and this caller may learn of, at the very start, for some seconds at most.

        Args:
            caller: what the caller selects.
            kind: what is listed, or looked up.
            name: the name or URI that is looked up; None for a list.
        """
        ...

    async def know_everything(self) -> None:
        """Bring in what is not known yet, however long it takes, before an operator is shown everything."""
        ...

    async def check_bounds(self) -> None:
        """Refuse what the operator gave where a launch would."""
        ...

    def health(self) -> Mapping[str, Any]:
        """Return whether it has started, under `status`, and the state of graph and ranker."""
        ...
