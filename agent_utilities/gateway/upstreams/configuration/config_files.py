"""Reads config files of every host into one value; an invalid server does not affect the others."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

from agent_utilities.gateway.upstreams.config import GatewayConfig, UpstreamConfig
from agent_utilities.gateway.upstreams.configuration.config_text import described, parsed, read_bytes, refuse
from agent_utilities.gateway.upstreams.configuration.host_files import containers, is_kept_off, reading_of
from agent_utilities.gateway.upstreams.configuration.server_entry import Reader
from agent_utilities.gateway.upstreams.errors import ConfigError
from agent_utilities.gateway.upstreams.names import Namespace
from agent_utilities.runtime.shown import shown

MAX_SERVERS = 1000
"""The most servers that are read from one file."""


def read_told(
    path: Path,
    content: Mapping[str, Any],
    environ: Mapping[str, str],
    folder: Path,
    files: Collection[Path] = (),
    *,
    keeps_references: bool = False,
) -> tuple[dict[str, UpstreamConfig | None], Reader]:
    """Return each server of a file, None for one that is left out, and the reader with its problems and notices."""
    reader = Reader(reading_of(path, content, environ, folder, keeps_references=keeps_references))
    servers: dict[str, UpstreamConfig | None] = {}
    places = list(containers(content, folder))
    if not places:
        reader.notices.append(f'{shown(str(path), 1000)}: it has no servers; they stand under "mcpServers"')
    for place, entries in places:
        if not isinstance(entries, dict):
            refuse(f"{place!r} is {described(entries)}", path, "write an object, with a server under each name")
        if len(entries) > MAX_SERVERS:
            refuse(f"{place!r} has {len(entries)} servers", path, f"{MAX_SERVERS} are the most")
        for name, entry in entries.items():
            upstream = reader.read(name, entry, f"{path}: {place}.{name}" if place else f"{path}: {name}")
            if upstream is not None and is_kept_off(name, content):
                upstream = upstream.model_copy(update={"enabled": False})
            if upstream is not None and _is_gateway_of(upstream, files):
                reader.notices.append(f"{upstream.source}: is this gateway itself, and left out")
                upstream = None
            servers.pop(name, None)
            servers[name] = upstream
    return servers, reader


def _is_gateway_of(upstream: UpstreamConfig, files: Collection[Path]) -> bool:
    """Whether a server is a gateway of one of these files, or of a file that it looks for: it would start itself."""
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

    An invalid server is left out with a problem that says why, and so is an earlier file's of its name: a mistake must
    not bring back what was overridden.

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
            servers, reader = read_told(path, parsed(content, path), environ, folder or Path.cwd(), files)
        except ConfigError as error:
            errors.append(error)
            problems.append(str(error))
            continue
        upstreams = {name: each for name, each in upstreams.items() if name not in servers} | servers
        digests[str(path)] = digest(content)
        problems += reader.problems
        notices += reader.notices
    if errors and not digests:
        raise errors[0]
    return GatewayConfig(
        upstreams=_apart(upstreams, problems),
        problems=tuple(problems),
        notices=tuple(notices),
        files=tuple(digests),
        digests=digests,
    )


def read_servers(content: Mapping[str, Any], environ: Mapping[str, str]) -> GatewayConfig:
    """Return every server that the content of a config file configures.

    Args:
        content: such as `{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}}`.

    Raises:
        ConfigError: it is not valid as a config file's.
    """
    servers, reader = read_told(Path("mcp.json"), content, environ, Path.cwd())
    upstreams = _apart(servers, reader.problems)
    return GatewayConfig(upstreams=upstreams, problems=tuple(reader.problems), notices=tuple(reader.notices))


def _apart(servers: Mapping[str, UpstreamConfig | None], problems: list[str]) -> tuple[UpstreamConfig, ...]:
    """Return the valid servers, without any two that would share a prefix because the operator wrote one of them so.

    Both are left out, since a rule or a caller may know the names of one as the other's (law L2).
    """
    names = Namespace(servers, {name: each.prefix if each else None for name, each in servers.items()}).prefixes
    there = [each for each in servers.values() if each is not None]
    clashing = {each.prefix for each in there if each.prefix not in (None, names[each.name])}
    for each in there:
        if clash := clashing & {each.prefix, names[each.name]}:
            hint = "write a `prefix` for it that no other server has, as its prefix or name"
            problems.append(
                shown(f"{each.source}: names that begin with {clash.pop()!r} are another's too; {hint}", 1000)
            )
    return tuple(each for each in there if not clashing & {each.prefix, names[each.name]})


def read_unfilled(path: Path, content: bytes, environ: Mapping[str, str]) -> tuple[UpstreamConfig, ...]:
    """Return a file's servers with every value of the environment left as a reference, to be shown to a person."""
    servers, _ = read_told(path, parsed(content, path), environ, Path.cwd(), [path], keeps_references=True)
    return tuple(filter(None, servers.values()))


def digest(content: bytes) -> str:
    """Return a hash of a file's content, 32 hex digits."""
    return blake2b(content, digest_size=16).hexdigest()
