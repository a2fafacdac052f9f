"""A provider of a capability: what its file says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_utilities.capabilities.head_comment import head_comment
from agent_utilities.capabilities.model import CapabilityServer
from agent_utilities.capabilities.notes import Notes, quoted
from agent_utilities.capabilities.server_table import read_server
from agent_utilities.capabilities.table_reader import TableReader

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
