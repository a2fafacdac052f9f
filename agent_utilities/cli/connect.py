"""`agent-utilities connect`: an installed server in the configuration of an MCP client."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path

from agent_utilities.cli.clients import Client, Entry, config_path, servers_key
from agent_utilities.cli.json_file import add_entry
from agent_utilities.errors import InputError

_SUFFIX = "-mcp"
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
        name: the server's, such as `git-agent`; its command is `git-agent-mcp`.
        options: of the server's own command line.
        env: variables for the server, as `NAME=value`, or `NAME` for this shell's value.
        project: the folder of a project, for its configuration in place of the user's.
        write: merge it into the file.
        replace: whether another entry of the name gives way.

    Raises:
        InputError: no such server is installed, a variable is not set, or the file can't be added to.
    """
    server = name.removesuffix(_SUFFIX)
    entry = Entry(server, _command(server), ("-t", "stdio", *options), _environ(env, os.environ))
    try:
        path = config_path(client, project, os.environ)
    except LookupError as error:
        raise InputError(str(error), str(project), "option --project", "leave it out") from None
    if write:
        copy = add_entry(path, servers_key(client), server, entry.as_json(client), replace=replace)
        print(f"{path} has {server!r}" + (f"; what it was is in {copy.name}" if copy else ""))
        print(f"restart {client.value} to have it started", file=sys.stderr)
    else:
        print(f"for {path}; --write adds it there, and keeps what it has:", file=sys.stderr)
        print(json.dumps({servers_key(client): {server: entry.as_json(client)}}, indent=2, ensure_ascii=False))
        if client is Client.CLAUDE_CODE:
            print(f"or, for all your projects: {entry.claude_mcp_add()}", file=sys.stderr)
    if left := _left_behind(server, entry.environ, os.environ):
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
    program = f"{server}{_SUFFIX}"
    found = shutil.which(program, path=str(Path(sys.executable).parent)) or shutil.which(program)
    if found is None:
        there = ", ".join(installed_servers()) or "none"
        hint = f"there is no {program}; there are: {there}"
        raise InputError("no such server is installed", server, "argument NAME", hint)
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
