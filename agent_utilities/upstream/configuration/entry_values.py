"""Values of a server's entry, each read as its kind: what it comes to, or what is wrong with it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from agent_utilities.upstream.config import OAuthClient, ToolOverride
from agent_utilities.upstream.configuration.config_text import described, shown
from agent_utilities.upstream.configuration.variables import Unusable, Variables, references

_K = TypeVar("_K")


def fold(key: str) -> str:
    """Return a key without what makes no difference: case, `_` and `-`."""
    return key.replace("_", "").replace("-", "").casefold()


@dataclass(frozen=True, slots=True)
class Reading:
    """What a value is read with.

    Args:
        is_in_seconds: whether `timeout` is in seconds whatever its size.
        is_secret: whether no message may show the value.
    """

    variables: Variables
    folder: Path
    is_in_seconds: bool = False
    is_secret: bool = False

    def wrong(self, value: object, expected: str) -> Unusable:
        """Return the error for a value of a wrong type; a secret's is told without the value."""
        told = described(value) if self.is_secret or isinstance(value, dict | list) else shown(repr(value))
        return Unusable(f"is {told}", f"write {expected}")

    def text(self, value: object, expected: str = "a text") -> str:
        """Return a text, with its variables filled in."""
        filled = self.variables.fill(self.a(str, value, expected))
        if "\0" in filled or not is_encodable(filled):
            raise Unusable("has a character that no program or address can take", f"write {expected} without it")
        return filled

    def own(self, name: str) -> str:
        """Return the value of a variable of the user's own."""
        return self.variables.fill(f"${{env:{name}}}")

    def a(self, kind: type[_K], value: object, expected: str) -> _K:
        """Return a value that is of a kind."""
        if not isinstance(value, kind):
            raise self.wrong(value, expected)
        return value

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


Read = Callable[[object, Reading], Any]
"""Returns what a value of a kind comes to.

Raises:
    Unusable: it is no value of the kind, or a variable in it can't be filled in.
"""


def is_encodable(text: str) -> bool:
    """Whether a text can be written as UTF-8; half a surrogate pair, which an escape can spell, can't."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def names(value: object, reading: Reading) -> tuple[str, ...]:
    """Read a list of names, each once."""
    expected = 'a list of names, such as ["read_file", "list_*"]'
    given = reading.a(list, value, expected)
    if not all(isinstance(name, str) and name.strip() and is_encodable(name) for name in given):
        raise Unusable("has what is no name", f"write {expected}")
    return tuple(dict.fromkeys(name.strip() for name in given))


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_NOT_HANDED_ON = re.compile(r"progressToken\Z|io\.modelcontextprotocol/|agent-utilities/|.*\*")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def headers(value: object, reading: Reading) -> dict[str, str]:
    """Read headers, by name."""
    values = reading.scalars(value, 'an object of texts, such as {"Authorization": "Bearer ${TOKEN}"}')
    for name, told in values.items():
        if not _HEADER_NAME.match(name):
            raise Unusable(f"{shown(name)!r} can't be a header's name", "write letters, digits and dashes")
        if _CONTROL.search(told):
            raise Unusable(f"{name} has a line break or another control character", "write it on one line")
    if len({name.lower() for name in values}) < len(values):
        raise Unusable("has a header twice, in capitals and without", "leave one out")
    return values


def env_headers(value: object, reading: Reading) -> dict[str, str]:
    """Read headers whose values are those of the user's own variables of these names."""
    return {header: reading.own(name) for header, name in headers(value, reading).items()}


def header_names(value: object, reading: Reading) -> tuple[str, ...]:
    """Read names of headers, folded."""
    given = names(value, reading)
    if bad := next((name for name in given if not _HEADER_NAME.match(name) or "*" in name), None):
        raise Unusable(f"{shown(bad)!r} can't be a header's name", "name each header in full")
    return tuple(dict.fromkeys(name.lower() for name in given))


def meta_keys(value: object, reading: Reading) -> tuple[str, ...]:
    """Return keys of `_meta`, each once; those of the protocol and of the gateway are between it and its callers."""
    keys = names(value, reading)
    if bad := next((key for key in keys if _NOT_HANDED_ON.match(key)), None):
        hint = 'name each key of your own in full, such as "example.com/user"'
        raise Unusable(f"{shown(bad)!r} is no key that can be handed on", hint)
    return keys


@dataclass(frozen=True, slots=True)
class Auth:
    """How a server is told who calls: a bearer token, or OAuth.

    Args:
        token: `oauth`, or the token; None for no credential.
        client: what OAuth is told of us; None where it finds out.
    """

    token: str | None
    client: OAuthClient | None = None


def auth(value: object, reading: Reading) -> Auth:
    """Read a token, or what an object says of OAuth."""
    expected = '"oauth", a bearer token such as "${TOKEN}", or an object with "clientId"'
    if isinstance(value, dict):
        return oauth(value, reading)
    token = reading.text(value, expected).strip()
    if not token or _CONTROL.search(token):
        raise Unusable("is no token", f"write {expected}")
    is_oauth = token.lower() == "oauth"
    return Auth("oauth" if is_oauth else re.sub(r"(?i)\Abearer\s+", "", token))


def oauth(value: object, reading: Reading) -> Auth:
    """Read whether OAuth is wanted, or what it is told of us."""
    expected = 'true, or an object such as {"clientId": "…", "scopes": ["read"]}'
    if isinstance(value, bool):
        return Auth("oauth" if value else None)
    given = {fold(name): told for name, told in reading.a(dict, value, expected).items()}
    if given.get("enabled") is False:
        return Auth(None)
    scopes, port = given.get("scopes", given.get("scope")), given.get("callbackport")
    told = {name: reading.text(given[name]) for name in ("clientid", "clientsecret") if given.get(name) is not None}
    if isinstance(scopes, str):
        scopes = scopes.split()
    if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536):
        raise Unusable("has a callbackPort that is no port", "write one of 1 to 65535")
    client = OAuthClient(
        client_id=told.get("clientid"),
        client_secret=told.get("clientsecret"),
        scopes=() if scopes is None else names(scopes, reading),
        callback_port=port,
    )
    return Auth("oauth", None if client == OAuthClient() else client)


def bearer_variable(value: object, reading: Reading) -> Auth:
    """Read the name of a variable of the user's own that has a token."""
    if not isinstance(value, str) or not value:
        raise reading.wrong(value, "the name of a variable")
    return Auth(reading.own(value))


_LONGEST_S = 7 * 24 * 3600
_FEWEST_BYTES, _MOST_BYTES = 2**16, 2**30
_TRANSPORTS = {"stdio": "stdio", "local": "stdio", "sse": "sse"} | dict.fromkeys(
    ("http", "streamablehttp", "remote", "httpstream", "streamable"), "http"
)


def text(value: object, reading: Reading) -> str:
    """Read a text that is taken to the letter."""
    return reading.a(str, value, "a text")


def path(value: object, reading: Reading) -> str:
    """Read a path, of the project's folder or the user's."""
    told = reading.text(value, "a path")
    if not told:
        raise Unusable("is empty", "write a path, or leave it out")
    if told == "~" or told.startswith(("~/", "~\\")):
        told = f"{reading.variables.home}{told[1:]}"
    return str(reading.folder / told)


def command(value: object, reading: Reading) -> tuple[str, ...]:
    """Read a program, and the arguments that come with it."""
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


def texts(value: object, reading: Reading) -> tuple[str, ...]:
    """Read a list of texts; numbers are taken as they are written."""
    return tuple(_words(value, reading, 'a list of texts, such as ["-y", "NAME"]'))


def url(value: object, reading: Reading) -> str:
    """Read an address."""
    expected = "an address, such as https://example.com/mcp"
    address = reading.text(value, expected).strip()
    if reading.variables.keeps_all and references(address):
        return address
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or not address.isprintable() or " " in address:
        raise Unusable("is no http:// or https:// address", f"write {expected}")
    return address


def variables(value: object, reading: Reading) -> dict[str, str]:
    """Read a program's variables, by name."""
    values = reading.scalars(value, 'an object of texts, such as {"NAME": "value"}')
    for name in values:
        if not name or "=" in name or "\0" in name or not is_encodable(name):
            raise Unusable(f"{shown(name)!r} can't be a variable's name", "write one without `=`")
    return values


def own_variables(value: object, reading: Reading) -> dict[str, str]:
    """Read names of variables of the user's own that are handed on where they are set."""
    return {name: reading.own(name) for name in names(value, reading) if name in reading.variables.environ}


def switch(value: object, reading: Reading) -> bool:
    """Read true or false."""
    return reading.a(bool, value, "true or false")


def off_switch(value: object, reading: Reading) -> bool:
    """Read true for false, and false for true."""
    return not switch(value, reading)


def seconds(value: object, reading: Reading, unit_s: float = 1.0) -> float:
    """Read a time in a unit, above 0 and up to a week."""
    expected = "a number above 0, such as 30" if unit_s == 1 else "a number above 0, such as 30000"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise reading.wrong(value, expected)
    if value * unit_s > _LONGEST_S:
        raise Unusable(f"is {value!r}, over a week", f"write {expected}")
    return value * unit_s


def milliseconds(value: object, reading: Reading) -> float:
    """Read a time in milliseconds."""
    return seconds(value, reading, 0.001)


def time(value: object, reading: Reading) -> float:
    """Read a time whose size tells its unit, where the file's host does not."""
    is_ms = not reading.is_in_seconds and isinstance(value, int | float) and value >= 1000
    return seconds(value, reading, 0.001 if is_ms else 1.0)


def size(value: object, reading: Reading) -> int:
    """Read a number of bytes."""
    if isinstance(value, bool) or not isinstance(value, int) or not _FEWEST_BYTES <= value <= _MOST_BYTES:
        raise reading.wrong(value, f"a whole number from {_FEWEST_BYTES} to {_MOST_BYTES}, such as 16777216")
    return value


def transport(value: object, reading: Reading) -> str:
    """Read how a server is reached."""
    kind = _TRANSPORTS.get(fold(value)) if isinstance(value, str) else None
    if kind is None:
        raise reading.wrong(value, '"stdio", "http" or "sse"')
    return kind


def tools(value: object, reading: Reading) -> tuple[str, ...] | dict[str, ToolOverride]:
    """Read which tools are permitted, or what is said of each."""
    if isinstance(value, list):
        return names(value, reading)
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
