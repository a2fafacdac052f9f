"""Hosts and origins in HTTP headers, and the patterns that accept them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Literal

from agent_utilities.errors import SettingsError

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?)(?::([0-9]{0,5}))?", re.ASCII)
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*://)?([^/?#]*@)?((?:\[[0-9a-f:.]+\]|[\w.-]+)(?::\d*)?(?:/[\w./-]*)?)", re.I)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}
ANY_PORT = -1
_MAX_PORT = 65535
_MAX_LENGTH = 260

HOST_EXAMPLE = "use a host such as agent.example, agent.example:8001, *.agent.example or *"
ORIGIN_EXAMPLE = "use an origin such as https://app.example, http://localhost:*, null or *"


@dataclass(frozen=True, slots=True)
class Host:
    """A host, or with a scheme an origin, or a pattern of either; in lower case, without a trailing dot or brackets.

    Args:
        name: of a pattern also `*` for every host, or `*.` and a domain for all below it.
        port: None for none, in an origin the scheme's default; of a pattern also `ANY_PORT`.
        scheme: of a pattern of origins also `*` for every one, and `null` for the one that browsers hide.
    """

    name: str
    port: int | None = None
    scheme: str = ""

    def __str__(self) -> str:
        if self.scheme in ("*", "null"):
            return self.scheme
        name = f"[{self.name}]" if ":" in self.name else self.name
        name = name if self.port in (None, ANY_PORT, _DEFAULT_PORTS.get(self.scheme)) else f"{name}:{self.port}"
        return f"{self.scheme}://{name}" if self.scheme else name

    def fits(self, host: Host | None, text: str = "") -> bool:
        """Whether this pattern accepts a host or an origin; a host without a port has the port of http or https.

        `host` is None where it is malformed; `text` is the Origin header.
        """
        if self.scheme in ("*", "null"):
            return self.scheme == "*" or text == "null"
        if host is None or host.scheme != self.scheme:
            return False
        is_below = self.name.startswith("*.") and host.name.endswith(self.name[1:])
        ports = _DEFAULT_PORTS.values() if host.port is None and not host.scheme else (host.port,)
        return (self.name in ("*", host.name) or is_below) and self.port in (ANY_PORT, *ports)


def is_loopback(name: str) -> bool:
    """Whether a host's name or address is a loopback one: 127.0.0.0/8, ::1 or localhost."""
    if name.lower() == "localhost":
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def read_host(text: str) -> Host | None:
    """Parse a Host header; None where it is malformed."""
    match = _HOST.fullmatch(text.lower()) if len(text) <= _MAX_LENGTH else None
    if match is None:
        return None
    address, name, port = match.groups()
    if port and int(port) > _MAX_PORT:
        return None
    if address is not None:
        try:
            name = IPv6Address(address).compressed
        except ValueError:
            return None
    return Host(name, int(port) if port else None)


def read_origin(text: str) -> Host | None:
    """Parse an Origin header; None where it is malformed, or `null`."""
    scheme, separator, authority = text.lower().partition("://")
    host = read_host(authority)
    if not separator or host is None or not _SCHEME.fullmatch(scheme):
        return None
    return Host(host.name, _DEFAULT_PORTS.get(scheme) if host.port is None else host.port, scheme)


def read_patterns(kind: Literal["host", "origin"], texts: Iterable[str], source: str) -> tuple[Host, ...]:
    """Parse comma-separated patterns; `SettingsError` with the `source`, such as `env MCP_ALLOWED_HOSTS`.

    Hosts are such as `agent.example, *.lan:8001, [::1], *`, origins such as `https://app.example, http://localhost:*,
    null, *`.
    """
    is_host, patterns = kind == "host", list[Host]()
    for text in filter(None, (part.strip() for listed in texts for part in listed.split(","))):
        if (pattern := (_host_pattern if is_host else _origin_pattern)(text.lower())) is None:
            what, hint = ("not a host", HOST_EXAMPLE) if is_host else ("not an origin", ORIGIN_EXAMPLE)
            raise SettingsError(what, text, source, hint)
        patterns.append(pattern)
    return tuple(patterns)


def bound_host(address: str) -> Host | None:
    """Return the pattern of an address that a server binds; None where it binds all, or the address is malformed."""
    is_every = address in ("", "0.0.0.0") or address.strip("[]") == "::"
    return None if is_every else _host_pattern(address.lower())


def _host_pattern(text: str) -> Host | None:
    name = text.removesuffix(":*")
    if name == "*":
        return Host("*", ANY_PORT)
    try:
        return Host(IPv6Address(name).compressed, ANY_PORT)  # an address without brackets has no port
    except ValueError:
        host = read_host(name.removeprefix("*."))
    if host is None or (name != text and host.port is not None):
        return None
    return Host(f"*.{host.name}" if name.startswith("*.") else host.name, ANY_PORT if host.port is None else host.port)


def _origin_pattern(text: str) -> Host | None:
    if text in ("*", "null"):
        return Host("*", ANY_PORT, text)
    scheme, separator, authority = text.removesuffix("/").partition("://")
    pattern = _host_pattern(authority)
    if not separator or pattern is None or not _SCHEME.fullmatch(scheme):
        return None
    is_default = pattern.port == ANY_PORT and not authority.endswith(":*")
    return Host(pattern.name, _DEFAULT_PORTS.get(scheme, ANY_PORT) if is_default else pattern.port, scheme)


def shown_address(address: str) -> str:
    """Return an address without its user and password; `[hidden]` where it can't be parsed for certain."""
    match = _ADDRESS.fullmatch(address)
    return f"{match[1] or ''}{'…@' if match[2] else ''}{match[3]}" if match else "[hidden]"
