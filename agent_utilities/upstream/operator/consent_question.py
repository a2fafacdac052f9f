"""What a config file would do, for the user who is asked about it: what is run, and where what is sent."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.configuration.config_files import read_unfilled
from agent_utilities.upstream.configuration.config_text import refuse
from agent_utilities.upstream.configuration.env_file import read_env_file
from agent_utilities.upstream.configuration.host_files import dialect
from agent_utilities.upstream.configuration.shown import shown
from agent_utilities.upstream.configuration.variables import names_in
from agent_utilities.upstream.errors import ConfigError

_CHANGE_WHAT_IS_RUN = (
    "path", "env", "bash_env", "ld_*", "dyld_*", "node_options", "node_path", "python*", "perl5*", "rubyopt", "rubylib",
    "*java*_options", "classpath", "git_*", "npm_config_*", "uv_*", "pip_*", "*_proxy", "pathext", "comspec",
)  # fmt: skip
"""Variables, folded, that make a program run another one, or fetch it from elsewhere: shown with their value."""

_WHOLE = 2**31
"""No command is cut: what matters could be at its end."""


def question(path: Path, content: bytes, environ: Mapping[str, str], started: Collection[str]) -> str:
    """Return what a file's servers are and do, for a person to agree to or not.

    A command is shown whole, as the file has it: a variable by its name, never its value. Of `env` and `headers` the
    names are shown, and which of the user's own variables they take; values only of variables that can change which
    program is run. Of an address all but passwords and values of its query.

    Args:
        path: the file.
        content: what was read of it.
        environ: the environment; none of its values is shown.
        started: the names of the servers that would be started: no question leaves one of them out.

    Raises:
        ConfigError: one of them can't be shown.
    """
    upstreams = [upstream for upstream in read_unfilled(path, content, environ) if upstream.name in started]
    if missing := set(started) - {upstream.name for upstream in upstreams}:
        names = ", ".join(map(shown, sorted(missing)))
        refuse(f"can't show what the servers {names} would do", path, "read the file, and name it on the command line")
    if not upstreams:
        return f"{shown(str(path), _WHOLE)} was found in this folder. It has no server that could be started."
    folder = str(dialect(Path(os.path.abspath(path))).folder)
    lines = [f"{shown(str(path), _WHOLE)} was found in this folder. As you, and with your rights, it would:"]
    for upstream in upstreams:
        lines += ["", f"  {shown(upstream.name)}", *(f"    {line}" for line in _told(upstream, folder))]
    return "\n".join([*lines, ""])


def _told(upstream: UpstreamConfig, folder: str) -> Iterator[str]:
    if upstream.transport == "stdio":
        words = [upstream.command, *(arg.get_secret_value() for arg in upstream.args)]
        yield f"run      {shlex.join(shown(word, _WHOLE) for word in words)}"
        if upstream.cwd != folder:
            yield f"in       {shown(upstream.cwd or '', _WHOLE)}"
        values = {name: value.get_secret_value() for name, value in upstream.env.items()}
        if values:
            yield f"with     {', '.join(_variable(name, value) for name, value in values.items())}"
        if upstream.env_file is not None:
            yield f"with     {', '.join(_of_file(upstream.env_file))}"
    else:
        url = upstream.url.get_secret_value()
        yield f"connect  to {_header(_without_secrets(url), url)}"
        sent = [_header(name, value.get_secret_value()) for name, value in upstream.headers.items()]
        token = upstream.auth.get_secret_value() if upstream.auth is not None else "oauth"
        if token != "oauth":
            sent.append(_header("a bearer token", token))
        elif "authorization" not in map(str.lower, upstream.headers):
            sent.append("your login there, where you have one")
        yield f"send     {', '.join(sent)}"
        if upstream.forward_headers:
            yield f"hand on  its callers' {', '.join(upstream.forward_headers)}"
    if upstream.forward_meta:
        yield f"hand on  its callers' _meta {', '.join(shown(key) for key in upstream.forward_meta)}"


def _variable(name: str, value: str) -> str:
    if _changes_what_is_run(name):
        return f"{shown(name, _WHOLE)}={shlex.quote(shown(_without_secrets(value), _WHOLE))}"
    return _header(name, value)


def _of_file(env_file: str) -> Iterator[str]:
    yield f"the variables of {shown(env_file, _WHOLE)}"
    try:
        values = read_env_file(Path(env_file))
    except ConfigError:
        return
    for name, value in values.items():
        if _changes_what_is_run(name):
            yield _variable(name, value)


def _changes_what_is_run(name: str) -> bool:
    return any(fnmatchcase(name.casefold(), pattern) for pattern in _CHANGE_WHAT_IS_RUN)


def _header(name: str, value: str) -> str:
    taken = ", ".join(f"your {shown(variable)}" for variable in names_in(value))
    return shown(name, _WHOLE) + (f" ({taken})" if taken else "")


def _without_secrets(url: str) -> str:
    """Return an address without its password and the values of its query, references to variables aside."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    if not parts.scheme or not parts.netloc:
        return url
    place = parts.netloc.rpartition("@")
    query = re.sub(r"=(?!\$\{)[^&]*", "=…", parts.query)
    return parts._replace(netloc=f"…@{place[2]}" if place[1] else place[2], query=query, fragment="").geturl()
