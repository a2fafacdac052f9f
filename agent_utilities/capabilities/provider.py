"""The tables of a bundle's files: what they may say, and the servers that a provider's file brings along."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from agent_utilities.capabilities.bundle_file import BundleFileError, Notes, parsed, quoted, read_text
from agent_utilities.capabilities.model import CapabilityServer

MAX_NAME = 128
"""The longest name of a server, in characters."""
_REQUIREMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*/[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
_LONGEST_TITLE, _LONGEST_DESCRIPTION = 200, 2000
_STDIO, _HTTP = ("stdio", "stdin"), ("http", "sse")
_BUILTIN = "builtin"
"""The type of a server that is part of another host."""

_Text = Annotated[str, StringConstraints(strip_whitespace=True)]
_Texts = Annotated[list[_Text], AfterValidator(lambda texts: list(dict.fromkeys(filter(None, texts))))]
_Values = dict[str, bool | int | float | str]


class _Table(BaseModel):
    """A table of a file; keys that nobody knows are passed over, and told."""

    model_config = ConfigDict(strict=True, extra="allow")


class _Deps(_Table):
    require: _Texts = []


class _Wanted(_Table):
    server_refs: _Texts = []
    allowed_tools: _Texts = []


class _Roles(_Table):
    mcp: _Wanted = _Wanted()


class _Server(_Table):
    name: _Text = ""
    type: _Text = ""
    command: _Text = ""
    args: list[str | int] = []
    url: _Text = ""
    env: _Values = {}
    headers: _Values = {}
    timeout_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    tools: _Texts = []


class _Mcp(_Table):
    servers: list[_Server] = []


class _Titled(_Table):
    title: _Text = ""
    description: _Text = ""


class ConfigTable(_Titled):
    """What `config.toml` says: what calls for the capability, and the profiles that see it."""

    triggers: _Texts = []
    domains: _Texts = []


class ProviderTable(_Titled):
    """What a provider's file says: what it requires, which tools it wants, and its servers."""

    deps: _Deps = _Deps()
    roles: _Roles = _Roles()
    mcp: _Mcp = _Mcp()


_TABLE, _TEXT, _VALUES = "write it as a table", "write a text", 'write a table of texts, such as { NAME = "value" }'
_LIST = "write a list of texts, such as"
_HINTS = {
    **dict.fromkeys(("deps", "roles", "mcp"), _TABLE),
    **dict.fromkeys(("title", "description", "name", "type", "command", "url"), _TEXT),
    **dict.fromkeys(("env", "headers"), _VALUES),
    "triggers": f'{_LIST} ["browse a website"]',
    "domains": f'{_LIST} ["developer"]',
    "require": f'{_LIST} ["astral-sh/uv"]',
    "server_refs": f'{_LIST} ["git"]',
    "allowed_tools": f'{_LIST} ["git:*"]',
    "tools": f'{_LIST} ["read_file"]',
    "args": f'{_LIST} ["-y", "NAME"]',
    "servers": "write each as a table: [[mcp.servers]]",
    "timeout_seconds": "write a number of seconds above 0, such as 60",
}
"""What would do, by the key of the value that is wrong."""

_T = TypeVar("_T", bound=_Titled)


def read_table(kind: type[_T], path: Path, folder: Path, notes: Notes) -> _T | None:
    """Return what a bundle's file says; None where something is wrong with it, all of which is told.

    Title and description are the keys', or else the head comment's.
    """
    try:
        text = read_text(path, folder)
        told = parsed(text)
    except BundleFileError as error:
        notes.problem(path, error.what, error.hint)
        return None
    try:
        table = kind.model_validate(told)
    except ValidationError as error:
        for where, what, hint in _problems(error, told):
            notes.problem(f"{path}: {where}", what, hint)
        return None
    for place, key in _unknown(table, ""):
        notes.pass_over(f"{path}: {place}" if place else path, key)
    head = _head_comment(text)
    table.title = _shortened(table.title or head.get("title", ""), _LONGEST_TITLE)
    table.description = _shortened(table.description or head.get("description", ""), _LONGEST_DESCRIPTION)
    return table


def _problems(error: ValidationError, told: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield for each value that is wrong where it stands, what is wrong, and what would do."""
    seen = set()
    for each in error.errors(include_url=False, include_context=False):
        place = each["loc"]
        while place[-1] not in _HINTS:
            place = place[:-1]
        if place not in seen:
            seen.add(place)
            verb, where, key = "is" if place == each["loc"] else "has", _dotted(place, told), str(place[-1])
            what = quoted(str(each["input"])) if key == "timeout_seconds" else _described(each["input"])
            yield where, f"{verb} {what}", f"{_TABLE}: [{where}]" if _HINTS[key] == _TABLE else _HINTS[key]


def _dotted(place: Sequence[int | str], told: Mapping[str, Any]) -> str:
    """Return a place as messages have it, such as `mcp.servers.git.args`; a server without a name by its index."""
    if len(place) > 2 and isinstance(place[2], int):
        name = told["mcp"]["servers"][place[2]].get("name")
        index = name.strip() if isinstance(name, str) and _is_server_name(name.strip()) else f"[{place[2]}]"
        return ".".join(map(str, ("mcp.servers", index, *place[3:]))).replace(".[", "[")
    return ".".join(map(str, place))


def _described(value: object) -> str:
    """Return what a value is, without it."""
    names = {dict: "a table", list: "a list", str: "a text", bool: "a switch", int: "a number", float: "a number"}
    return next((name for kind, name in names.items() if isinstance(value, kind)), "a date or time")


def _unknown(table: BaseModel, place: str) -> Iterator[tuple[str, str]]:
    """Yield the keys that nobody knows, each with the place of its table."""
    for key in table.model_extra or ():
        yield place, key
    for key, value in table:
        where = f"{place}.{key}" if place else key
        if isinstance(value, BaseModel):
            yield from _unknown(value, where)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, _Server):
                    yield from _unknown(each, f"{where}.{each.name}")


_LINE = re.compile(r"#\s*(?P<key>[A-Za-z]+):\s*(?P<value>.*)\Z")


def _head_comment(text: str) -> Mapping[str, str]:
    """Return what the comment at the head of a file says, by keys in lower case; the first line of a key holds."""
    told: dict[str, str] = {}
    for line in map(str.strip, text.split("\n")):
        if line and not line.startswith("#"):
            break
        if found := _LINE.match(line):
            told.setdefault(found["key"].lower(), found["value"].strip())
    return told


def _shortened(text: str, longest: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def requirements_of(provider: ProviderTable, path: Path, notes: Notes) -> tuple[str, ...]:
    """Return what a provider requires."""
    for each in provider.deps.require:
        if not _REQUIREMENT.match(each):  # it names a file of the tap: nothing of it may lead elsewhere
            hint = "write it as OWNER/TOOL, such as astral-sh/uv"
            notes.problem(f"{path}: deps.require", f"{quoted(each)} is no OWNER/TOOL", hint)
    return tuple(provider.deps.require)


def servers_in(
    provider: ProviderTable, path: Path, notes: Notes
) -> tuple[tuple[CapabilityServer, ...], tuple[str, ...]]:
    """Return the servers that can be had, and the names of those that are built into another host."""
    servers, built_in = dict[str, CapabilityServer](), list[str]()
    for i, table in enumerate(provider.mcp.servers):
        where, name = f"{path}: mcp.servers.{table.name}", table.name
        if not _is_server_name(name):
            hint = 'write letters, digits, `-` or `_`, such as "git"'
            notes.problem(f"{path}: mcp.servers[{i}].name", f"{quoted(name)} can't be a server's", hint)
        elif table.type.lower() == _BUILTIN:
            built_in.append(name)
        elif name in servers:
            notes.problem(f"{where}.name", f"{quoted(name)} stands twice", "rename one of the two")
        else:
            entry = _entry(table, where, notes)
            source = f"{path.parent.name}/{path.name}: mcp.servers.{name}"
            servers[name] = CapabilityServer(name, entry, tuple(table.tools), source)
    return tuple(servers.values()), tuple(dict.fromkeys(built_in))


def _is_server_name(name: str) -> bool:
    """Whether a text can be a server's name: a toolset's, without the `:` that ends it in a pattern."""
    return bool(name) and name.isprintable() and len(name) <= MAX_NAME and "," not in name and ":" not in name


_VARIABLE = re.compile(r"\{\{(?:ENV|INPUT):([A-Za-z_][A-Za-z0-9_]*)\}\}")
_PLACEHOLDER = re.compile(r"\{\{[A-Z]+(?::[^{}]*)?\}\}")


def _entry(table: _Server, where: str, notes: Notes) -> dict[str, Any]:
    """Return what a server's entry in an `mcp.json` would say; nothing in it is filled in.

    `{{ENV:VAR}}`, and `{{INPUT:VAR}}` that another host would ask its user for, become `${env:VAR}`; `{{CWD}}` becomes
    `${workspaceFolder}`. What a variable holds is not looked into for more, here or later.
    """
    kind = table.type.lower() or ("stdio" if table.command else "http")
    entry: dict[str, Any] = {"type": kind}
    if kind in _STDIO:
        if not table.command:
            notes.problem(f"{where}.command", "is not there", 'write the program, such as "npx"')
        args = [str(each) for each in table.args]
        entry = {"type": "stdio", "command": table.command, "args": args, "env": _as_texts(table.env)}
    elif kind in _HTTP:
        if not table.url:
            notes.problem(f"{where}.url", "is not there", "write an address, such as https://example.com/mcp")
        entry |= {"url": table.url, "headers": _as_texts(table.headers)}
    else:
        notes.problem(f"{where}.type", f"is {quoted(kind)}", 'write "stdio", "http" or "builtin"')
    if table.timeout_seconds is not None:
        entry["timeoutSeconds"] = table.timeout_seconds
    text = json.dumps(entry, ensure_ascii=False)
    text = _VARIABLE.sub(r"${env:\1}", text).replace("{{CWD}}", "${workspaceFolder}")
    for placeholder in dict.fromkeys(_PLACEHOLDER.findall(text)):
        notes.notice(where, f"{placeholder} means nothing here, and is taken as it stands")
    translated: dict[str, Any] = json.loads(text)
    return translated


def _as_texts(values: _Values) -> dict[str, str]:
    return {name: str(each).lower() if isinstance(each, bool) else str(each) for name, each in values.items()}
