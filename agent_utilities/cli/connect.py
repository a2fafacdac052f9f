"""`agent-utilities connect`: put an installed server, or a gateway, into the configuration of an MCP client."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from agent_utilities.cli.client_file import add_entry, entry_text
from agent_utilities.errors import InputError
from agent_utilities.gateway.upstreams.configuration.config_text import form_of, read_bytes
from agent_utilities.gateway.upstreams.configuration.host_files import HOSTS, Host, user_files
from agent_utilities.gateway.upstreams.configuration.variables import names_in
from agent_utilities.runtime.process_io import expanded

app = typer.Typer(add_completion=False)


Client = Literal[
    "claude-desktop", "claude-code", "cursor", "vscode", "gemini", "windsurf",
    "codex", "zed", "opencode", "cline", "roo", "goose", "continue", "librechat",
]  # fmt: skip
"""A client whose configuration is known."""


@dataclass(frozen=True)
class Entry:
    """How a client starts a server over stdio; clients pass hardly any of the user's environment on to it."""

    name: str
    command: str
    arguments: tuple[str, ...]
    environ: Mapping[str, str]
    tool_search: str = "off"
    """The server's default."""

    def written_for(self, host: Host) -> dict[str, Any]:
        """Return the entry as a host's file has it.

        Claude Code defers servers' tools, so a model would have to search for the tool that it searches with.
        """
        words = [self.command, *self.arguments]
        parts = {
            "$name": self.name,
            "$command": words[0],
            "$args": words[1:],
            "$words": words,
            "$env": {**self.environ},
        }
        entry = {key: parts.get(value, value) if isinstance(value, str) else value for key, value in host.entry.items()}
        searches: list[str] = re.findall(r"--tool-search[ =](\S+)", " ".join(self.arguments))
        if host is HOSTS["claude-code"]:
            is_searched = [self.environ.get("MCP_TOOL_SEARCH", self.tool_search), *searches][-1] != "off"
            entry |= {"alwaysLoad": True} if is_searched else {}
        return {key: value for key, value in entry.items() if value != {}}

    def claude_mcp_add(self) -> str:
        """Return the command that adds the entry for all projects of a user of Claude Code."""
        entry = json.dumps(self.written_for(HOSTS["claude-code"]), ensure_ascii=False)
        return shlex.join(["claude", "mcp", "add-json", "--scope", "user", self.name, entry])


def config_path(client: Client, project: Path | None, environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the file that a client reads.

    Of Claude Code it is a project's: its own file for all projects is written by `claude mcp add` alone.

    Raises:
        InputError: it reads none of a project.
    """
    host = HOSTS[client]
    if project is None and host.user and client != "claude-code":
        return user_files(expanded("~"), environ, platform)[host.title]
    if not host.project:
        what = f"{host.title} has no configuration of a project"
        raise InputError(what, str(project), "option --project", "leave it out")
    return (project or Path.cwd()) / host.project


_SUFFIX = "-mcp"
_FILE = re.compile(r"(.+\.py)(:\w+)?")
_PASSING = re.compile(r"[/\\](archive-v\d+|environments-v\d+|pipx[/\\]\.cache)[/\\]")
"""Where `uvx` and `pipx run` keep what they run, until they clear it."""
_PASSED_ON = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
_READ_BY_EVERY_SERVER = ("MCP_", "NEO4J_")


def _installed_servers() -> list[str]:
    """Return the names of the servers that are installed beside this command, for errors and completion."""
    scripts = entry_points(group="console_scripts")
    return sorted({script.name.removesuffix(_SUFFIX) for script in scripts if script.name.endswith(_SUFFIX)})


@app.command()
def connect(
    client: Client,
    name: Annotated[str | None, typer.Argument(autocompletion=_installed_servers)] = None,
    options: Annotated[list[str] | None, typer.Argument()] = None,
    gateway: Path | None = None,
    env: list[str] | None = None,
    project: Path | None = None,
    write: bool = False,
    replace: bool = False,
    move: bool = False,
    undo: bool = False,
) -> None:
    """Print what a client's configuration needs for a server or gateway, or write it there.

    Args:
        client: The client to tell of the server.
        name: An installed server, such as git-agent, or a file that has one, such as server.py; with --gateway what
            the client calls the gateway.
        options: Options for the server, after --, such as: -- --read-only
        gateway: A config file, such as .mcp.json, whose servers a gateway puts behind one.
        env: A variable for the server: NAME=value, or NAME; may be repeated.
        project: A project's folder, for its configuration, not yours.
        write: Add it to the client's file, and keep what it has.
        replace: Replace another entry of the name.
        move: With --gateway, move the client's own servers to the gateway's file, and keep copies of both.
        undo: Take the client's last move back.
    """
    path, environ, arguments = config_path(client, project, os.environ), _environ(env or (), os.environ), options or []
    problems: Sequence[str] = ()
    if undo:
        return _undo(path)
    if gateway is not None:
        # Completion need not wait for it.
        from agent_utilities.gateway.upstreams.configuration.config_files import read_config

        if name is not None and name.startswith("-"):  # the first after `--`, where the gateway has no name
            arguments, name = [name, *arguments], None
        entry = _gateway_entry(gateway, name or "gateway", arguments, environ, path)
        if move:
            _move(entry, client, path, gateway, replace=replace)
        problems, left = read_config([gateway], {**os.environ, **environ}).problems, _taken(gateway, environ)
    elif name is not None and not move:
        entry = _server_entry(name, arguments, environ)
        left = _left_behind(entry.name, environ)
    else:
        hint = "name an installed one, a server.py, or --gateway FILE, as --move needs"
        raise InputError("no server is named", "", "argument NAME", hint)
    if not move:
        _put(entry, client, path, write=write, replace=replace)
    _tell(entry, problems, left)


def _undo(path: Path) -> None:
    from agent_utilities.cli.moving import undo_move

    print(f"as they were before: {', '.join(map(str, undo_move(path)))}")


def _tell(entry: Entry, problems: Sequence[str], left: Sequence[str]) -> None:
    """Print what is left out of a gateway's file, what is not passed on to a server, and whether it may vanish."""
    if _PASSING.search(entry.command):
        warning = "goes when uv or pipx clears its cache: install it, as by `uv tool install .`, and connect again"
        print(f"{entry.command} {warning}", file=sys.stderr)
    for line in problems:
        print(f"left out: {line}", file=sys.stderr)
    if left:
        print(
            f"not passed on: {', '.join(left)}. Clients start servers with an environment of their own, not this "
            f"shell's; give what the server needs by --env {left[0]}",
            file=sys.stderr,
        )


def _put(entry: Entry, client: Client, path: Path, *, write: bool, replace: bool) -> None:
    """Write an entry to the client's file, or print it."""
    host = HOSTS[client]
    shown = entry.written_for(host)
    if write:
        copy = add_entry(path, host, entry.name, shown, replace=replace)
        print(f"{path} has {entry.name!r}" + (f"; what it was is in {copy.name}" if copy else ""))
        print(f"restart {client} to have it started", file=sys.stderr)
        return
    print(f"for {path}; --write adds it there, and keeps what it has:", file=sys.stderr)
    print(entry_text(form_of(path), host, entry.name, shown).rstrip())
    if client == "claude-code":
        print(f"or, for all your projects: {entry.claude_mcp_add()}", file=sys.stderr)


def _move(entry: Entry, client: Client, path: Path, gateway: Path, *, replace: bool) -> None:
    """Move the client's servers to a gateway's file, and print which moved, which stay, and how to undo it."""
    from agent_utilities.cli.moving import move_servers

    host = HOSTS[client]
    moved, stays, lost = move_servers(path, gateway, host, entry.name, entry.written_for(host), replace=replace)
    print(f"{gateway} has {', '.join(moved)}; {path} has {entry.name!r}; copies of what they were are beside them")
    for name, why in stays.items():
        print(f"stays in {path}: {name!r}, {why}", file=sys.stderr)
    for line in lost:
        print(f"{path} says of {line}; no gateway does what that says of {client}'s own servers", file=sys.stderr)
    print(f"restart {client}; `agent-utilities connect {client} --undo` takes it back", file=sys.stderr)


def _server_entry(name: str, options: Sequence[str], environ: Mapping[str, str]) -> Entry:
    """Return how to start an installed server, or one in a file, which FastMCP serves from any folder."""
    if not (file := _FILE.fullmatch(name)):
        server = name.removesuffix(_SUFFIX)
        return Entry(server, _program(f"{server}{_SUFFIX}"), ("-t", "stdio", *options), environ)
    if options:  # it would not read them: a bound among them would be lost
        hint = "give settings by --env, such as --env MCP_READ_ONLY=true"
        raise InputError("a file has no options", options[0], "arguments after --", hint)
    path = Path(file[1])
    if not path.is_file():
        raise InputError("no such file", file[1], "argument NAME", "name a Python file that has a server, such as mcp")
    arguments = ("run", os.path.abspath(path) + (file[2] or ""), "--transport", "stdio", "--no-banner")
    return Entry(path.stem, _program("fastmcp"), arguments, environ)


def _gateway_entry(file: Path, name: str, options: Sequence[str], environ: Mapping[str, str], place: Path) -> Entry:
    """Return how to start a gateway of a config file."""
    if os.path.realpath(file) == os.path.realpath(place):
        hint = "move its servers to a file of their own; beside the gateway, the client would start each itself too"
        raise InputError("the client's own file", str(file), "option --gateway", hint)
    arguments = ("gateway", os.path.abspath(file), "-t", "stdio", *options)
    return Entry(name, _program("agent-utilities"), arguments, environ, "auto")


def _program(name: str) -> str:
    """Return the absolute path of an installed program; the one beside this interpreter goes first."""
    path = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if path is None:
        hint = f"there is no {name}; there are: {', '.join(_installed_servers()) or 'none'}"
        raise InputError("no such server is installed", name.removesuffix(_SUFFIX), "argument NAME", hint)
    return os.path.abspath(path)


def _environ(texts: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    chosen = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not name or (not separator and name not in environ):
            raise InputError("no variable", text, "option --env", "write NAME=value, or the name of one that is set")
        chosen[name] = value if separator else environ[name]
    return chosen


def _left_behind(server: str, chosen: Mapping[str, str]) -> list[str]:
    """Return the variables of this shell that the server would read, and that its client does not pass on."""
    prefixes = (*_READ_BY_EVERY_SERVER, f"{server.upper().replace('-', '_')}_")
    return sorted(name for name in os.environ if name.startswith(prefixes) and name not in chosen)


def _taken(file: Path, chosen: Mapping[str, str]) -> list[str]:
    """Return the variables of this shell that a config file names, and that its client does not pass on."""
    text = read_bytes(file).decode(errors="replace")
    named = {*names_in(text), *re.findall(r"\$(\w+)", text)}  # Gemini's have them without braces
    return sorted(name for name in named if name in os.environ and name not in {*chosen, *_PASSED_ON})
