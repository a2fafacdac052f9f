"""Config files of every host, read into one value; what is wrong with one server costs none of the others."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

from agent_utilities.selection.model import fold, nearest
from agent_utilities.upstream.config import GatewayConfig, UpstreamConfig
from agent_utilities.upstream.configuration.config_keys import KEYS
from agent_utilities.upstream.configuration.config_text import Table, described, parsed, read_bytes, refuse, shown
from agent_utilities.upstream.configuration.host_files import containers, dialect, own_file, user_files, user_home
from agent_utilities.upstream.configuration.server_entry import Reader
from agent_utilities.upstream.configuration.variables import Variables
from agent_utilities.upstream.errors import ConfigError

MAX_SERVERS = 1000
"""The most servers that are read from one file."""

_MAX_NOTICES = 20


class ConfigFile:
    """A file whose servers are read.

    Args:
        path: the file, as messages name it.
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
        absolute, home = Path(os.path.abspath(path)), user_home(environ)
        is_of_host = absolute in user_files(home, environ).values()
        is_of_user = is_of_host or absolute == own_file(home, environ)
        self.path, self.told, self._files, self._working_folder = path, told, files, working_folder
        of_host = dialect(absolute)
        base = home if is_of_host else of_host.folder
        self.notices: list[str] = []
        self.reader = Reader(
            variables=Variables(
                environ=environ,
                folder=working_folder if is_of_user else base,
                home=home,
                inputs=_inputs(told),
                has_bare=of_host.has_bare_variables,
                keeps_all=keeps_all,
            ),
            folder=base,
            is_in_seconds=of_host.is_in_seconds,
        )

    def upstreams(self) -> Iterator[tuple[str, UpstreamConfig | None]]:
        """Yield each server's name, and what it comes to; None where it is left out."""
        places = list(containers(self.told, self._working_folder))
        if not places:
            self.notices.append(f'{shown(str(self.path), 1000)}: it has no servers; they stand under "mcpServers"')
        for place, servers in places:
            if not isinstance(servers, dict):
                hint = "write an object, with a server under each name"
                refuse(f"{place!r} is {described(servers)}", self.path, hint)
            for name in servers.repeated[:_MAX_NOTICES] if isinstance(servers, Table) else ():
                self.notices.append(shown(f"{self._source(place, name)}: stands twice; the last one is taken", 1000))
            if len(servers) > MAX_SERVERS:
                refuse(f"{place!r} has {len(servers)} servers", self.path, f"{MAX_SERVERS} are the most")
            for name, value in servers.items():
                upstream = self.reader.read(name, value, self._source(place, name))
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
            where = f"{sources[0]} and {len(sources) - 1} more" if len(sources) > 1 else sources[0]
            meant = f"; did you mean {near!r}?" if near else ""
            told.append(shown(f"{where}: the key {shown(key, 64)!r} is not known, and passed over{meant}", 1000))
        if (n_more := len(self.reader.unknown) - _MAX_NOTICES) > 0:
            told.append(f"{shown(str(self.path), 1000)}: {n_more} more keys are not known, and passed over")
        return [*self.notices, *self.reader.notices, *told]

    def _source(self, place: str, name: str) -> str:
        is_plain = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
        where = f".{name}" if is_plain else f"[{shown(repr(name))}]"
        return f"{self.path}: {place}{where}".replace(": .", ": ")


def _inputs(told: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return what a file of VS Code says of the values that it asks for, by their ids."""
    listed = told.get("inputs")
    objects = [asked for asked in listed if isinstance(asked, dict)] if isinstance(listed, list) else []
    return {asked["id"]: asked for asked in objects if isinstance(asked.get("id"), str)}


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


def read_config(files: Sequence[Path], environ: Mapping[str, str], *, folder: Path | None = None) -> GatewayConfig:
    """Return every server that the files configure, a later file's in the place of an earlier one's of its name.

    A server that something is wrong with is left out, and so is an earlier file's of its name: what was written over
    must not come back by a mistake. A problem tells why.

    Args:
        folder: what `${workspaceFolder}` is in a user's own file; the working folder where None.

    Raises:
        ConfigError: none of the files can be read.
    """
    upstreams: dict[str, UpstreamConfig | None] = {}
    problems, notices, digests, errors = [], [], {}, list[ConfigError]()
    for path in files:
        try:
            content = read_bytes(path)
            read = ConfigFile(path, parsed(content, path), environ, folder or Path.cwd(), files)
            for name, upstream in list(read.upstreams()):
                upstreams.pop(name, None)
                upstreams[name] = upstream
        except ConfigError as error:
            errors.append(error)
            problems.append(str(error))
            continue
        digests[str(path)] = digest(content)
        problems += read.reader.problems
        notices += read.all_notices()
    if len(errors) == 1 and not digests:
        raise errors[0]
    if errors and not digests:
        what, hint = "none of the config files can be read", " | ".join(problems)
        raise ConfigError(what, ", ".join(map(str, files)), "config files", hint)
    taken = tuple(upstream for upstream in upstreams.values() if upstream is not None)
    return GatewayConfig(
        upstreams=taken,
        problems=tuple(problems),
        notices=(*notices, *_alike(taken)),
        files=tuple(digests),
        digests=digests,
    )


def read_servers(told: Mapping[str, Any], environ: Mapping[str, str]) -> GatewayConfig:
    """Return every server that the content of a config file configures.

    Args:
        told: the content, such as `{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}}`.

    Raises:
        ConfigError: it can't be read as a config file's.
    """
    read = ConfigFile(Path("mcp.json"), Table(told), environ, Path.cwd(), [])
    upstreams = [upstream for _, upstream in read.upstreams() if upstream is not None]
    problems, notices = tuple(read.reader.problems), tuple(read.all_notices())
    return GatewayConfig(upstreams=tuple(upstreams), problems=problems, notices=notices)


def read_unfilled(path: Path, content: bytes, environ: Mapping[str, str]) -> tuple[UpstreamConfig, ...]:
    """Return a file's servers with every value of the environment left a reference, for a person to see."""
    read = ConfigFile(path, parsed(content, path), environ, Path.cwd(), [path], keeps_all=True)
    return tuple({name: upstream for name, upstream in read.upstreams() if upstream is not None}.values())


def digest(content: bytes) -> str:
    """Return a hash of a file's content, 32 hex digits."""
    return blake2b(content, digest_size=16).hexdigest()


def _alike(upstreams: Sequence[UpstreamConfig]) -> Iterator[str]:
    """Yield a line for each server whose name differs from another's by case alone: they are one toolset to callers."""
    by_name: dict[str, UpstreamConfig] = {}
    for upstream in upstreams:
        other = by_name.setdefault(fold(upstream.name), upstream)
        if other is not upstream:
            yield f"{upstream.source}: is one toolset with {shown(other.name)!r}; rename one to tell them apart"
