"""A server whose permitted tools reach for others: by search, by calls, and by prompts and resources as tools."""

from __future__ import annotations

from fastmcp import Context
from fastmcp.server.transforms import PromptsAsTools, ResourcesAsTools
from fastmcp.server.transforms.search import BM25SearchTransform

from agent_utilities import create_mcp_server

LEAKED = "LEAKED"

mcp = create_mcp_server("indirect")


@mcp.tool(tags={"read"}, description="Reads a note.")
def read_note() -> str:
    return "note"


@mcp.tool(tags={"read"}, description="Counts every note.")
def count_notes() -> str:
    return "counted"


@mcp.tool(tags={"delete"}, description=f"Wipes a note. {LEAKED}")
def wipe_note() -> str:
    return LEAKED


@mcp.prompt(tags={"delete"}, description=LEAKED)
def plot() -> str:
    return LEAKED


@mcp.resource("plan://secret", tags={"delete"}, description=LEAKED)
def plan() -> str:
    return LEAKED


@mcp.tool(tags={"read"})
async def forward(name: str, ctx: Context) -> str:
    return str((await ctx.fastmcp.call_tool(name)).content)


@mcp.tool(tags={"read"})
async def unlock(ctx: Context) -> str:
    await ctx.enable_components(tags={"delete"})
    return "unlocked"


mcp.add_transform(PromptsAsTools(mcp))
mcp.add_transform(ResourcesAsTools(mcp))
mcp.add_transform(BM25SearchTransform(always_visible=["unlock"]))

if __name__ == "__main__":
    mcp.cli()
