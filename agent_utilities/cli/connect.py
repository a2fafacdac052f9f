"""`agent-utilities connect`: an installed server, or a gateway, in the configuration of an MCP client."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import entry_points
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

from agent_utilities.errors import InputError
from agent_utilities.runtime.process_io import write_whole
from agent_utilities.upstream.configuration.host_files import user_files


class Client(StrEnum):
    """A client whose configuration is known."""

    CLAUDE_DESKTOP = "claude-desktop"
    CLAUDE_CODE = "claude-code"
    CURSOR = "cursor"
    VSCODE = "vscode"
    GEMINI = "gemini"
    WINDSURF = "windsurf"


@dataclass(frozen=True)
class Entry:
    """How a client starts a server over stdio; clients give it next to nothing of the user's environment."""

    name: str
    command: str
    arguments: tuple[str, ...]
    environ: Mapping[str, str]

    def as_json(self, client: Client) -> dict[str, Any]:
        """Return the entry as a client's file has it. Claude Code and VS Code want the transport named.

        Source: code.visualstudio.com/docs/copilot/reference/mcp-configuration; cursor.com/docs/mcp;
        code.claude.com/docs/en/mcp; modelcontextprotocol.io/docs/develop/connect-local-servers.
        """
        entry: dict[str, Any] = {"type": "stdio"} if client in (Client.CLAUDE_CODE, Client.VSCODE) else {}
        entry |= {"command": self.command, "args": list(self.arguments)}
        return entry | ({"env": dict(self.environ)} if self.environ else {})

    def claude_mcp_add(self) -> str:
        """Return the command that adds the entry for all projects of a user of Claude Code."""
        environ = [part for name, value in self.environ.items() for part in ("--env", f"{name}={value}")]
        words: Sequence[str] = ("claude", "mcp", "add", self.name, "--scope", "user", *environ, "--", self.command)
        return shlex.join([*words, *self.arguments])


def servers_key(client: Client) -> str:
    """Return the key of a client's file under which its servers stand, by name."""
    return "servers" if client is Client.VSCODE else "mcpServers"


def config_path(client: Client, project: Path | None, environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the file that a client reads; LookupError where it has none.

    Of Claude Code it is a project's: its own file for all projects is written by `claude mcp add` alone.
    """
    if client is Client.CLAUDE_CODE:
        return (project or Path.cwd()) / ".mcp.json"
    title = _TITLES[client]
    if project is None:
        return user_files(Path.home(), environ, platform)[title]
    if client not in _OF_PROJECTS:
        raise LookupError(f"{title} has no configuration of a project")
    return project / _OF_PROJECTS[client]


_TITLES = {
    Client.CLAUDE_DESKTOP: "Claude Desktop",
    Client.CURSOR: "Cursor",
    Client.VSCODE: "VS Code",
    Client.GEMINI: "Gemini",
    Client.WINDSURF: "Windsurf",
}
_OF_PROJECTS = {
    Client.CURSOR: ".cursor/mcp.json",
    Client.VSCODE: ".vscode/mcp.json",
    Client.GEMINI: ".gemini/settings.json",
}


_SUFFIX = "-mcp"
_FILE = re.compile(r"(.+\.py)(:\w+)?")
_GATEWAY = "gateway"
_PASSED_ON = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
_READ_BY_EVERY_SERVER = ("MCP_", "NEO4J_")


@dataclass(frozen=True)
class Place:
    """Where an entry goes: a client's file, a project's or the user's own, and which variables it takes along.

    Each of `env` is `NAME=value`, or `NAME` for this shell's value. Another entry of the name gives way to `replace`.
    """

    client: Client
    env: Sequence[str] = ()
    project: Path | None = None
    write: bool = False
    replace: bool = False

    @property
    def path(self) -> Path:
        """The client's file."""
        try:
            return config_path(self.client, self.project, os.environ)
        except LookupError as error:
            raise InputError(str(error), str(self.project), "option --project", "leave it out") from None

    def put(self, entry: Entry) -> None:
        """Write an entry to the client's file, or print it."""
        shown, key = entry.as_json(self.client), servers_key(self.client)
        if self.write:
            copy = add_entry(self.path, key, entry.name, shown, replace=self.replace)
            print(f"{self.path} has {entry.name!r}" + (f"; what it was is in {copy.name}" if copy else ""))
            print(f"restart {self.client.value} to have it started", file=sys.stderr)
            return
        print(f"for {self.path}; --write adds it there, and keeps what it has:", file=sys.stderr)
        print(json.dumps({key: {entry.name: shown}}, indent=2, ensure_ascii=False))
        if self.client is Client.CLAUDE_CODE:
            print(f"or, for all your projects: {entry.claude_mcp_add()}", file=sys.stderr)


def connect_server(place: Place, name: str, options: Sequence[str]) -> None:
    """Print what a client's configuration needs for a server, or write it there."""
    file = _FILE.fullmatch(name)
    server = Path(file[1]).stem if file else name.removesuffix(_SUFFIX)
    chosen = _environ(place.env, os.environ)
    if file:
        entry = Entry(server, _program("fastmcp"), _run_file(file[1], file[2] or "", options), chosen)
    else:
        entry = Entry(server, _command(server), ("-t", "stdio", *options), chosen)
    place.put(entry)
    _tell_left_behind(_left_behind(server, entry.environ, os.environ))


def _run_file(file: str, server: str, options: Sequence[str]) -> tuple[str, ...]:
    """Return what makes FastMCP serve a file over stdio, whatever folder the client is in."""
    if options:  # it would not read them: a bound among them would be lost
        hint = "give settings by --env, such as --env MCP_READ_ONLY=true"
        raise InputError("a file has no options", options[0], "arguments after --", hint)
    if not Path(file).is_file():
        raise InputError("no such file", file, "argument NAME", "name a Python file that has a server, such as mcp")
    return ("run", os.path.abspath(file) + server, "--transport", "stdio", "--no-banner")


def connect_gateway(place: Place, file: Path, name: str | None, options: Sequence[str]) -> None:
    """Print what a client's configuration needs for a gateway of a config file, or write it there."""
    from agent_utilities.upstream.configuration.config_files import read_config

    if os.path.realpath(file) == os.path.realpath(place.path):
        hint = "move its servers to a file of their own; beside the gateway, the client would start each itself too"
        raise InputError("the client's own file", str(file), "option --gateway", hint)
    chosen = _environ(place.env, os.environ)
    config = read_config([file], {**os.environ, **chosen})
    arguments = ("gateway", os.path.abspath(file), "-t", "stdio", *options)
    entry = Entry(name or _GATEWAY, _program("agent-utilities"), arguments, chosen)
    place.put(entry)
    for line in config.problems:
        print(f"left out: {line}", file=sys.stderr)
    _tell_left_behind(_taken(file, chosen, os.environ))


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


def add_entry(path: Path, key: str, name: str, entry: dict[str, Any], *, replace: bool) -> Path | None:
    """Add an entry to the object that has a key in a file's object; both are made where there is none.

    The file is swapped whole, so that its reader sees the old or the new one, after the old was copied beside it. A
    link is followed, and stays. What can't be kept is refused, and the file is as it was.

    Return the copy; None where there was no file, or the entry stood there already.
    """
    target = Path(os.path.realpath(path))
    before = _read(target)
    content = _parsed(before, path)
    entries = content.setdefault(key, {})
    if not isinstance(entries, dict):
        _refuse(f"{key!r} is no object", path)
    if entries.get(name) == entry:
        return None
    if name in entries and not replace:
        raise InputError(
            f"another {name!r} is there", str(path), "option --write", "add --replace to put this one in place"
        )
    entries[name] = entry
    after = _dumped(content, before or "", path)
    target.parent.mkdir(parents=True, exist_ok=True)
    copy = _copied(target) if before is not None else None
    if _read(target) != before:
        _refuse("changed while it was added to", path)
    mode = target.stat().st_mode & 0o7777 if target.exists() else 0o600
    write_whole(target, after.encode(), mode=mode)
    return copy


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        _refuse("not UTF-8", path)
    except OSError as error:
        _refuse(f"can't read the file, {(error.strerror or 'refused').lower()}", path)


def _parsed(text: str | None, path: Path) -> dict[str, Any]:
    if text is None or not text.strip("\ufeff \t\r\n"):
        return {}
    try:
        content = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_without_repeats)
    except ValueError as error:
        _refuse(f"not plain JSON ({error}), and comments or trailing commas could not be kept", path)
    if not isinstance(content, dict):
        _refuse("no JSON object", path)
    return content


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice in an object")
    return content


def _dumped(content: dict[str, Any], before: str, path: Path) -> str:
    """Return the new text, indented as the old one was, with escapes where that had nothing but ASCII."""
    indent = re.search(r"^[\ufeff\s]*\{\r?\n([ \t]+)\"", before)
    space: str | int = indent[1] if indent else 2
    try:
        return json.dumps(content, indent=space, ensure_ascii=before.isascii(), allow_nan=False) + "\n"
    except ValueError:
        _refuse("a number is none, or too large to be kept", path)


def _copied(path: Path) -> Path:
    """Copy a file beside itself under a name that is free, its mode included."""
    for number in count():
        copy = path.with_name(f"{path.name}.bak{number or ''}")
        try:
            os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            continue
        shutil.copy2(path, copy)
        return copy
    raise AssertionError("count ends never")


def _refuse(what: str, path: Path) -> NoReturn:
    hint = "nothing was written; mend the file, or add by hand what is printed without --write"
    raise InputError(what, str(path), "option --write", hint)
