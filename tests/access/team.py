"""A small team: a server, its settings file with rules, and a file of tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.access.token_file import new_token
from tests.server.in_process import web_of

SETTINGS = """
[auth]
tokens = "{tokens}"

[profiles.readers]
read_only = true

[profiles.no_push]
disabled_tools = ["git_push"]

[[access]]
who = {{ subject = "ann" }}
profile = "all"
may = ["metrics", "context"]

[[access]]
who = {{ subject = ["bob", "intern-*"] }}
profile = "readers"
"""


class Team:
    """Files of a team in a folder, and its servers."""

    def __init__(self, folder: Path, settings: str = SETTINGS) -> None:
        self.settings, self.tokens = folder / "agent-utilities.toml", folder / "tokens.json"
        self.write(settings)

    def write(self, settings: str) -> None:
        """Put other settings in the place of those that there are."""
        self.settings.write_text(settings.format(tokens=self.tokens))

    def token(self, name: str, profile: str = "", valid_for: str = "") -> dict[str, str]:
        """Make a token, and return the header that bears it."""
        return bearing(new_token(self.tokens, name, profile, valid_for))

    def server(self, environ: dict[str, str] | None = None, **options: Any) -> AgentServer:
        """Return a server of three tools, launched with the team's settings."""
        given = {"MCP_CONFIG_FILE": str(self.settings), "MCP_GRAPH": "off", **(environ or {})}
        mcp = create_mcp_server("team", environ=given, **options)
        for name, read_only in (("git_log", True), ("git_push", False), ("git_status", True)):
            mcp.tool(name=name, tags={"git"}, annotations={"readOnlyHint": read_only})(lambda: "done")
        return mcp

    @asynccontextmanager
    async def web(self, environ: dict[str, str] | None = None, **options: Any) -> AsyncIterator[httpx2.AsyncClient]:
        """A client of such a server."""
        async with web_of(self.server(environ, **options)) as web:
            yield web


def bearing(token: str) -> dict[str, str]:
    """Return the header that bears a token."""
    return {"authorization": f"Bearer {token}"}
