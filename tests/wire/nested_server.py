"""A server over others: what it lists of them is one version, and what they would run may be another."""

from __future__ import annotations

from fastmcp import FastMCP
from fastmcp.server import create_proxy

from agent_utilities import create_mcp_server

LEAKED = "LEAKED"

upstream = FastMCP("far")


@upstream.tool(name="draw", version="1", tags={"write"})
def draw_first() -> str:
    return LEAKED


@upstream.tool(name="draw", version="2", tags={"read"})
def draw_second() -> str:
    return "draw 2"


@upstream.prompt(name="say", version="1", tags={"write"})
def say_first() -> str:
    return LEAKED


@upstream.prompt(name="say", version="2", tags={"read"})
def say_second() -> str:
    return "say 2"


@upstream.resource("page://cover", version="1", tags={"write"})
def cover_first() -> str:
    return LEAKED


@upstream.resource("page://cover", version="2", tags={"read"})
def cover_second() -> str:
    return "cover 2"


@upstream.resource("leaf://{name}", version="1", tags={"write"})
def leaf_first(name: str) -> str:
    return LEAKED


@upstream.resource("leaf://{name}", version="2", tags={"read"})
def leaf_second(name: str) -> str:
    return "leaf 2"


child = create_mcp_server("kid")


@child.resource("toy://red", version="2", tags={"write"})
def toy_red() -> str:
    return LEAKED


@child.resource("toy://{name}", tags={"read"})
def toy(name: str) -> str:
    return "toy"


@child.resource("pot://{name}", version="2", tags={"write"})
def pot_second(name: str) -> str:
    return LEAKED


@child.resource("pot://{name*}", tags={"read"})
def pot(name: str) -> str:
    return "pot"


elder, younger = FastMCP("elder"), FastMCP("younger")


@elder.tool(name="mix", tags={"read"})
def mix_tool() -> str:
    return "mix"


@younger.tool(name="mix", version="2", tags={"write"})
def mix_tool_second() -> str:
    return LEAKED


@elder.prompt(name="blend", tags={"read"})
def blend_prompt() -> str:
    return "blend"


@younger.prompt(name="blend", version="2", tags={"write"})
def blend_prompt_second() -> str:
    return LEAKED


child.mount(elder)
child.mount(younger)

mcp = create_mcp_server("nested")
mcp.mount(child, namespace="kid")
mcp.mount(create_proxy(upstream), namespace="far")

if __name__ == "__main__":
    mcp.cli()
