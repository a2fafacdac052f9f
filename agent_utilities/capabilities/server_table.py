"""A server that a bundle brings along, as its table says."""

from __future__ import annotations

from typing import Any

from agent_utilities.capabilities.model import CapabilityServer
from agent_utilities.capabilities.notes import Notes, quoted
from agent_utilities.capabilities.table_reader import TableReader
from agent_utilities.capabilities.templates import translated, untranslated

MAX_NAME = 128
"""The longest name of a server, in characters."""

BUILTIN = "builtin"
"""The type of a server that is part of another host."""

_KEYS = ("name", "type", "command", "args", "url", "env", "headers", "timeout_seconds", "tools")
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
    table.knows(_KEYS)
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
