"""Where a tool comes from, as graph and ranker are told: the server itself, one mounted in it, or an upstream."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fastmcp import FastMCP
from fastmcp.tools.base import Tool

from agent_utilities.catalog.document import ToolServer
from agent_utilities.mcp.fastmcp_internals import mounted_server

_GENERATED_NAME = re.compile(r"(\w+?)-(?:(.+)-)?[0-9a-f]{4}")


@dataclass(frozen=True, slots=True)
class ToolOrigin:
    """Where a tool comes from.

    Args:
        server: the server that has it.
        own_name: what that server calls it; empty where callers see it under the same name.
        is_upstream: whether that server is behind a gateway, and so has a node of its own in the graph.
    """

    server: ToolServer
    own_name: str = ""
    is_upstream: bool = False


class ForeignTool(Tool):
    """A tool that another server has, and that tells which.

    A class and no protocol: to look whether a tool keeps to one takes 30 µs, and there may be 10,000.
    """

    @property
    def origin(self) -> ToolOrigin:
        """Where it comes from."""
        raise NotImplementedError


def origin_of(tool: Tool, server: FastMCP[Any]) -> ToolOrigin:
    """Return where a tool comes from."""
    if isinstance(tool, ForeignTool):
        return tool.origin
    return ToolOrigin(ToolServer(given_name(mounted_server(tool) or server)))


def given_name(server: FastMCP[Any]) -> str:
    """Return the name that a server was given, without what FastMCP draws at random for one that has none.

    Rankings would differ from process to process by it.
    """
    generated = _GENERATED_NAME.fullmatch(server.name)
    if generated and generated[1] in {kind.__name__ for kind in type(server).__mro__}:
        return generated[2] or ""
    return server.name
