"""Config files of every host, read into one value; what is wrong with one server costs none of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from agent_utilities.selection.model import fold
from agent_utilities.upstream.config import GatewayConfig, UpstreamConfig
from agent_utilities.upstream.configuration.config_file import ConfigFile
from agent_utilities.upstream.configuration.config_text import Table, parsed, read_bytes
from agent_utilities.upstream.configuration.shown import shown
from agent_utilities.upstream.errors import ConfigError


def read_config(files: Sequence[Path], environ: Mapping[str, str], *, folder: Path | None = None) -> GatewayConfig:
    """Return every server that the files configure, a later file's in the place of an earlier one's of its name.

    A server that something is wrong with is left out, and so is an earlier file's of its name: what was written over
    must not come back by a mistake. A problem tells why.

    Args:
        files: the files, in order.
        environ: the environment, for variables.
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
    if errors and not digests:
        raise (
            errors[0]
            if len(errors) == 1
            else ConfigError(
                "none of the config files can be read", ", ".join(map(str, files)), "config files", " | ".join(problems)
            )
        )
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
        environ: the environment, for variables.

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
