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
from textwrap import dedent, indent
from typing import Annotated, Any, Literal, NoReturn

import typer

from agent_utilities.errors import InputError
from agent_utilities.runtime.process_io import expanded, open_regular, write_whole
from agent_utilities.upstream.configuration.config_text import MAX_YAML, form_of, parsed
from agent_utilities.upstream.configuration.host_files import HOSTS, Host, by_name, user_files
from agent_utilities.upstream.errors import ConfigError

app = typer.Typer(add_completion=False)


Client = Literal[
    "claude-desktop", "claude-code", "cursor", "vscode", "gemini", "windsurf",
    "codex", "zed", "opencode", "cline", "roo", "goose", "continue", "librechat",
]  # fmt: skip
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

    def as_told(self, host: Host) -> dict[str, Any]:
        """Return the entry as a host's file has it.

        Claude Code defers what servers list, and then a model would have to search for what it searches with.
        """
        words = [self.command, *self.arguments]
        parts = {
            "$name": self.name,
            "$command": words[0],
            "$args": words[1:],
            "$words": words,
            "$env": {**self.environ},
        }
        told = {key: parts.get(value, value) if isinstance(value, str) else value for key, value in host.entry.items()}
        searches: list[str] = re.findall(r"--tool-search[ =](\S+)", " ".join(self.arguments))
        if host is HOSTS["claude-code"]:
            is_searched = [self.environ.get("MCP_TOOL_SEARCH", self.tool_search), *searches][-1] != "off"
            told |= {"alwaysLoad": True} if is_searched else {}
        return {key: value for key, value in told.items() if value != {}}

    def claude_mcp_add(self) -> str:
        """Return the command that adds the entry for all projects of a user of Claude Code."""
        entry = json.dumps(self.as_told(HOSTS["claude-code"]), ensure_ascii=False)
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
    host = HOSTS[client]
    shown = entry.as_told(host)
    if write:
        copy = add_entry(path, host.key, entry.name, shown, replace=replace, host=host)
        print(f"{path} has {entry.name!r}" + (f"; what it was is in {copy.name}" if copy else ""))
        print(f"restart {client} to have it started", file=sys.stderr)
        return
    print(f"for {path}; --write adds it there, and keeps what it has:", file=sys.stderr)
    print(_written(form_of(path), host, entry.name, shown).rstrip())
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


def add_entry(
    path: Path, key: str, name: str, entry: dict[str, Any], *, replace: bool, host: Host | None = None
) -> Path | None:
    """Add an entry to the object that has a key in a file's object; both are made where there is none.

    The file is swapped whole, so that its reader sees the old or the new one, after the old was copied beside it. A
    link is followed, and stays. What can't be kept is refused, and the file is as it was. In TOML and YAML the entry is
    put in as text, and taken where the file then says what it said, and that.

    Return the copy; None where there was no file, or the entry stood there already.
    """
    target, form, host = Path(os.path.realpath(path)), form_of(path), host or Host("", key=key)
    before, content = _content(target, path, host.new)
    told = content.setdefault(key, [] if host.is_list and form == "YAML" else {})
    entries = by_name(told) if host.is_list else told
    if not isinstance(entries, dict):
        _refuse(f"{key!r} is no object", path)
    there, wanted = entries.get(name), {"name": name, **entry} if isinstance(told, list) else entry
    if there == wanted:
        return None
    if there is not None and not replace:
        hint = "add --replace to put this one in place"
        raise InputError(f"another {name!r} is there", str(path), "option --write", hint)
    if isinstance(told, list):
        told.insert(0, wanted)
    else:
        told[name] = wanted
    after = _json(before, content, path) if form == "JSON" else _with(before, form, host, name, entry)
    try:
        is_put_in = form == "JSON" or (there is None and parsed(after.encode(), path) == content)
    except ConfigError:
        is_put_in = False
    if not is_put_in:
        _refuse("the entry can't be put in beside what is there", path)
    target.parent.mkdir(parents=True, exist_ok=True)
    copy = None
    if target.exists():
        copies = (target.with_name(f"{target.name}.bak{number or ''}") for number in count())
        copy = next(copy for copy in copies if not os.path.lexists(copy))
        shutil.copy2(target, copy)
    write_whole(target, f"{after.rstrip()}\n".encode(), mode=target.stat().st_mode & 0o7777 if copy else 0o600)
    return copy


def _json(before: str, content: dict[str, Any], path: Path) -> str:
    """Return an object, indented as it was, with escapes where it had nothing but ASCII."""
    beside = re.search(r"^\s*\{\n([ \t]+)\"", before)
    try:
        return json.dumps(content, indent=beside[1] if beside else 2, ensure_ascii=before.isascii(), allow_nan=False)
    except ValueError:
        _refuse("a number is none, or too large to be kept", path)


def _written(form: str, host: Host, name: str, entry: Mapping[str, Any]) -> str:
    """Return an entry as a file has it that has nothing else."""
    if form == "TOML":
        names = [json.dumps(f) + " = " + json.dumps(v) for f, v in entry.get("env", {}).items()]
        told = {field: json.dumps(value) for field, value in entry.items()}
        told |= {"env": f"{{ {', '.join(names)} }}"} if names else {}
        table = name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name)
        return "\n".join([f"[{host.key}.{table}]", *(f"{field} = {value}" for field, value in told.items())])
    entries = [{"name": name, **entry}] if host.is_list and form == "YAML" else {name: entry}
    if form == "JSON":
        return json.dumps({host.key: entries}, indent=2, ensure_ascii=False)
    from yaml import safe_dump  # as where it is read

    return str(safe_dump({host.key: entries}, sort_keys=False, allow_unicode=True, width=MAX_YAML))


def _with(before: str, form: str, host: Host, name: str, entry: Mapping[str, Any]) -> str:
    """Return TOML or YAML with an entry put in: at the end, or as the first beneath a key that is there."""
    written = _written(form, host, name, entry)
    key = rf"^({re.escape(host.key)}:)(?:[ \t]*(?:\{{\}}|\[\]|null|~))?([ \t]+#.*)?[ \t]*(?:\n|\Z)"
    there = re.search(key, before, re.MULTILINE)
    if form == "TOML" or not there:
        return f"{before.rstrip()}\n\n{written}".lstrip()
    block, rest = written.partition("\n")[2], before[there.end() :]
    beside = re.match(r"(?:[ \t]*(?:#.*)?\n)*( *)", rest)
    space = (beside[1] if beside else "") or ("" if host.is_list else "  ")
    return f"{before[: there.start()]}{there[1]}{there[2] or ''}\n{indent(dedent(block), space)}{rest}"


def _content(file: Path, path: Path, new: str) -> tuple[str, dict[str, Any]]:
    """Return what a file has, as text and as an object; what a new one must have where there is none."""
    try:
        with open_regular(file) as opened:
            text = opened.read().decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        _refuse(f"can't read the file, {error}", path)
    if form_of(path) != "JSON":
        text = text if text.strip() else new
        try:
            return text, parsed(text.encode(), path) if text.strip() else {}
        except ConfigError as error:
            _refuse(error.what, path)
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
