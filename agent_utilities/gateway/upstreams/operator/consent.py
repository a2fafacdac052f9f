"""Consent to a config file that was found by a search: a cloned repository must not run programs on its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from hashlib import blake2b
from pathlib import Path
from urllib.parse import urlsplit

from agent_utilities.gateway.upstreams.config import GatewayConfig, UpstreamConfig
from agent_utilities.gateway.upstreams.configuration.config_files import digest, read_unfilled
from agent_utilities.gateway.upstreams.configuration.config_text import read_bytes, read_env_file, refuse
from agent_utilities.gateway.upstreams.configuration.host_files import Found
from agent_utilities.gateway.upstreams.configuration.variables import names_in
from agent_utilities.gateway.upstreams.errors import ConfigError
from agent_utilities.gateway.upstreams.secrets import HIDDEN
from agent_utilities.runtime.process_io import write_whole
from agent_utilities.runtime.shown import shown

_CHANGE_WHAT_IS_RUN = (
    "path", "env", "bash_env", "ld_*", "dyld_*", "node_options", "node_path", "python*", "perl5*", "rubyopt", "rubylib",
    "*java*_options", "classpath", "git_*", "npm_config_*", "uv_*", "pip_*", "*_proxy", "pathext", "comspec",
)  # fmt: skip
"""Variables, folded, that make a program run another one or fetch it from elsewhere; shown with their value."""


def question(path: Path, content: bytes, environ: Mapping[str, str], started: Collection[str]) -> str:
    """Return a description of a file's servers for a person to agree to.

    A command is shown whole, as in the file: a variable by its name, never its value. `env` and `headers` are shown by
    their names and the user's own variables in them, with values only of variables that can change which program is
    run. An address is shown without passwords and values of its query.

    Args:
        started: the names of the servers that would be started; none of them is left out.

    Raises:
        ConfigError: one of them can't be shown.
    """
    upstreams = [upstream for upstream in read_unfilled(path, content, environ) if upstream.name in started]
    if missing := set(started) - {upstream.name for upstream in upstreams}:
        names = ", ".join(map(shown, sorted(missing)))
        refuse(f"can't show what the servers {names} would do", path, "read the file, and name it on the command line")
    if not upstreams:
        return shown(f"{path} was found in this folder. It has no server that could be started.", limit=None)
    lines = [f"{path} was found in this folder. As you, and with your rights, it would:"]
    for upstream in upstreams:
        lines += ["", f"  {upstream.name}", *(f"    {line}" for line in _effects(upstream))]
    return "\n".join([*(shown(line, limit=None) for line in lines), ""])


def _effects(upstream: UpstreamConfig) -> Iterator[str]:
    if upstream.transport == "stdio":
        yield f"run      {shlex.join([upstream.command, *(arg.get_secret_value() for arg in upstream.args)])}"
        yield f"in       {upstream.cwd}"
        if upstream.env:
            values = {name: value.get_secret_value() for name, value in upstream.env.items()}
            yield f"with     {', '.join(_variable(name, value) for name, value in values.items())}"
        if upstream.env_file is not None:
            changing: list[str] = []
            with suppress(ConfigError):
                of_file = read_env_file(Path(upstream.env_file)).items()
                changing = [_variable(*each) for each in of_file if _changes_what_is_run(each[0])]
            yield f"with     {', '.join([f'the variables of {upstream.env_file}', *changing])}"
    else:
        url = upstream.url.get_secret_value()
        yield f"connect  to {_named(_without_secrets(url), url)}"
        sent = [_named(name, value.get_secret_value()) for name, value in upstream.headers.items()]
        token = upstream.auth.get_secret_value() if upstream.auth is not None else "oauth"
        if token != "oauth":
            sent.append(_named("a bearer token", token))
        elif "authorization" not in map(str.lower, upstream.headers):
            sent.append("your login there, where you have one")
        yield f"send     {', '.join(sent)}"
        if upstream.forward_headers:
            yield f"hand on  its callers' {', '.join(upstream.forward_headers)}"
    if upstream.forward_meta:
        yield f"hand on  its callers' _meta {', '.join(upstream.forward_meta)}"


def _variable(name: str, value: str) -> str:
    if not _changes_what_is_run(name):
        return _named(name, value)
    is_bare = name.casefold().endswith("_proxy") and "://" not in value
    return f"{name}={shlex.quote(_without_secrets(f'//{value}' if is_bare else value))}"


def _changes_what_is_run(name: str) -> bool:
    return any(fnmatchcase(name.casefold(), pattern) for pattern in _CHANGE_WHAT_IS_RUN)


def _named(name: str, value: str) -> str:
    """Return a name, and the user's own variables in its value."""
    taken = ", ".join(f"your {variable}" for variable in names_in(value))
    return f"{name} ({taken})" if taken else name


def _without_secrets(url: str) -> str:
    """Return an address without its password and the values of its query, references to variables aside."""
    try:
        parts = urlsplit(url)
        _ = "${" in parts.netloc or parts.port
    except ValueError:  # the end of its host is unclear
        return HIDDEN
    if not parts.netloc:
        return url
    place = parts.netloc.rpartition("@")
    query = re.sub(r"=(?!\$\{)[^&]*", "=…", parts.query)
    return parts._replace(netloc=f"…@{place[2]}" if place[1] else place[2], query=query, fragment="").geturl()


_FOLDER = "agreed"
_LONGEST_QUESTION = 32 * 1024
_HOW = "run the command once in a terminal and answer y, give --yes, or name the file"


def is_agreed(file: Found, config: GatewayConfig, state_folder: Path) -> bool:
    """Whether a config may be run: the file is the user's own, or they agreed to exactly this place and content."""
    return not file.is_of_folder or os.path.isfile(_record(file, config, state_folder)[0])


def agree(file: Found, config: GatewayConfig, state_folder: Path) -> None:
    """Store the user's consent to a file as it was read; other content, or another place, needs consent again.

    Each consent is a file of its own that only the user can read, replaced atomically, so that processes don't
    conflict. `ConfigError` where it can't be written.
    """
    record, agreed_to = _record(file, config, state_folder)
    text = json.dumps({**agreed_to, "agreed_at_s": int(time.time())}, indent=2) + "\n"
    try:
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(record, text.encode())
    except OSError as error:
        what = f"can't remember the agreement ({(error.strerror or str(error)).lower()})"
        raise ConfigError(what, str(record.parent), "state folder", "name the config file") from None


def _record(file: Found, config: GatewayConfig, state_folder: Path) -> tuple[Path, dict[str, str | None]]:
    """Return the file of a consent, named by a hash of its content, and that content."""
    agreed_to = {"file": os.path.realpath(file.path), "content": config.digests.get(str(file.path))}
    name = blake2b(json.dumps(agreed_to, sort_keys=True).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return state_folder / _FOLDER / f"{name}.json", agreed_to


def agreed_or_refuse(
    file: Found, config: GatewayConfig, state_folder: Path, environ: Mapping[str, str], *, yes: bool
) -> None:
    """Make sure that a file's servers may be started: it is the user's own, or the user has agreed, or does now.

    The user agrees to the content that was read, and nothing newer. The question needs a terminal on stdin and stderr,
    since stdout may carry the protocol.

    Raises:
        ConfigError: the user has not agreed, there is no terminal, or the file has changed since it was read.
    """
    if is_agreed(file, config, state_folder):
        return
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            refuse("a config that was found in this folder starts nothing until you agree to it", file.path, _HOW)
        content = read_bytes(file.path)
        if config.digests.get(str(file.path)) != digest(content):
            refuse("changed while it was read", file.path, "start again")
        started = {upstream.name for upstream in config.upstreams if upstream.enabled}
        text = question(file.path, content, environ, started)
        if len(text) > _LONGEST_QUESTION:
            refuse("too long to be asked about", file.path, "read it, and name it on the command line")
        print(f"{text}\nStart them, now and later, until the file changes? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().casefold() not in ("y", "yes"):
            refuse("not agreed to, so nothing was started", file.path, _HOW)
    agree(file, config, state_folder)
