"""A server of ours whose tools have schemas of all kinds, by each way in which an author gives a tool one.

python schemas_server.py SEED N_TOOLS ...
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from random import Random
from typing import Any

from fastmcp.server.transforms import Transform
from fastmcp.tools.base import Tool, ToolResult

from agent_utilities import create_mcp_server
from agent_utilities.catalog.document import ToolServer
from agent_utilities.seam.components import ForeignTool, ToolOrigin
from tests.differential.values import any_schema, object_schema


class OwnTool(Tool):
    """A tool of an author's own class."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Return an object."""
        return ToolResult(structured_content={"given": arguments})


class OfAnother(ForeignTool, OwnTool):
    """A tool that another server has."""

    @property
    def origin(self) -> ToolOrigin:
        """Where it comes from."""
        return ToolOrigin(ToolServer("another"))


class Changed(Transform):
    """Gives tools other schemas than they were made with."""

    async def list_tools(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        """Return tools, those of which the name says so with the schema that is kept for them."""
        return [
            tool.model_copy(update={"output_schema": later[tool.name]}) if tool.name in later else tool
            for tool in tools
        ]


later: dict[str, Any] = {}
seed, n_tools = map(int, sys.argv.pop(1).split(","))
mcp = create_mcp_server("schemas", transforms=[Changed()])


@mcp.tool
def honest() -> str:
    """Say so."""
    return "honest"


for n in range(n_tools):
    rng = Random(f"own {seed} {n}")
    output = any_schema(rng, 0.3)
    taken: dict[str, Any] = {"name": f"t{n}", "parameters": object_schema(rng)}
    if n % 3 == 2 or not isinstance(output, dict):
        later[f"t{n}"] = output
    else:
        taken["output_schema"] = output
    mcp.add_tool((OwnTool if n % 3 else OfAnother)(**taken))

if __name__ == "__main__":
    mcp.cli()
