"""Where hosts keep their servers, and what is particular to each one's file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

IN_A_FOLDER = (".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")
"""The files of a project that are looked for, the first that is there is taken."""

_OF_A_PROJECT = (
    ".vscode", ".cursor", ".gemini", ".roo", ".kilocode", ".codex", ".windsurf", ".amazonq", ".qwen", ".kiro",
    ".claude", ".github", ".idea", ".trae",
)  # fmt: skip
_IN_SECONDS = ("cline_mcp_settings.json", "mcp_settings.json", ".roo/mcp.json", ".kilocode/mcp.json")


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is particular to a host's file.

    Args:
        folder: the project's folder, which relative paths and `${workspaceFolder}` are of.
        has_bare_variables: whether `$VAR` is a variable, as for Gemini.
        is_in_seconds: whether `timeout` is in seconds whatever its size.
    """

    folder: Path
    has_bare_variables: bool = False
    is_in_seconds: bool = False


def dialect(path: Path) -> Dialect:
    """Return what is particular to a file, by its name and folder.

    Args:
        path: the file, absolute.
    """
    folder = path.parent
    in_folder = f"{folder.name}/{path.name}"
    return Dialect(
        folder=next((part.parent for part in (folder, folder.parent) if part.name in _OF_A_PROJECT), folder),
        has_bare_variables=in_folder in (".gemini/settings.json", ".qwen/settings.json"),
        is_in_seconds=path.suffix == ".toml" or path.name in _IN_SECONDS or in_folder in _IN_SECONDS,
    )


def user_home(environ: Mapping[str, str]) -> Path:
    """Return the user's home folder as an environment tells it."""
    given = environ.get("USERPROFILE" if sys.platform == "win32" else "HOME")
    return Path(given) if given else Path(os.path.expanduser("~"))


def own_file(home: Path, environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the gateway's own file of the user: `~/.config/agent-utilities/mcp.json`, or as the system has it."""
    return settings_folder(home, environ, platform) / "agent-utilities" / "mcp.json"


def user_files(home: Path, environ: Mapping[str, str], platform: str = sys.platform) -> Mapping[str, Path]:
    """Return each host's file of the user, by the host's name, in the order in which they are looked at."""
    settings = settings_folder(home, environ, platform)
    return {
        "Claude Code": home / ".claude.json",
        "Claude Desktop": settings / "Claude" / "claude_desktop_config.json",
        "Cursor": home / ".cursor" / "mcp.json",
        "VS Code": settings / "Code" / "User" / "mcp.json",
        "Gemini": home / ".gemini" / "settings.json",
        "Windsurf": home / ".codeium" / "windsurf" / "mcp_config.json",
    }


def settings_folder(home: Path, environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return where applications keep a user's settings."""
    if platform == "darwin":
        return home / "Library" / "Application Support"
    if platform == "win32":
        return Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
