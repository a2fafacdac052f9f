"""Where hosts keep their servers, what is particular to each one's file, and which is taken where none was named."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_utilities.upstream.configuration.config_text import parsed, read_bytes, shown
from agent_utilities.upstream.configuration.variables import Reading
from agent_utilities.upstream.errors import ConfigError

IN_A_FOLDER = (".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")
"""The files of a project that are looked for, the first that is there is taken."""

_OF_A_PROJECT = (
    ".vscode", ".cursor", ".gemini", ".roo", ".kilocode", ".codex", ".windsurf", ".amazonq", ".qwen", ".kiro",
    ".claude", ".github", ".idea", ".trae",
)  # fmt: skip
_CONTAINERS = ("mcpServers", "servers", "mcp_servers", "context_servers")
_IN_SECONDS = ("cline_mcp_settings.json", "mcp_settings.json", ".roo/mcp.json", ".kilocode/mcp.json")


def reading_of(
    path: Path, told: Mapping[str, Any], environ: Mapping[str, str], folder: Path, *, keeps_references: bool = False
) -> Reading:
    """Return what the values of a file are read with, by its name and place, and by what it says of inputs.

    `folder` is the working folder, which `${workspaceFolder}` is in a user's own file.
    """
    absolute, home = Path(os.path.abspath(path)), user_home(environ)
    in_folder = f"{absolute.parent.name}/{absolute.name}"
    is_of_host = absolute in user_files(home, environ).values()
    project = next((each.parent for each in absolute.parents[:2] if each.name in _OF_A_PROJECT), absolute.parent)
    base = home if is_of_host else project
    asked = told.get("inputs")
    inputs = [each for each in asked if isinstance(each, dict)] if isinstance(asked, list) else []
    return Reading(
        environ=environ,
        folder=folder if is_of_host or absolute == own_file(home, environ) else base,
        home=home,
        base=base,
        inputs={each["id"]: each for each in inputs if isinstance(each.get("id"), str)},
        has_bare_variables=in_folder in (".gemini/settings.json", ".qwen/settings.json"),
        is_in_seconds=path.suffix == ".toml" or path.name in _IN_SECONDS or in_folder in _IN_SECONDS,
        keeps_references=keeps_references,
    )


def is_kept_off(name: str, told: Mapping[str, Any]) -> bool:
    """Whether a list of Gemini's file, `mcp.allowed` or `mcp.excluded`, keeps a server from being started."""
    mcp = told.get("mcp")
    if not isinstance(mcp, dict):
        return False
    allowed, excluded = mcp.get("allowed"), mcp.get("excluded")
    is_allowed = not isinstance(allowed, list) or not allowed or name in allowed
    return not is_allowed or (isinstance(excluded, list) and name in excluded)


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


def containers(told: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, object]]:
    """Yield where a file has servers, and what stands there: `mcpServers`, `servers`, or the file itself."""
    found = [(key, told[key]) for key in _CONTAINERS if key in told]
    if isinstance(mcp := told.get("mcp"), dict) and "servers" in mcp:  # VS Code's settings.json
        found.append(("mcp.servers", mcp["servers"]))
    if not found and any(isinstance(value, dict) and {"command", "url"} & set(value) for value in told.values()):
        found.append(("", told))
    yield from found
    if isinstance(projects := told.get("projects"), dict) and isinstance(project := projects.get(str(folder)), dict):
        if isinstance(project.get("mcpServers"), dict):
            yield f"projects[{shown(repr(str(folder)), 1000)}].mcpServers", project["mcpServers"]


@dataclass(frozen=True, slots=True)
class Found:
    """A config file that nobody named.

    Args:
        path: the file.
        is_of_folder: whether it was found in the working folder, which may be a stranger's: it starts nothing until the
            user has agreed.
        passed_over: other files that have servers, or can't be read, and come after it.
    """

    path: Path
    is_of_folder: bool
    passed_over: tuple[Path, ...] = ()


def find_config(folder: Path, home: Path, environ: Mapping[str, str]) -> Found | None:
    """Return the file to take: the folder's, else the user's own of the gateway, else the first host's with servers.

    A folder's file, and the user's own, is taken as soon as it is there, so that what is wrong with it is told. A
    host's file is there for much else, and is taken only where it has servers; None where there is none.
    """
    of_hosts = user_files(home, environ).values()
    there = [
        path
        for path in dict.fromkeys(searched(folder, home, environ))
        if os.path.isfile(path) and (path not in of_hosts or _has_servers(path, folder))
    ]
    if not there:
        return None
    return Found(there[0], there[0] not in (own_file(home, environ), *of_hosts), tuple(there[1:]))


def searched(folder: Path, home: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return where is looked, in order."""
    return (*(folder / name for name in IN_A_FOLDER), own_file(home, environ), *user_files(home, environ).values())


def _has_servers(path: Path, folder: Path) -> bool:
    try:
        told = parsed(read_bytes(path), path)
    except ConfigError:
        return False
    return any(isinstance(servers, dict) and servers for _, servers in containers(told, folder))
