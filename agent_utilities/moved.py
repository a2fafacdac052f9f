"""Where modules stood before their rooms were named by subject: old paths work for one release, with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_ROOMS = {
    "mcp.record": "access.record.record",
    "mcp.events": "seam.events",
    "mcp.feature_list": "server.feature_list",
    "mcp.feature": "seam.feature",
    "mcp.greeting": "server.startup",
    "mcp.operator_bounds": "server.startup_checks",
    "mcp.request": "seam.request",
    "mcp.surface.components": "seam.components",
    "mcp.tool_origin": "seam.components",
    "mcp.whole_catalog": "seam.whole_catalog",
    "mcp.routes": "server.http",
    "ranking.terms": "catalog.words",
    "resolution.capability_router": "gateway.capabilities.router",
    "router.tools": "search.router_tools",
    "upstream.fit": "protocol.fit",
    "activation": "policy",
    "audit": "access.record",
    "capabilities": "gateway.capabilities",
    "catalog.entry_tools": "search.entry_tools",
    "catalog.search_result": "search.search_result",
    "features.access": "access",
    "features.capabilities": "gateway.capabilities",
    "features.context": "context",
    "features.fleet": "fleet",
    "features.logins": "gateway.logins",
    "features.page": "page",
    "features.query": "query",
    "features.quotas.feature": "access.quotas",
    "features.tool_search": "search",
    "features.upstreams": "gateway",
    "features.usage": "usage",
    "features": "",
    "graph": "query.graph",
    "mcp": "server",
    "ranking": "query.ranking",
    "resolution": "query.resolution",
    "router": "search",
    "upstream": "gateway.upstreams",
    "visibility": "policy",
}
"""The old path of each room, within the package, and where it stands now."""
_PACKAGE = __name__.partition(".")[0]


class OldPaths(MetaPathFinder, Loader):
    """Finds a module by the path that it had before."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return what leads to the module where it stands now; None for a path that never was one."""
        package, _, old = name.partition(".")
        if package != _PACKAGE:
            return None
        room = next((room for room in _ROOMS if old == room or old.startswith(f"{room}.")), None)
        if room is None:
            return None
        now = f"{_PACKAGE}.{_ROOMS[room]}{old[len(room) :]}".rstrip(".")
        warnings.warn(f"{name} is {now} now; the old path goes with the next release", DeprecationWarning, 2)
        return ModuleSpec(name, self, origin=now, loader_state=import_module(now).__spec__, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself, so that what it holds is the same by either path."""
        return import_module(str(spec.origin))

    def exec_module(self, module: ModuleType) -> None:
        """Leave it as it is, and give it back its own spec."""
        if module.__spec__ is not None:
            module.__spec__ = module.__spec__.loader_state


sys.meta_path.insert(0, OldPaths())  # before what would load a file a second time, by a room's old name
