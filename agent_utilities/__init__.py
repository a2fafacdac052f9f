"""Build MCP servers whose tool surface is small, right and bounded."""

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agent_utilities import moved  # noqa: F401 - so that old paths work

if TYPE_CHECKING:
    from agent_utilities.catalog.model import Catalog
    from agent_utilities.errors import AgentUtilitiesError, Asked, SelectionError, SettingsError
    from agent_utilities.policy.curation import Preferences
    from agent_utilities.policy.decision import Decision
    from agent_utilities.query.graph.base import ToolGraph
    from agent_utilities.seam.caller import Caller, Grant
    from agent_utilities.seam.events import Event
    from agent_utilities.seam.feature import BoundError, Feature, OwnTool, Refusal
    from agent_utilities.seam.host import Host, ToolFacts
    from agent_utilities.seam.panel import Panel, Table
    from agent_utilities.seam.request import Call, Request, make_call
    from agent_utilities.seam.session import Session
    from agent_utilities.seam.verdict import Verdict
    from agent_utilities.search.tool_router import ToolRouter
    from agent_utilities.selection.caller import selection_headers, selection_meta, selection_url
    from agent_utilities.selection.merge import Narrowing
    from agent_utilities.selection.model import Selection
    from agent_utilities.server.agent_server import AgentServer
    from agent_utilities.server.server_cli import server_command
    from agent_utilities.server_factory import create_gateway, create_mcp_server

__all__ = [
    "AgentServer",
    "AgentUtilitiesError",
    "Asked",
    "BoundError",
    "Call",
    "Caller",
    "Catalog",
    "Decision",
    "Event",
    "Feature",
    "Grant",
    "Host",
    "Narrowing",
    "OwnTool",
    "Panel",
    "Preferences",
    "Refusal",
    "Request",
    "Selection",
    "SelectionError",
    "Session",
    "SettingsError",
    "Table",
    "ToolFacts",
    "ToolGraph",
    "ToolRouter",
    "Verdict",
    "__version__",
    "create_gateway",
    "create_mcp_server",
    "make_call",
    "selection_headers",
    "selection_meta",
    "selection_url",
    "server_command",
]

_HOMES = {
    name: home
    for home, names in {
        "errors": ("AgentUtilitiesError", "Asked", "SelectionError", "SettingsError"),
        "query.graph.base": ("ToolGraph",),
        "seam.feature": ("BoundError", "Feature", "OwnTool", "Refusal"),
        "catalog.model": ("Catalog",),
        "policy.curation": ("Preferences",),
        "policy.decision": ("Decision",),
        "seam.verdict": ("Verdict",),
        "seam.caller": ("Caller", "Grant"),
        "seam.events": ("Event",),
        "seam.host": ("Host", "ToolFacts"),
        "seam.panel": ("Panel", "Table"),
        "seam.session": ("Session",),
        "selection.model": ("Selection",),
        "seam.request": ("Call", "Request", "make_call"),
        "server.server_cli": ("server_command",),
        "search.tool_router": ("ToolRouter",),
        "selection.caller": ("selection_headers", "selection_meta", "selection_url"),
        "server_factory": ("AgentServer", "create_gateway", "create_mcp_server"),
        "selection.merge": ("Narrowing",),
    }.items()
    for name in names
}


def __getattr__(name: str) -> Any:
    """Return a public name, imported when it is first asked for: command lines that need no FastMCP don't load it."""
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("agent-utilities")
    elif name in _HOMES:
        is_collecting = gc.isenabled()
        gc.disable()  # an import leaves no garbage, and to look for some again and again is a tenth of its time
        try:
            value = getattr(import_module(f"agent_utilities.{_HOMES[name]}"), name)
        except ValueError as error:
            from agent_utilities.settings import of_fastmcp

            raise of_fastmcp(error) or error from None
        finally:
            if is_collecting:
                gc.enable()
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted({*globals(), *__all__})
