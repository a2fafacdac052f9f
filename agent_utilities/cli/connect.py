"""`agent-utilities connect`: an installed server, or a gateway, in the configuration of an MCP client."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path

from agent_utilities.cli.clients import Client, Entry, config_path, servers_key
from agent_utilities.cli.json_file import add_entry
from agent_utilities.errors import InputError

_SUFFIX = "-mcp"
_FILE = re.compile(r"(.+\.py)(:\w+)?")
_GATEWAY = "gateway"
_PASSED_ON = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
_READ_BY_EVERY_SERVER = ("MCP_", "NEO4J_")


def connect_server(
    client: Client,
    name: str,
    options: Sequence[str],
    *,
    env: Sequence[str],
    project: Path | None,
    write: bool,
    replace: bool,
) -> None:
    """Print what a client's configuration needs for a server, or write it there.

    Args:
        client: the client.
        name: the server's, such as `git-agent`; its command is `git-agent-mcp`. Or a Python file that `fastmcp run`
            serves, such as `server.py` or `server.py:mcp`.
        options: of the server's own command line, which a file has none of.
        env: variables for the server, as `NAME=value`, or `NAME` for this shell's value.
        project: the folder of a project, for its configuration in place of the user's.
        write: merge it into the file.
        replace: whether another entry of the name gives way.

    Raises:
        InputError: no such server is installed, no such file is there, a file is given options, a variable is not set,
            or the client's file can't be added to.
    """
    file = _FILE.fullmatch(name)
    server = Path(file[1]).stem if file else name.removesuffix(_SUFFIX)
    chosen = _environ(env, os.environ)
    if file:
        entry = Entry(server, _program("fastmcp"), _run_file(file[1], file[2] or "", options), chosen)
    else:
        entry = Entry(server, _command(server), ("-t", "stdio", *options), chosen)
    _put(entry, client, _path(client, project), write=write, replace=replace)
    _tell_left_behind(_left_behind(server, entry.environ, os.environ))


def _run_file(file: str, server: str, options: Sequence[str]) -> tuple[str, ...]:
    """Return what makes FastMCP serve a file over stdio, whatever folder the client is in."""
    if options:  # it would not read them: a bound among them would be lost
        hint = "give settings by --env, such as --env MCP_READ_ONLY=true"
        raise InputError("a file has no options", options[0], "arguments after --", hint)
    if not Path(file).is_file():
        raise InputError("no such file", file, "argument NAME", "name a Python file that has a server, such as mcp")
    return ("run", os.path.abspath(file) + server, "--transport", "stdio", "--no-banner")


def connect_gateway(
    client: Client,
    file: Path,
    name: str | None,
    options: Sequence[str],
    *,
    env: Sequence[str],
    project: Path | None,
    write: bool,
    replace: bool,
) -> None:
    """Print what a client's configuration needs for a gateway of a config file, or write it there.

    Args:
        client: the client.
        file: the gateway's config file; the client is given its absolute path.
        name: what the client calls the gateway; `gateway` where None.
        options: of the gateway's own command line.
        env: variables for the gateway, as `NAME=value`, or `NAME` for this shell's value.
        project: the folder of a project, for its configuration in place of the user's.
        write: merge it into the file.
        replace: whether another entry of the name gives way.

    Raises:
        InputError: the config file can't be read or is the client's own, a variable is not set, or the client's file
            can't be added to.
    """
    from agent_utilities.upstream.configuration.config_files import read_config

    path = _path(client, project)
    if os.path.realpath(file) == os.path.realpath(path):
        hint = "move its servers to a file of their own; beside the gateway, the client would start each itself too"
        raise InputError("the client's own file", str(file), "option --gateway", hint)
    chosen = _environ(env, os.environ)
    config = read_config([file], {**os.environ, **chosen})
    arguments = ("gateway", os.path.abspath(file), "-t", "stdio", *options)
    entry = Entry(name or _GATEWAY, _program("agent-utilities"), arguments, chosen)
    _put(entry, client, path, write=write, replace=replace)
    for line in config.problems:
        print(f"left out: {line}", file=sys.stderr)
    _tell_left_behind(_taken(file, chosen, os.environ))


def _path(client: Client, project: Path | None) -> Path:
    try:
        return config_path(client, project, os.environ)
    except LookupError as error:
        raise InputError(str(error), str(project), "option --project", "leave it out") from None


def _put(entry: Entry, client: Client, path: Path, *, write: bool, replace: bool) -> None:
    """Write an entry to a client's file, or print it."""
    if write:
        copy = add_entry(path, servers_key(client), entry.name, entry.as_json(client), replace=replace)
        print(f"{path} has {entry.name!r}" + (f"; what it was is in {copy.name}" if copy else ""))
        print(f"restart {client.value} to have it started", file=sys.stderr)
    else:
        print(f"for {path}; --write adds it there, and keeps what it has:", file=sys.stderr)
        print(json.dumps({servers_key(client): {entry.name: entry.as_json(client)}}, indent=2, ensure_ascii=False))
        if client is Client.CLAUDE_CODE:
            print(f"or, for all your projects: {entry.claude_mcp_add()}", file=sys.stderr)


def _tell_left_behind(left: Sequence[str]) -> None:
    if left:
        print(
            f"not passed on: {', '.join(left)}. Clients start servers with an environment of their own, not this "
            f"shell's; give what the server needs by --env {left[0]}",
            file=sys.stderr,
        )


def installed_servers() -> list[str]:
    """Return the names of the servers that are installed beside this command, for errors and completion."""
    scripts = entry_points(group="console_scripts")
    return sorted({script.name.removesuffix(_SUFFIX) for script in scripts if script.name.endswith(_SUFFIX)})


def _command(server: str) -> str:
    try:
        return _program(f"{server}{_SUFFIX}")
    except LookupError as error:
        hint = f"there is no {error}; there are: {', '.join(installed_servers()) or 'none'}"
        raise InputError("no such server is installed", server, "argument NAME", hint) from None


def _program(name: str) -> str:
    """Return the absolute path of an installed program; the one beside this interpreter goes first."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        raise LookupError(name)
    return os.path.abspath(found)


def _environ(given: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    chosen = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not name or (not separator and name not in environ):
            raise InputError("no variable", text, "option --env", "write NAME=value, or the name of one that is set")
        chosen[name] = value if separator else environ[name]
    return chosen


def _left_behind(server: str, chosen: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    """Return the variables of this shell that the server would read, and its client does not give it."""
    prefixes = (*_READ_BY_EVERY_SERVER, f"{server.upper().replace('-', '_')}_")
    return sorted(name for name in environ if name.startswith(prefixes) and name not in chosen)


def _taken(file: Path, chosen: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    """Return the variables of this shell that a config file takes, and that its client does not give it."""
    from agent_utilities.upstream.configuration.config_files import read_unfilled
    from agent_utilities.upstream.configuration.config_text import read_bytes
    from agent_utilities.upstream.configuration.variables import names_in

    taken = set()
    for upstream in read_unfilled(file, read_bytes(file), environ):
        secrets = (*upstream.args, *upstream.env.values(), upstream.url, *upstream.headers.values(), upstream.auth)
        texts = [upstream.command, upstream.cwd, upstream.env_file]
        texts += [secret.get_secret_value() for secret in secrets if secret is not None]
        taken |= {name for text in texts if text is not None for name in names_in(text)}
    return sorted(name for name in taken if name in environ and name not in {*chosen, *_PASSED_ON})
