"""Where hosts keep their servers, what is particular to each one's file, and which is taken where none was named."""

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
"""The files of a project that are looked for, the first that is there is taken."""

_OF_A_PROJECT = (
    ".vscode", ".cursor", ".gemini", ".roo", ".kilocode", ".codex", ".windsurf", ".amazonq", ".qwen", ".kiro",
    ".claude", ".github", ".idea", ".trae", ".zed", ".opencode", ".continue", ".cline", ".agents",
)  # fmt: skip
_CONTAINERS = ("mcpServers", "servers", "mcp_servers", "context_servers")


@dataclass(frozen=True, slots=True)
class Host:
    """A host: where its servers stand, and how it reads them; `hosts.toml` says what each field is."""

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
"""By the name that commands have for each, in the order in which files of the user are looked at."""


def reading_of(
    path: Path, told: Mapping[str, Any], environ: Mapping[str, str], folder: Path, *, keeps_references: bool = False
) -> Reading:
    """Return what the values of a file are read with, by its name and place, and by what it says of inputs.

    `folder` is the working folder, which `${workspaceFolder}` is in a user's own file.
    """
    absolute, home = Path(os.path.abspath(path)), user_home(environ)
    is_of_host = absolute in user_files(home, environ).values()
    project = next((each.parent for each in absolute.parents[:2] if each.name in _OF_A_PROJECT), absolute.parent)
    base = home if is_of_host else project
    mcp = told.get("mcp")  # of VS Code's settings.json
    asked = mcp["inputs"] if isinstance(mcp, dict) and "inputs" in mcp else told.get("inputs")
    inputs = [each for each in asked if isinstance(each, dict)] if isinstance(asked, list) else []
    host = _host_of(absolute, told, folder)
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


def _host_of(path: Path, told: Mapping[str, Any], folder: Path) -> Host | None:
    """Return whose file it is, by its path, or by what its servers stand under."""
    keys = {place.removeprefix("mcp.") for place, _ in containers(told, folder)} - {"mcpServers"}
    by_path = (
        host
        for host in HOSTS.values()
        if any(fnmatchcase(path.as_posix(), f"*/{end}") for end in (host.project, *host.more))
    )
    return next(by_path, None) or next((host for host in HOSTS.values() if host.key in keys), None)


def is_kept_off(name: str, told: Mapping[str, Any]) -> bool:
    """Whether a list of Gemini's file, `mcp.allowed` or `mcp.excluded`, keeps a server from being started.

    As there, neither case nor space around a name counts.
    """
    mcp, folded = told.get("mcp"), name.strip().lower()
    if not isinstance(mcp, dict):
        return False

    def named(key: str) -> set[str]:
        names = mcp.get(key)
        return {str(each).strip().lower() for each in names} if isinstance(names, list) else set()

    allowed = named("allowed")
    return folded in named("excluded") or (bool(allowed) and folded not in allowed)


def user_home(environ: Mapping[str, str]) -> Path:
    """Return the user's home folder as an environment tells it."""
    given = environ.get("USERPROFILE" if sys.platform == "win32" else "HOME")
    return Path(given) if given else Path(os.path.expanduser("~"))


def own_file(home: Path, environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the gateway's own file of the user: `~/.config/agent-utilities/mcp.json`, or as the system has it."""
    return settings_folder(home, environ, platform) / "agent-utilities" / "mcp.json"


def user_files(home: Path, environ: Mapping[str, str], platform: str = sys.platform) -> Mapping[str, Path]:
    """Return each host's file of the user, by the host's name, in the order in which they are looked at."""
    places = {"{settings}": settings_folder(home, environ, platform), "~": home}
    places["{config}"] = settings_folder(home, environ, "linux") if platform == "linux" else home / ".config"
    named = {host.title: (platform == "win32" and host.windows) or host.user for host in HOSTS.values()}
    parts = {title: path.partition("/") for title, path in named.items() if path}
    return {title: places[place] / rest for title, (place, _, rest) in parts.items()}


def settings_folder(home: Path, environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return where applications keep a user's settings."""
    if platform == "darwin":
        return home / "Library" / "Application Support"
    if platform == "win32":
        return Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")


def containers(told: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, object]]:
    """Yield where a file has servers, and what stands there: `mcpServers`, `servers`, or the file itself."""
    found = [(key, by_name(told[key])) for key in _CONTAINERS if key in told]
    if isinstance(mcp := told.get("mcp"), dict) and "servers" in mcp:  # VS Code's settings.json, and OpenCode's second
        found.append(("mcp.servers", mcp["servers"]))
    elif _has_entries(mcp, "command", "url", "type", "enabled"):
        found.append(("mcp", mcp))
    if _has_entries(extensions := told.get("extensions"), "cmd", "uri", "type"):  # to other hosts it is something else
        found.append(("extensions", extensions))
    if not found and _has_entries(told, "command", "url"):
        found.append(("", told))
    yield from found
    if isinstance(projects := told.get("projects"), dict) and isinstance(project := projects.get(str(folder)), dict):
        if isinstance(project.get("mcpServers"), dict):
            yield f"projects[{shown(repr(str(folder)), 1000)}].mcpServers", project["mcpServers"]


def _has_entries(value: object, *keys: str) -> bool:
    return isinstance(value, dict) and any(isinstance(each, dict) and each.keys() & {*keys} for each in value.values())


def by_name(servers: object) -> object:
    """Return servers by their names, where they are a list of objects that say theirs, as Continue has them."""
    if isinstance(servers, list) and all(isinstance(each, dict) for each in servers):
        return {str(each.get("name", f"#{n}")): each for n, each in enumerate(servers, 1)}
    return servers


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
