"""A provider of a capability: what its file says, and the servers that it brings along."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_utilities.capabilities.bundle_file import Notes, TableReader, quoted
from agent_utilities.capabilities.model import CapabilityServer

_REQUIREMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*/[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
_KEYS = ("title", "description", "deps", "roles", "mcp")
_LONGEST_TITLE, _LONGEST_DESCRIPTION = 200, 2000


@dataclass(frozen=True, slots=True)
class Provider:
    """What a provider's file says; see `Capability`."""

    title: str
    description: str
    require: tuple[str, ...]
    server_refs: tuple[str, ...]
    allowed_tools: tuple[str, ...] | None
    servers: tuple[CapabilityServer, ...]
    built_in: tuple[str, ...]


def read_provider(text: str, told: Mapping[str, Any], file: str, label: str, notes: Notes) -> Provider | None:
    """Return what a provider's file says; None where something is wrong with it, all of which is told.

    Args:
        text: the file's text, whose head comment may have the title.
        told: what it says as TOML.
        file: the file, as messages name it.
        label: its folder and name, as a server's source.
        notes: what is told is added here.
    """
    n_before = len(notes.problems)
    table = TableReader(told, file, notes)
    table.knows(_KEYS)
    deps, roles = table.table("deps"), table.table("roles")
    deps.knows(("require",))
    roles.knows(("mcp",))
    wanted = roles.table("mcp")
    wanted.knows(("server_refs", "allowed_tools"))
    mcp = table.table("mcp")
    mcp.knows(("servers",))
    title, description = titles(table, text)
    servers, built_in = _servers(mcp, label, notes)
    provider = Provider(
        title=title,
        description=description,
        require=_requirements(deps),
        server_refs=wanted.texts("server_refs", '["git"]'),
        # The taps mean every tool by an empty list, as by none.
        allowed_tools=wanted.texts("allowed_tools", '["git:*"]') or None,
        servers=servers,
        built_in=built_in,
    )
    return provider if len(notes.problems) == n_before else None


def titles(table: TableReader, text: str) -> tuple[str, str]:
    """Return title and description: the keys', or else the head comment's."""
    head = head_comment(text)
    title = table.text("title") or head.get("title", "")
    description = table.text("description") or head.get("description", "")
    return _shortened(title, _LONGEST_TITLE), _shortened(description, _LONGEST_DESCRIPTION)


def _requirements(deps: TableReader) -> tuple[str, ...]:
    require = deps.texts("require", '["astral-sh/uv"]')
    for each in require:
        if not _REQUIREMENT.match(each):  # it names a file of the tap: nothing of it may lead elsewhere
            deps.wrong("require", f"{quoted(each)} is no OWNER/TOOL", "write it as OWNER/TOOL, such as astral-sh/uv")
    return require


def _servers(mcp: TableReader, label: str, notes: Notes) -> tuple[tuple[CapabilityServer, ...], tuple[str, ...]]:
    """Return the servers that can be had, and the names of those that are built into another host."""
    servers, built_in = dict[str, CapabilityServer](), list[str]()
    for table in mcp.tables("servers"):
        server = read_server(table, label, notes)
        if server is None:
            continue
        if server.is_built_in:
            built_in.append(server.name)
        elif server.name in servers:
            table.wrong("name", f"{quoted(server.name)} stands twice", "rename one of the two")
        else:
            servers[server.name] = server
    return tuple(servers.values()), tuple(dict.fromkeys(built_in))


def _shortened(text: str, longest: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


_LINE = re.compile(r"#\s*(?P<key>[A-Za-z]+):\s*(?P<value>.*)\Z")


def head_comment(text: str) -> Mapping[str, str]:
    """Return what the comment at the head of a file says, by its keys in lower case: `title`, `description`.

    The first line of a key holds. What stands below the first line that is no comment is none of it.

    Args:
        text: the file's.
    """
    told: dict[str, str] = {}
    for line in map(str.strip, text.split("\n")):
        if line and not line.startswith("#"):
            break
        if found := _LINE.match(line):
            told.setdefault(found["key"].lower(), found["value"].strip())
    return told


MAX_NAME = 128
"""The longest name of a server, in characters."""

BUILTIN = "builtin"
"""The type of a server that is part of another host."""

_SERVER_KEYS = ("name", "type", "command", "args", "url", "env", "headers", "timeout_seconds", "tools")
_STDIO, _HTTP = ("stdio", "stdin"), ("http", "sse")


def read_server(table: TableReader, label: str, notes: Notes) -> CapabilityServer | None:
    """Return a server; None where something is wrong with it, all of which is told.

    Args:
        table: its table.
        label: the file, as the server's source names it: folder and file.
        notes: what is told is added here.
    """
    name = table.text("name")
    if not is_server_name(name):
        table.wrong("name", f"{quoted(name)} can't be a server's", 'write letters, digits, `-` or `_`, such as "git"')
        return None
    table = table.named(name)
    n_before = len(notes.problems)
    table.knows(_SERVER_KEYS)
    tools = table.texts("tools", '["read_file"]')
    if table.text("type").lower() == BUILTIN:
        return CapabilityServer(name, {}, tools, f"{label}: mcp.servers.{name}", is_built_in=True)
    entry = translated(_entry(table))
    if len(notes.problems) > n_before:
        return None
    for placeholder in untranslated(entry):
        notes.notice(table.where(), f"{placeholder} means nothing here, and is taken as it stands")
    return CapabilityServer(name, entry, tools, f"{label}: mcp.servers.{name}")


def is_server_name(name: str) -> bool:
    """Whether a text can be a server's name: a toolset's, without the `:` that ends it in a pattern."""
    is_plain = bool(name) and name == name.strip() and name.isprintable()
    return is_plain and len(name) <= MAX_NAME and "," not in name and ":" not in name


def _entry(table: TableReader) -> dict[str, Any]:
    """Return what a server's entry in an `mcp.json` would say."""
    kind, command, url = table.text("type").lower(), table.text("command"), table.text("url")
    if not kind:
        kind = "stdio" if command else "http"
    if kind not in (*_STDIO, *_HTTP):
        table.wrong("type", f"is {quoted(kind)}", 'write "stdio", "http" or "builtin"')
        return {}
    seconds = table.seconds("timeout_seconds")
    timeout = {} if seconds is None else {"timeoutSeconds": seconds}
    if kind in _STDIO:
        if not command:
            table.wrong("command", "is not there", 'write the program, such as "npx"')
        return {"type": "stdio", "command": command, "args": table.words("args"), "env": table.values("env"), **timeout}
    if not url:
        table.wrong("url", "is not there", "write an address, such as https://example.com/mcp")
    return {"type": kind, "url": url, "headers": table.values("headers"), **timeout}


_VARIABLE = re.compile(r"\{\{(?:ENV|INPUT):([A-Za-z_][A-Za-z0-9_]*)\}\}")
_PLACEHOLDER = re.compile(r"\{\{[A-Z]+(?::[^{}]*)?\}\}")
_FOLDER = "{{CWD}}"


def translated(value: Any) -> Any:
    """Return a value with the placeholders in its texts as references; nothing is filled in.

    `{{ENV:VAR}}`, and `{{INPUT:VAR}}` that another host would ask its user for, become `${env:VAR}`; `{{CWD}}` becomes
    `${workspaceFolder}`. What a variable holds is not looked into for more, here or later.

    Args:
        value: a text, or a list or table with texts; keys are left as they are.
    """
    if isinstance(value, str):
        return _VARIABLE.sub(r"${env:\1}", value).replace(_FOLDER, "${workspaceFolder}")
    if isinstance(value, dict):
        return {key: translated(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [translated(each) for each in value]
    return value


def untranslated(value: Any) -> tuple[str, ...]:
    """Return the placeholders in a translated value that mean nothing here, each once."""
    if isinstance(value, str):
        return tuple(dict.fromkeys(_PLACEHOLDER.findall(value)))
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return tuple(dict.fromkeys(placeholder for each in inside for placeholder in untranslated(each)))
