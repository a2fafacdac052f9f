"""A server with one tool that must not be called from elsewhere, and a route of the author's that tells."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse

from agent_utilities import create_mcp_server

mcp = create_mcp_server("foreign")
calls: list[str] = []


@mcp.tool(tags={"delete"})
def wipe() -> str:
    calls.append("wipe")
    return "wiped"


@mcp.custom_route("/authors-own", methods=["GET"])
async def authors_own(request: Request) -> JSONResponse:
    return JSONResponse({"wiped": len(calls)})


if __name__ == "__main__":
    mcp.cli()
