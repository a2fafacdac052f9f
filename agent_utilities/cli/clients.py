"""MCP clients: where each keeps its servers, and how it spells one."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from agent_utilities.upstream.configuration.host_files import user_files


class Client(StrEnum):
    """A client whose configuration is known."""

    CLAUDE_DESKTOP = "claude-desktop"
    CLAUDE_CODE = "claude-code"
    CURSOR = "cursor"
    VSCODE = "vscode"
    GEMINI = "gemini"
    WINDSURF = "windsurf"


@dataclass(frozen=True)
class Entry:
    """How a client starts a server over stdio; clients give it next to nothing of the user's environment."""

    name: str
    command: str
    arguments: tuple[str, ...]
    environ: Mapping[str, str]

    def as_json(self, client: Client) -> dict[str, Any]:
        """Return the entry as a client's file has it. Claude Code and VS Code want the transport named.

        Source: code.visualstudio.com/docs/copilot/reference/mcp-configuration; cursor.com/docs/mcp;
        code.claude.com/docs/en/mcp; modelcontextprotocol.io/docs/develop/connect-local-servers.
        """
        entry: dict[str, Any] = {"type": "stdio"} if client in (Client.CLAUDE_CODE, Client.VSCODE) else {}
        entry |= {"command": self.command, "args": list(self.arguments)}
        return entry | ({"env": dict(self.environ)} if self.environ else {})

    def claude_mcp_add(self) -> str:
        """Return the command that adds the entry for all projects of a user of Claude Code."""
        environ = [part for name, value in self.environ.items() for part in ("--env", f"{name}={value}")]
        words: Sequence[str] = ("claude", "mcp", "add", self.name, "--scope", "user", *environ, "--", self.command)
        return shlex.join([*words, *self.arguments])


def servers_key(client: Client) -> str:
    """Return the key of a client's file under which its servers stand, by name."""
    return "servers" if client is Client.VSCODE else "mcpServers"


def config_path(client: Client, project: Path | None, environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the file that a client reads.

    Args:
        client: the client; Claude Code's own file for all projects is written by `claude mcp add` alone.
        project: the folder of a project whose file is meant, None for the user's own.
        environ: the environment, which may say where the user's settings are.
        platform: as `sys.platform`.

    Raises:
        LookupError: the client has no such file.
    """
    if client is Client.CLAUDE_CODE:
        return (project or Path.cwd()) / ".mcp.json"
    title = _TITLES[client]
    if project is None:
        return user_files(Path.home(), environ, platform)[title]
    if client not in _OF_PROJECTS:
        raise LookupError(f"{title} has no configuration of a project")
    return project / _OF_PROJECTS[client]


_TITLES = {
    Client.CLAUDE_DESKTOP: "Claude Desktop",
    Client.CURSOR: "Cursor",
    Client.VSCODE: "VS Code",
    Client.GEMINI: "Gemini",
    Client.WINDSURF: "Windsurf",
}
_OF_PROJECTS = {
    Client.CURSOR: ".cursor/mcp.json",
    Client.VSCODE: ".vscode/mcp.json",
    Client.GEMINI: ".gemini/settings.json",
}
