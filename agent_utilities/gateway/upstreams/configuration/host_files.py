"""Config files of hosts: their places and formats, and the search for one where none is named."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Any

from agent_utilities.gateway.upstreams.configuration.config_text import parsed, read_bytes
from agent_utilities.gateway.upstreams.configuration.variables import Reading
from agent_utilities.gateway.upstreams.errors import ConfigError
from agent_utilities.runtime.shown import shown

IN_A_FOLDER = (".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")
"""The files of a project that are searched, the first that exists is taken."""

_OF_A_PROJECT = (
    ".vscode", ".cursor", ".gemini", ".roo", ".kilocode", ".codex", ".windsurf", ".amazonq", ".qwen", ".kiro",
    ".claude", ".github", ".idea", ".trae", ".zed", ".opencode", ".continue", ".cline", ".agents",
)  # fmt: skip
_CONTAINERS = ("mcpServers", "servers", "mcp_servers", "context_servers")


@dataclass(frozen=True, slots=True)
class Host:
    """A host: the places of its config files, and how it reads them; `hosts.toml` explains each field."""

    title: str
    user: str = ""
    windows: str = ""
    project: str = ""
    more: tuple[str, ...] = ()
    key: str = "mcpServers"
    reads: Mapping[str, Any] = field(default_factory=dict)
    entry: Mapping[str, Any] = field(default_factory=lambda: {"command": "$command", "args": "$args", "env": "$env"})
    is_list: bool = False
    new: str = ""


_TABLE = (files("agent_utilities.gateway.upstreams.configuration") / "hosts.toml").read_text(encoding="utf-8")
HOSTS: Mapping[str, Host] = {name: Host(**said) for name, said in tomllib.loads(_TABLE).items()}
"""Hosts by the names that commands take, in the order in which the user's files are searched."""


def reading_of(
    path: Path, content: Mapping[str, Any], environ: Mapping[str, str], folder: Path, *, keeps_references: bool = False
) -> Reading:
    """Return how the values of a file are read, by its name, its place and its inputs.

    `folder` is the working folder, the value of `${workspaceFolder}` in a user's own file.
    """
    absolute, home = Path(os.path.abspath(path)), user_home(environ)
    is_of_host = absolute in user_files(home, environ).values()
    project = next((each.parent for each in absolute.parents[:2] if each.name in _OF_A_PROJECT), absolute.parent)
    base = home if is_of_host else project
    mcp = content.get("mcp")  # of VS Code's settings.json
    prompts = mcp["inputs"] if isinstance(mcp, dict) and "inputs" in mcp else content.get("inputs")
    inputs = [each for each in prompts if isinstance(each, dict)] if isinstance(prompts, list) else []
    host = _host_of(absolute, content, folder)
    return Reading(
        environ=environ,
        folder=folder if is_of_host or absolute == own_file(home, environ) else base,
        home=home,
        base=base,
        place=absolute.parent,
        inputs={each["id"]: each for each in inputs if isinstance(each.get("id"), str)},
        keeps_references=keeps_references,
        **(host.reads if host else {}),
    )


def _host_of(path: Path, content: Mapping[str, Any], folder: Path) -> Host | None:
    """Return the host of a file, by its path, or by the key of its servers."""
    keys = {place.removeprefix("mcp.") for place, _ in containers(content, folder)} - {"mcpServers"}
    by_path = (
        host
        for host in HOSTS.values()
        if any(fnmatchcase(path.as_posix(), f"*/{end}") for end in (host.project, *host.more))
    )
    return next(by_path, None) or next((host for host in HOSTS.values() if host.key in keys), None)


def is_kept_off(name: str, content: Mapping[str, Any]) -> bool:
    """Whether a list of Gemini's file, `mcp.allowed` or `mcp.excluded`, disables a server.

    As in Gemini, case and space around a name don't count.
    """
    mcp, folded = content.get("mcp"), name.strip().lower()
    if not isinstance(mcp, dict):
        return False

    def named(key: str) -> set[str]:
        names = mcp.get(key)
        return {str(each).strip().lower() for each in names} if isinstance(names, list) else set()

    allowed = named("allowed")
    return folded in named("excluded") or (bool(allowed) and folded not in allowed)


def user_home(environ: Mapping[str, str]) -> Path:
    """Return the user's home folder in an environment."""
    home = environ.get("USERPROFILE" if sys.platform == "win32" else "HOME")
    return Path(home) if home else Path(os.path.expanduser("~"))


def own_file(home: Path, environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the user's own file of the gateway: `~/.config/agent-utilities/mcp.json`, or where the system has it."""
    return settings_folder(home, environ, platform) / "agent-utilities" / "mcp.json"


def user_files(home: Path, environ: Mapping[str, str], platform: str = sys.platform) -> Mapping[str, Path]:
    """Return the user's file of each host, by the host's name, in the order of search."""
    places = {"{settings}": settings_folder(home, environ, platform), "~": home}
    places["{config}"] = settings_folder(home, environ, "linux") if platform == "linux" else home / ".config"
    named = {host.title: (platform == "win32" and host.windows) or host.user for host in HOSTS.values()}
    parts = {title: path.partition("/") for title, path in named.items() if path}
    return {title: places[place] / rest for title, (place, _, rest) in parts.items()}


def settings_folder(home: Path, environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the folder of a user's application settings."""
    if platform == "darwin":
        return home / "Library" / "Application Support"
    if platform == "win32":
        return Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")


def containers(content: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, object]]:
    """Yield each key of a file that has servers, with its value: `mcpServers`, `servers`, or "" for the file itself."""
    places = [(key, by_name(content[key])) for key in _CONTAINERS if key in content]
    if isinstance(mcp := content.get("mcp"), dict) and "servers" in mcp:  # VS Code's settings.json, OpenCode's second
        places.append(("mcp.servers", mcp["servers"]))
    elif _has_entries(mcp, "command", "url", "type", "enabled"):
        places.append(("mcp", mcp))
    if _has_entries(extensions := content.get("extensions"), "cmd", "uri", "type"):  # other hosts use it otherwise
        places.append(("extensions", extensions))
    if not places and _has_entries(content, "command", "url"):
        places.append(("", content))
    yield from places
    projects = content.get("projects")
    if isinstance(projects, dict) and isinstance(project := projects.get(str(folder)), dict):
        if isinstance(project.get("mcpServers"), dict):
            yield f"projects[{shown(repr(str(folder)), 1000)}].mcpServers", project["mcpServers"]


def _has_entries(value: object, *keys: str) -> bool:
    return isinstance(value, dict) and any(isinstance(each, dict) and each.keys() & {*keys} for each in value.values())


def by_name(servers: object) -> object:
    """Return servers by name; Continue has them as a list of objects with names."""
    if isinstance(servers, list) and all(isinstance(each, dict) for each in servers):
        return {str(each.get("name", f"#{n}")): each for n, each in enumerate(servers, 1)}
    return servers


@dataclass(frozen=True, slots=True)
class Found:
    """A config file that was found by a search.

    Args:
        is_of_folder: whether it is of the working folder, which may be a stranger's: it starts nothing until the user
            has agreed.
        passed_over: other files that have servers, or can't be read, and come after it.
    """

    path: Path
    is_of_folder: bool
    passed_over: tuple[Path, ...] = ()


def find_config(folder: Path, home: Path, environ: Mapping[str, str]) -> Found | None:
    """Return the file to take: the folder's, else the user's own of the gateway, else the first host's with servers.

    A folder's file, and the user's own, is taken if it exists, so that errors in it are reported. A host's file has
    other settings too, and is taken only where it has servers.
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
    """Return the files that are searched, in order."""
    return (*(folder / name for name in IN_A_FOLDER), own_file(home, environ), *user_files(home, environ).values())


def _has_servers(path: Path, folder: Path) -> bool:
    try:
        content = parsed(read_bytes(path), path)
    except ConfigError:
        return False
    return any(isinstance(servers, dict) and servers for _, servers in containers(content, folder))
