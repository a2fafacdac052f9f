"""Build MCP servers whose tool surface is small, right and bounded."""

from typing import Any

from agent_utilities.errors import AgentUtilitiesError, SelectionError, SettingsError
from agent_utilities.graph.base import ToolGraph
from agent_utilities.mcp.server import AgentServer
from agent_utilities.mcp.server_factory import create_mcp_server
from agent_utilities.selection.caller import selection_headers, selection_meta, selection_url

__all__ = [
    "AgentServer",
    "AgentUtilitiesError",
    "SelectionError",
    "SettingsError",
    "ToolGraph",
    "__version__",
    "create_mcp_server",
    "selection_headers",
    "selection_meta",
    "selection_url",
]


def __getattr__(name: str) -> Any:
    """Return `__version__`, read from the installed package when it is first asked for."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    globals()[name] = version("agent-utilities")
    return globals()[name]
