"""A server with two kinds of users: some components are the administrator's alone."""

from __future__ import annotations

from fastmcp.server.auth import AuthContext
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from agent_utilities import create_mcp_server


def admin_only(context: AuthContext) -> bool:
    return context.token is not None and "admin" in context.token.scopes


USERS = {"admin": {"client_id": "a", "scopes": ["admin"]}, "user": {"client_id": "u", "scopes": []}}

mcp = create_mcp_server("roles", auth=StaticTokenVerifier(tokens=USERS))


@mcp.tool
def shared() -> str:
    return "shared"


@mcp.tool(auth=admin_only)
def boss_tool() -> str:
    return "LEAKED"


@mcp.prompt(auth=admin_only)
def boss_plan() -> str:
    return "LEAKED"


@mcp.resource("boss://desk", auth=admin_only)
def boss_desk() -> str:
    return "LEAKED"


if __name__ == "__main__":
    mcp.cli()
