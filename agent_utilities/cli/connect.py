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
from importlib.metadata import entry_points
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

from agent_utilities.errors import InputError
from agent_utilities.runtime.process_io import expanded, open_regular, write_whole
from agent_utilities.upstream.configuration.host_files import user_files

app = typer.Typer(add_completion=False)


Client = Literal["claude-desktop", "claude-code", "cursor", "vscode", "gemini", "windsurf"]
"""A client whose configuration is known."""


@dataclass(frozen=True)
class Entry:
    """How a client starts a server over stdio; clients give it next to nothing of the user's environment."""

    name: str
    command: str
    arguments: tuple[str, ...]
    environ: Mapping[str, str]
    tool_search: str = "off"
    """Which it has where nothing else is given."""

    def as_json(self, client: Client) -> dict[str, Any]:
        """Return the entry as a client's file has it. Claude Code and VS Code want the transport named.

        Claude Code defers what servers list, and then a model would have to search for what it searches with.

        Source: code.visualstudio.com/docs/copilot/reference/mcp-configuration; cursor.com/docs/mcp;
        code.claude.com/docs/en/mcp; modelcontextprotocol.io/docs/develop/connect-local-servers.
        """
        entry: dict[str, Any] = {"type": "stdio"} if client in ("claude-code", "vscode") else {}
        entry |= {"command": self.command, "args": list(self.arguments)}
        given: list[str] = re.findall(r"--tool-search[ =](\S+)", " ".join(self.arguments))
        if client == "claude-code" and [self.environ.get("MCP_TOOL_SEARCH", self.tool_search), *given][-1] != "off":
            entry["alwaysLoad"] = True
        return entry | ({"env": dict(self.environ)} if self.environ else {})

    def claude_mcp_add(self) -> str:
        """Return the command that adds the entry for all projects of a user of Claude Code."""
        entry = json.dumps(self.as_json("claude-code"), ensure_ascii=False)
        return shlex.join(["claude", "mcp", "add-json", "--scope", "user", self.name, entry])


_FILES: dict[Client, tuple[str, str | None]] = {
    "claude-code": ("Claude Code", ".mcp.json"),
    "claude-desktop": ("Claude Desktop", None),
    "cursor": ("Cursor", ".cursor/mcp.json"),
    "vscode": ("VS Code", ".vscode/mcp.json"),
    "gemini": ("Gemini", ".gemini/settings.json"),
    "windsurf": ("Windsurf", None),
}
"""What each client is called, and its file in a project, where it reads one."""


def config_path(client: Client, project: Path | None, environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the file that a client reads.

    Of Claude Code it is a project's: its own file for all projects is written by `claude mcp add` alone.

    Raises:
        InputError: it reads none of a project.
    """
    title, in_project = _FILES[client]
    if project is None and client != "claude-code":
        return user_files(expanded("~"), environ, platform)[title]
    if in_project is None:
        what = f"{title} has no configuration of a project"
        raise InputError(what, str(project), "option --project", "leave it out")
    return (project or Path.cwd()) / in_project


_SUFFIX = "-mcp"
_FILE = re.compile(r"(.+\.py)(:\w+)?")
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
    """
    path, environ, given = config_path(client, project, os.environ), _environ(env or (), os.environ), options or []
    problems: Sequence[str] = ()
    if gateway is not None:
        if name is not None and name.startswith("-"):  # the first after `--`, where the gateway is given no name
            given, name = [name, *given], None
        entry, problems = _gateway_entry(gateway, name or "gateway", given, environ, path)
        left = _taken(gateway, environ, os.environ)
    elif name is not None:
        entry = _server_entry(name, given, environ)
        left = _left_behind(entry.name, environ, os.environ)
    else:
        hint = "name an installed one, a server.py, or --gateway FILE"
        raise InputError("no server is named", "", "argument NAME", hint)
    _put(entry, client, path, write=write, replace=replace)
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
    shown, key = entry.as_json(client), "servers" if client == "vscode" else "mcpServers"
    if write:
        copy = add_entry(path, key, entry.name, shown, replace=replace)
        print(f"{path} has {entry.name!r}" + (f"; what it was is in {copy.name}" if copy else ""))
        print(f"restart {client} to have it started", file=sys.stderr)
        return
    print(f"for {path}; --write adds it there, and keeps what it has:", file=sys.stderr)
    print(json.dumps({key: {entry.name: shown}}, indent=2, ensure_ascii=False))
    if client == "claude-code":
        print(f"or, for all your projects: {entry.claude_mcp_add()}", file=sys.stderr)


def _server_entry(name: str, options: Sequence[str], environ: Mapping[str, str]) -> Entry:
    """Return how a server is started that is installed, or that a file has: FastMCP serves that from any folder."""
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


def _gateway_entry(
    file: Path, name: str, options: Sequence[str], environ: Mapping[str, str], place: Path
) -> tuple[Entry, Sequence[str]]:
    """Return how a gateway of a config file is started, and what is left out of the file."""
    from agent_utilities.upstream.configuration.config_files import read_config

    if os.path.realpath(file) == os.path.realpath(place):
        hint = "move its servers to a file of their own; beside the gateway, the client would start each itself too"
        raise InputError("the client's own file", str(file), "option --gateway", hint)
    problems = read_config([file], {**os.environ, **environ}).problems
    arguments = ("gateway", os.path.abspath(file), "-t", "stdio", *options)
    return Entry(name, _program("agent-utilities"), arguments, environ, "auto"), problems


def _program(name: str) -> str:
    """Return the absolute path of an installed program; the one beside this interpreter goes first."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        hint = f"there is no {name}; there are: {', '.join(_installed_servers()) or 'none'}"
        raise InputError("no such server is installed", name.removesuffix(_SUFFIX), "argument NAME", hint)
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
    """Return the variables of this shell that a config file names, and that its client does not give it."""
    from agent_utilities.upstream.configuration.config_text import read_bytes
    from agent_utilities.upstream.configuration.variables import names_in

    text = read_bytes(file).decode(errors="replace")
    named = {*names_in(text), *re.findall(r"\$(\w+)", text)}  # Gemini's files have them without braces
    return sorted(name for name in named if name in environ and name not in {*chosen, *_PASSED_ON})


def add_entry(path: Path, key: str, name: str, entry: dict[str, Any], *, replace: bool) -> Path | None:
    """Add an entry to the object that has a key in a file's object; both are made where there is none.

    The file is swapped whole, so that its reader sees the old or the new one, after the old was copied beside it. A
    link is followed, and stays. What can't be kept is refused, and the file is as it was.

    Return the copy; None where there was no file, or the entry stood there already.
    """
    target = Path(os.path.realpath(path))
    before, content = _content(target, path)
    entries = content.setdefault(key, {})
    if not isinstance(entries, dict):
        _refuse(f"{key!r} is no object", path)
    if entries.get(name) == entry:
        return None
    if name in entries and not replace:
        hint = "add --replace to put this one in place"
        raise InputError(f"another {name!r} is there", str(path), "option --write", hint)
    entries[name] = entry
    indent = re.search(r"^\s*\{\n([ \t]+)\"", before)
    try:  # indented as it was, with escapes where it had nothing but ASCII
        space: str | int = indent[1] if indent else 2
        after = json.dumps(content, indent=space, ensure_ascii=before.isascii(), allow_nan=False)
    except ValueError:
        _refuse("a number is none, or too large to be kept", path)
    target.parent.mkdir(parents=True, exist_ok=True)
    copy = None
    if target.exists():
        copies = (target.with_name(f"{target.name}.bak{number or ''}") for number in count())
        copy = next(copy for copy in copies if not os.path.lexists(copy))
        shutil.copy2(target, copy)
    write_whole(target, f"{after}\n".encode(), mode=target.stat().st_mode & 0o7777 if copy else 0o600)
    return copy


def _content(file: Path, path: Path) -> tuple[str, dict[str, Any]]:
    """Return what a file has, as text and as an object; nothing where there is none."""
    try:
        with open_regular(file) as opened:
            text = opened.read().decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        return "", {}
    except (OSError, UnicodeDecodeError) as error:
        _refuse(f"can't read the file, {error}", path)
    try:
        content = json.loads(text, object_pairs_hook=_without_repeats) if text.strip() else {}
    except ValueError as error:
        _refuse(f"not plain JSON ({error}), and comments or trailing commas could not be kept", path)
    if not isinstance(content, dict):
        _refuse("no JSON object", path)
    return text, content


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice in an object")
    return content


def _refuse(what: str, path: Path) -> NoReturn:
    hint = "nothing was written; mend the file, or add by hand what is printed without --write"
    raise InputError(what, str(path), "option --write", hint)
