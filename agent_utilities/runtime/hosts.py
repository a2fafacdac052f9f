"""Hosts and origins as HTTP headers name them, and the patterns that say which of them are accepted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import TypeVar

from agent_utilities.errors import SettingsError

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?)(?::([0-9]{0,5}))?", re.ASCII)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_ANY_PORT = -1
_MAX_PORT = 65535
_MAX_LENGTH = 260
_P = TypeVar("_P")

HOST_EXAMPLE = "use a host such as agent.example, agent.example:8001, *.agent.example or *"
ORIGIN_EXAMPLE = "use an origin such as https://app.example, http://localhost:*, null or *"


@dataclass(frozen=True, slots=True)
class Host:
    """A host in lower case, without a trailing dot or brackets, and its port, None where none is given."""

    name: str
    port: int | None = None

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port is None else f"{name}:{self.port}"


@dataclass(frozen=True, slots=True)
class Origin:
    """A web page's origin, its port never None where the scheme has a default one."""

    scheme: str
    host: Host

    def __str__(self) -> str:
        is_default = self.host.port == _DEFAULT_PORTS.get(self.scheme)
        return f"{self.scheme}://{Host(self.host.name) if is_default else self.host}"


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
    """Return what a Host header names, or None where it is no host: nothing is guessed from the rest of it."""
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


def read_origin(text: str) -> Origin | None:
    """Return what an Origin header names, or None where it is none, as `null` is."""
    scheme, separator, authority = text.lower().partition("://")
    host = read_host(authority)
    if not separator or host is None or not _SCHEME.fullmatch(scheme):
        return None
    return Origin(scheme, _with_port(scheme, host))


def _with_port(scheme: str, host: Host) -> Host:
    return Host(host.name, host.port if host.port is not None else _DEFAULT_PORTS.get(scheme))


@dataclass(frozen=True, slots=True)
class HostPattern:
    """Hosts that are accepted."""

    name: str
    port: int = _ANY_PORT

    def __str__(self) -> str:
        return str(Host(self.name, None if self.port == _ANY_PORT else self.port))

    def fits(self, host: Host) -> bool:
        """Whether a host is accepted; one without a port has the port of http or https."""
        is_named = self.name in ("*", host.name)
        if not is_named and not (self.name.startswith("*.") and host.name.endswith(self.name[1:])):
            return False
        ports = _DEFAULT_PORTS.values() if host.port is None else (host.port,)
        return self.port in (_ANY_PORT, *ports)


@dataclass(frozen=True, slots=True)
class OriginPattern:
    """Origins that are accepted; `scheme` is `*` for every one, and `null` for the one that browsers hide."""

    scheme: str
    host: HostPattern

    def __str__(self) -> str:
        return self.scheme if self.scheme in ("*", "null") else f"{self.scheme}://{self.host}"

    def fits(self, text: str, origin: Origin | None) -> bool:
        """Whether an Origin header is accepted, given as it came and as it was read."""
        if self.scheme in ("*", "null"):
            return self.scheme == "*" or text == "null"
        return origin is not None and origin.scheme == self.scheme and self.host.fits(origin.host)


def read_host_patterns(texts: Iterable[str], source: str) -> tuple[HostPattern, ...]:
    """Return the patterns in texts, each with commas between them; blank ones are passed over.

    Args:
        texts: such as `agent.example, *.lan:8001, [::1], *`.
        source: where they came from, such as `env MCP_ALLOWED_HOSTS`.

    Raises:
        SettingsError: one can't be read.
    """
    return tuple(_each(texts, _host_pattern, "not a host", source, HOST_EXAMPLE))


def read_origin_patterns(texts: Iterable[str], source: str) -> tuple[OriginPattern, ...]:
    """Return the patterns in texts such as `https://app.example, http://localhost:*, null, *`; see above.

    Raises:
        SettingsError: one can't be read.
    """
    return tuple(_each(texts, _origin_pattern, "not an origin", source, ORIGIN_EXAMPLE))


def bound_host(address: str) -> HostPattern | None:
    """Return the pattern of an address that a server binds, or None where it is every address, or no host's name."""
    is_every = address in ("", "0.0.0.0") or address.strip("[]") == "::"
    return None if is_every else _host_pattern(address.lower())


def _each(texts: Iterable[str], read: Callable[[str], _P | None], what: str, source: str, hint: str) -> Iterator[_P]:
    for text in (part.strip() for given in texts for part in given.split(",")):
        if text:
            pattern = read(text.lower())
            if pattern is None:
                raise SettingsError(what, text, source, hint)
            yield pattern


def _host_pattern(text: str) -> HostPattern | None:
    any_port = text.endswith(":*")
    text = text.removesuffix(":*")
    if text == "*":
        return HostPattern("*")
    try:
        return HostPattern(IPv6Address(text).compressed)  # an address without brackets has no port
    except ValueError:
        host = read_host(text.removeprefix("*."))
    if host is None or (any_port and host.port is not None):
        return None
    name = f"*.{host.name}" if text.startswith("*.") else host.name
    return HostPattern(name, _ANY_PORT if host.port is None else host.port)


def _origin_pattern(text: str) -> OriginPattern | None:
    if text in ("*", "null"):
        return OriginPattern(text, HostPattern("*"))
    scheme, separator, authority = text.removesuffix("/").partition("://")
    pattern = _host_pattern(authority)
    if not separator or pattern is None or not _SCHEME.fullmatch(scheme):
        return None
    if pattern.port == _ANY_PORT and not authority.endswith(":*"):
        pattern = HostPattern(pattern.name, _DEFAULT_PORTS.get(scheme, _ANY_PORT))
    return OriginPattern(scheme, pattern)
