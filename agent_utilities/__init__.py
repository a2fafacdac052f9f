"""Build MCP servers whose tool surface is small, right and bounded."""

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
    "create_mcp_server",
    "selection_headers",
    "selection_meta",
    "selection_url",
]
