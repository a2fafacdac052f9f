"""Values of a server's entry, each read as its kind: what it comes to, or what is wrong with it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from agent_utilities.upstream.config import OAuthClient, ToolOverride
from agent_utilities.upstream.configuration.config_keys import Key, Kind, fold
from agent_utilities.upstream.configuration.config_text import described, shown
from agent_utilities.upstream.configuration.variables import Unusable, Variables, references

_K = TypeVar("_K")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a value is read with.

    Args:
        is_in_seconds: whether `timeout` is in seconds whatever its size.
    """

    key: Key
    variables: Variables
    folder: Path
    is_in_seconds: bool

    def wrong(self, value: object, expected: str) -> Unusable:
        """Return the error for a value of a wrong type; a secret's is told without the value."""
        told = described(value) if self.key.is_secret or isinstance(value, dict | list) else shown(repr(value))
        return Unusable(f"is {told}", f"write {expected}")

    def text(self, value: object, expected: str = "a text") -> str:
        """Return a text, with its variables filled in."""
        filled = self.variables.fill(self.a(str, value, expected))
        if "\0" in filled or not is_encodable(filled):
            raise Unusable("has a character that no program or address can take", f"write {expected} without it")
        return filled

    def a(self, kind: type[_K], value: object, expected: str) -> _K:
        """Return a value that is of a kind."""
        if not isinstance(value, kind):
            raise self.wrong(value, expected)
        return value

    def names(self, value: object) -> tuple[str, ...]:
        """Return a list of names, each once."""
        expected = 'a list of names, such as ["read_file", "list_*"]'
        names = self.a(list, value, expected)
        if not all(isinstance(name, str) and name.strip() and is_encodable(name) for name in names):
            raise Unusable("has what is no name", f"write {expected}")
        return tuple(dict.fromkeys(name.strip() for name in names))

    def scalars(self, value: object, expected: str) -> dict[str, str]:
        """Return an object's values as texts; those that are null are left out."""
        values = {}
        for name, given in self.a(dict, value, expected).items():
            if given is None:
                continue
            if isinstance(given, bool):
                values[name] = "true" if given else "false"
            elif isinstance(given, int | float):
                values[name] = str(given)
            elif isinstance(given, str):
                values[name] = self.text(given)
            else:
                raise Unusable(f"has {described(given)} under {shown(name)!r}", f"write {expected}")
        return values


def is_encodable(text: str) -> bool:
    """Whether a text can be written as UTF-8; half a surrogate pair, which an escape can spell, can't."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_NOT_HANDED_ON = re.compile(r"progressToken\Z|io\.modelcontextprotocol/|agent-utilities/|.*\*")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def _headers(value: object, reading: Reading) -> dict[str, str]:
    values = reading.scalars(value, 'an object of texts, such as {"Authorization": "Bearer ${TOKEN}"}')
    for name, text in values.items():
        if not _HEADER_NAME.match(name):
            raise Unusable(f"{shown(name)!r} can't be a header's name", "write letters, digits and dashes")
        if _CONTROL.search(text):
            raise Unusable(f"{name} has a line break or another control character", "write it on one line")
    if len({name.lower() for name in values}) < len(values):
        raise Unusable("has a header twice, in capitals and without", "leave one out")
    return values


def _header_names(value: object, reading: Reading) -> tuple[str, ...]:
    names = reading.names(value)
    if bad := next((name for name in names if not _HEADER_NAME.match(name) or "*" in name), None):
        raise Unusable(f"{shown(bad)!r} can't be a header's name", "name each header in full")
    return tuple(dict.fromkeys(name.lower() for name in names))


def _meta_keys(value: object, reading: Reading) -> tuple[str, ...]:
    """Return keys of `_meta`, each once; those of the protocol and of the gateway are between it and its callers."""
    keys = reading.names(value)
    if bad := next((key for key in keys if _NOT_HANDED_ON.match(key)), None):
        hint = 'name each key of your own in full, such as "example.com/user"'
        raise Unusable(f"{shown(bad)!r} is no key that can be handed on", hint)
    return tuple(dict.fromkeys(keys))


@dataclass(frozen=True, slots=True)
class Auth:
    """How a server is told who calls: a bearer token, or OAuth.

    Args:
        token: `oauth`, or the token; None for no credential.
        client: what OAuth is told of us; None where it finds out.
    """

    token: str | None
    client: OAuthClient | None = None


def _auth(value: object, reading: Reading) -> Auth:
    expected = '"oauth", a bearer token such as "${TOKEN}", or an object with "clientId"'
    if isinstance(value, dict):
        return _oauth(value, reading)
    token = reading.text(value, expected).strip()
    if not token or _CONTROL.search(token):
        raise Unusable("is no token", f"write {expected}")
    is_oauth = token.lower() == "oauth"
    return Auth("oauth" if is_oauth else re.sub(r"(?i)\Abearer\s+", "", token))


def _oauth(value: object, reading: Reading) -> Auth:
    expected = 'true, or an object such as {"clientId": "…", "scopes": ["read"]}'
    if isinstance(value, bool):
        return Auth("oauth" if value else None)
    given = {fold(name): told for name, told in reading.a(dict, value, expected).items()}
    if given.get("enabled") is False:
        return Auth(None)
    scopes, port = given.get("scopes", given.get("scope")), given.get("callbackport")
    texts = {name: reading.text(given[name]) for name in ("clientid", "clientsecret") if given.get(name) is not None}
    if isinstance(scopes, str):
        scopes = scopes.split()
    if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536):
        raise Unusable("has a callbackPort that is no port", "write one of 1 to 65535")
    client = OAuthClient(
        client_id=texts.get("clientid"),
        client_secret=texts.get("clientsecret"),
        scopes=() if scopes is None else reading.names(scopes),
        callback_port=port,
    )
    return Auth("oauth", None if client == OAuthClient() else client)


def _bearer_variable(value: object, reading: Reading) -> Auth:
    if not isinstance(value, str) or not value:
        raise reading.wrong(value, "the name of a variable")
    return Auth(reading.variables.fill(f"${{env:{value}}}"))


_LONGEST_S = 7 * 24 * 3600
_FEWEST_BYTES, _MOST_BYTES = 2**16, 2**30
_TRANSPORTS = {"stdio": "stdio", "local": "stdio", "sse": "sse"} | dict.fromkeys(
    ("http", "streamablehttp", "remote", "httpstream", "streamable"), "http"
)


def read_value(value: object, reading: Reading) -> Any:
    """Return what a value comes to.

    Raises:
        Unusable: it is no value of its kind, or a variable in it can't be filled in.
    """
    return _READERS[reading.key.kind](value, reading)


def _path(value: object, reading: Reading) -> str:
    text = reading.text(value, "a path")
    if not text:
        raise Unusable("is empty", "write a path, or leave it out")
    if text == "~" or text.startswith(("~/", "~\\")):
        text = f"{reading.variables.home}{text[1:]}"
    return str(reading.folder / text)


def _command(value: object, reading: Reading) -> tuple[str, ...]:
    expected = 'a program, such as "npx", with its arguments under `args`'
    words = tuple(_words(value, reading, expected)) if isinstance(value, list) else (reading.text(value, expected),)
    if not words or not words[0].strip():
        raise Unusable("is empty", f"write {expected}")
    home = str(reading.variables.home)
    return (home + words[0][1:] if words[0].startswith("~/") else words[0], *words[1:])


def _words(value: object, reading: Reading, expected: str) -> list[str]:
    return [
        str(word) if isinstance(word, int) and not isinstance(word, bool) else reading.text(word, expected)
        for word in reading.a(list, value, expected)
    ]


def _texts(value: object, reading: Reading) -> tuple[str, ...]:
    return tuple(_words(value, reading, 'a list of texts, such as ["-y", "NAME"]'))


def _url(value: object, reading: Reading) -> str:
    expected = "an address, such as https://example.com/mcp"
    url = reading.text(value, expected).strip()
    if reading.variables.keeps_all and references(url):
        return url
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or not url.isprintable() or " " in url:
        raise Unusable("is no http:// or https:// address", f"write {expected}")
    return url


def _variables(value: object, reading: Reading) -> dict[str, str]:
    values = reading.scalars(value, 'an object of texts, such as {"NAME": "value"}')
    if bad := next(
        (name for name in values if not name or "=" in name or "\0" in name or not is_encodable(name)), None
    ):
        raise Unusable(f"{shown(bad)!r} can't be a variable's name", "write one without `=`")
    if "" in values:
        raise Unusable("has a variable without a name", "name it")
    return values


def _variables_names(value: object, reading: Reading) -> dict[str, str]:
    variables = reading.variables
    return {name: variables.fill(f"${{env:{name}}}") for name in reading.names(value) if name in variables.environ}


def _switch(value: object, reading: Reading) -> bool:
    return reading.a(bool, value, "true or false")


def _seconds(value: object, reading: Reading, unit_s: float = 1.0) -> float:
    expected = "a number above 0, such as 30" if unit_s == 1 else "a number above 0, such as 30000"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise reading.wrong(value, expected)
    if value * unit_s > _LONGEST_S:
        raise Unusable(f"is {value!r}, over a week", f"write {expected}")
    return value * unit_s


def _time(value: object, reading: Reading) -> float:
    is_ms = not reading.is_in_seconds and isinstance(value, int | float) and value >= 1000
    return _seconds(value, reading, 0.001 if is_ms else 1.0)


def _bytes(value: object, reading: Reading) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not _FEWEST_BYTES <= value <= _MOST_BYTES:
        raise reading.wrong(value, f"a whole number from {_FEWEST_BYTES} to {_MOST_BYTES}, such as 16777216")
    return value


def _transport(value: object, reading: Reading) -> str:
    transport = _TRANSPORTS.get(fold(value)) if isinstance(value, str) else None
    if transport is None:
        raise reading.wrong(value, '"stdio", "http" or "sse"')
    return transport


def _tools(value: object, reading: Reading) -> tuple[str, ...] | dict[str, ToolOverride]:
    if isinstance(value, list):
        return reading.names(value)
    expected = 'an object by tool, such as {"read": {"description": "…", "enabled": true}}'
    return {name: _override(name, told, reading, expected) for name, told in reading.a(dict, value, expected).items()}


def _override(name: str, value: object, reading: Reading, expected: str) -> ToolOverride:
    if not isinstance(value, dict):
        raise Unusable(f"{shown(name)!r} is {described(value)}", f"write {expected}")
    told: dict[str, Any] = {key: value[key] for key in ("description", "title", "tags", "enabled") if key in value}
    for key, given in told.items():
        is_right = isinstance(given, {"tags": list, "enabled": bool}.get(key, str))
        if not is_right or (isinstance(given, list) and not all(isinstance(tag, str) for tag in given)):
            raise Unusable(f"{shown(name)!r} has {described(given)} under {key!r}", f"write {expected}")
    return ToolOverride(**{**told, "tags": tuple(told.get("tags", ()))})


_READERS: Mapping[Kind, Callable[[object, Reading], Any]] = {
    "text": lambda value, reading: reading.a(str, value, "a text"),
    "path": _path,
    "command": _command,
    "url": _url,
    "texts": _texts,
    "names": lambda value, reading: reading.names(value),
    "headers": _headers,
    "variables": _variables,
    "variables' names": _variables_names,
    "switch": _switch,
    "off switch": lambda value, reading: not _switch(value, reading),
    "seconds": _seconds,
    "milliseconds": lambda value, reading: _seconds(value, reading, 0.001),
    "bytes": _bytes,
    "time": _time,
    "transport": _transport,
    "auth": _auth,
    "oauth": _oauth,
    "bearer variable": _bearer_variable,
    "tools": _tools,
    "header names": _header_names,
    "meta keys": _meta_keys,
}
