"""Where a clone may come from and a push may go."""

from __future__ import annotations

import fnmatch
import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fastmcp.exceptions import ToolError

from git_agent.command import redacted
from git_agent.repository import Repository, inspect
from git_agent.roots import locate, require_inside
from git_agent.settings import PROTOCOLS, Settings
from git_agent.text import checked_name

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\]")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SCP = re.compile(r"(?:([^@/:]*)@)?(\[[^\]/]*\]|[^:/\[]*):(.*)", re.DOTALL)


@dataclass(frozen=True)
class Address:
    """A remote repository that git may be given."""

    protocol: str
    """The one transport git may use for it; `file` for a repository inside the roots."""
    url: str
    local: Repository | None = None


def parse_address(
    settings: Settings, value: str, *, base: Path | None = None, may_hold_password: bool = False
) -> Address:
    """Return the address that `value` means to git.

    Args:
        settings: the limits.
        value: a url, an ssh address `host:path`, or a local path.
        base: folder that a relative local path starts from; default: the roots.
        may_hold_password: whether the url may carry one, as the operator's own remotes may.

    Raises:
        ToolError: the protocol, the host or the path is not allowed.
    """
    checked_name(value, "url")
    shown = redacted(value)
    if re.match(r"[A-Za-z0-9+.-]*::", value):
        raise ToolError(f"remote helpers are not allowed: {shown!r}; use an https url")
    scheme = _SCHEME.match(value)
    if scheme and scheme[1] != "file":
        return _network(settings, value, scheme[1], shown, may_hold_password)
    if scheme:
        if not value.startswith("file:///"):
            raise ToolError(f"a file url must not name a host: {shown!r}")
        return _local(settings, unquote(value.removeprefix("file://")), base)
    scp = _SCP.fullmatch(value)
    if scp:
        _require_protocol(settings, "ssh", shown)
        _require_host(settings, scp[2], scp[1], shown)
        if not scp[3] or scp[3].startswith("-"):
            raise ToolError(f"url has no usable path: {shown!r}")
        return Address("ssh", value)
    return _local(settings, value, base)


def _network(settings: Settings, value: str, protocol: str, shown: str, may_hold_password: bool) -> Address:
    _require_protocol(settings, protocol, shown)
    if any(char in value for char in " \\"):
        raise ToolError(f"url holds a blank or a backslash: {shown!r}")
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        raise ToolError(f"malformed url: {shown!r}") from None
    authority = parts.netloc
    login, at, place = authority.rpartition("@")
    user, colon, _ = login.partition(":")
    if colon and not may_hold_password:
        raise ToolError(f"url must not carry a password: {shown!r}; use a credential helper or ssh agent")
    host = re.sub(r":\d*\Z", "", place)
    _require_host(settings, host, user if at and not colon else None, shown)
    if parts.path in ("", "/"):
        raise ToolError(f"url has no usable path: {shown!r}")
    return Address(protocol, value)


def _require_protocol(settings: Settings, protocol: str, shown: str) -> None:
    if protocol not in settings.protocols:
        allowed = ", ".join(p for p in PROTOCOLS if p in settings.protocols)
        raise ToolError(f"protocol {protocol!r} is not allowed: {shown!r}; allowed: {allowed}, and local paths")


def _require_host(settings: Settings, host: str, user: str | None, shown: str) -> None:
    if not _HOST.fullmatch(host) or (user is not None and not _USER.fullmatch(user)):
        raise ToolError(f"malformed host or user in url: {shown!r}")
    if settings.hosts and not any(fnmatch.fnmatchcase(host.lower(), glob) for glob in settings.hosts):
        raise ToolError(f"host is not allowed: {host!r}; allowed: {', '.join(settings.hosts)}")


def _local(settings: Settings, value: str, base: Path | None) -> Address:
    if base is None:
        folder = locate(settings, value, "url")
    else:
        if checked_name(value, "remote url").startswith("~"):  # git would ask for a home folder
            raise ToolError(f"remote url must not start with '~': {value!r}")
        folder = require_inside(settings, Path(os.path.join(base, value)), "remote url")
    repository = inspect(settings, folder, value)
    return Address("file", str(repository.git_dir), repository)
