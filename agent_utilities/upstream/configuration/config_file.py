"""The servers of one config file."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from agent_utilities.selection.nearest import nearest
from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.configuration.config_keys import KEYS
from agent_utilities.upstream.configuration.config_text import Table, refuse
from agent_utilities.upstream.configuration.host_files import dialect, own_file, user_files, user_home
from agent_utilities.upstream.configuration.server_entry import Entry, Reader
from agent_utilities.upstream.configuration.shown import described, shown
from agent_utilities.upstream.configuration.variables import Input, Variables, input_variable

MAX_SERVERS = 1000
"""The most servers that are read from one file."""

_MAX_NOTICES = 20
_CONTAINERS = ("mcpServers", "servers", "mcp_servers", "context_servers")


def containers(told: Mapping[str, Any], folder: Path | None = None) -> Iterator[tuple[str, object]]:
    """Yield where a file has servers, and what stands there: `mcpServers`, `servers`, or the file itself.

    Args:
        told: what the file says.
        folder: the working folder: Claude Code keeps a project's servers, which go over others, by its folder.
    """
    found = [(key, told[key]) for key in _CONTAINERS if key in told]
    if isinstance(mcp := told.get("mcp"), dict) and "servers" in mcp:  # VS Code's settings.json
        found.append(("mcp.servers", mcp["servers"]))
    if not found and any(isinstance(value, dict) and {"command", "url"} & set(value) for value in told.values()):
        found.append(("", told))
    yield from found
    projects = told.get("projects")
    if folder is not None and isinstance(projects, dict) and isinstance(project := projects.get(str(folder)), dict):
        if isinstance(project.get("mcpServers"), dict):
            yield f"projects[{shown(repr(str(folder)), 1000)}].mcpServers", project["mcpServers"]


class ConfigFile:
    """A file whose servers are read.

    Args:
        path: the file, as messages name it.
        told: what it says.
        environ: the environment, for variables.
        working_folder: what `${workspaceFolder}` is in a user's own file.
        files: all files that are read together, none of which a server may be a gateway of.
        keeps_all: whether values of the environment stay references, for a person who is to see no secret.
    """

    def __init__(
        self,
        path: Path,
        told: Table,
        environ: Mapping[str, str],
        working_folder: Path,
        files: Collection[Path],
        *,
        keeps_all: bool = False,
    ) -> None:
        absolute = Path(os.path.abspath(path))
        home = user_home(environ)
        is_own = absolute == own_file(home, environ)
        is_of_host = absolute in user_files(home, environ).values()
        self.path, self.told, self._files = path, told, files
        self._working_folder = working_folder
        self._dialect = dialect(absolute)
        base = home if is_of_host else self._dialect.folder
        self.notices: list[str] = []
        self.reader = Reader(
            variables=Variables(
                environ=environ,
                folder=working_folder if is_own or is_of_host else base,
                home=home,
                inputs=dict(self._inputs()),
                has_bare=self._dialect.has_bare_variables,
                keeps_all=keeps_all,
            ),
            folder=base,
            is_in_seconds=self._dialect.is_in_seconds,
        )

    def upstreams(self) -> Iterator[tuple[str, UpstreamConfig | None]]:
        """Yield each server's name, and what it comes to; None where it is left out."""
        places = list(containers(self.told, self._working_folder))
        if not places:
            self.notices.append(f'{self._label}: it has no servers; they stand under "mcpServers"')
        for place, servers in places:
            if not isinstance(servers, dict):
                refuse(
                    f"{place!r} is {described(servers)}", self.path, "write an object, with a server under each name"
                )
            if isinstance(servers, Table):
                for name in servers.repeated[:_MAX_NOTICES]:
                    self.notices.append(
                        shown(f"{self._source(place, name)}: stands twice; the last one is taken", 1000)
                    )
            if len(servers) > MAX_SERVERS:
                refuse(f"{place!r} has {len(servers)} servers", self.path, f"{MAX_SERVERS} are the most")
            for name, value in servers.items():
                upstream = self.reader.read(Entry(name, value, self._source(place, name)))
                if upstream is not None and self._is_off(name):
                    upstream = upstream.model_copy(update={"enabled": False})
                if upstream is not None and _is_gateway_of(upstream, self._files):
                    self.notices.append(f"{upstream.source}: is this gateway itself, and left out")
                    upstream = None
                yield name, upstream

    def _is_off(self, name: str) -> bool:
        """Whether a list of Gemini's file, `mcp.allowed` or `mcp.excluded`, keeps a server from being started."""
        mcp = self.told.get("mcp")
        if not isinstance(mcp, dict):
            return False
        allowed, excluded = mcp.get("allowed"), mcp.get("excluded")
        is_allowed = not isinstance(allowed, list) or not allowed or name in allowed
        return not is_allowed or (isinstance(excluded, list) and name in excluded)

    def all_notices(self) -> list[str]:
        """Return a line for each thing that was passed over."""
        spellings = [spelling for key in KEYS for spelling in key.spellings]
        told = []
        for key, sources in list(self.reader.unknown.items())[:_MAX_NOTICES]:
            near = nearest(key[:64], spellings)
            others = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
            meant = f"; did you mean {near!r}?" if near else ""
            told.append(
                shown(f"{sources[0]}{others}: the key {shown(key, 64)!r} is not known, and passed over{meant}", 1000)
            )
        if (n_more := len(self.reader.unknown) - _MAX_NOTICES) > 0:
            told.append(f"{self._label}: {n_more} more keys are not known, and passed over")
        return [*self.notices, *self.reader.notices, *told]

    @property
    def _label(self) -> str:
        return shown(str(self.path), 1000)

    def _source(self, place: str, name: str) -> str:
        is_plain = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
        where = f".{name}" if is_plain else f"[{shown(repr(name))}]"
        return f"{self.path}: {place}{where}".replace(": .", ": ")

    def _inputs(self) -> Iterator[tuple[str, Input]]:
        """Yield what a file of VS Code says of the values that it asks for."""
        listed = self.told.get("inputs")
        for asked in listed if isinstance(listed, list) else []:
            if isinstance(asked, dict) and isinstance(input_id := asked.get("id"), str):
                description, default = asked.get("description"), asked.get("default")
                yield (
                    input_id,
                    Input(
                        variable=input_variable(input_id),
                        description=description if isinstance(description, str) else "",
                        default=default if isinstance(default, str) else None,
                    ),
                )


def _is_gateway_of(upstream: UpstreamConfig, files: Collection[Path]) -> bool:
    """Whether a server is a gateway of one of these files, or of what it finds: it would start itself, without end."""
    words = [upstream.command, *(arg.get_secret_value() for arg in upstream.args)]
    for index, (program, command) in enumerate(pairwise(words)):
        if re.split(r"[/\\]", program)[-1].removesuffix(".exe") == "agent-utilities" and command == "gateway":
            folder = Path(upstream.cwd or ".")
            named = {os.path.realpath(folder / word) for word in words[index + 2 :] if not word.startswith("-")}
            own = {os.path.realpath(path) for path in files}
            return not any(os.path.isfile(path) for path in named) or bool(named & own)
    return False
