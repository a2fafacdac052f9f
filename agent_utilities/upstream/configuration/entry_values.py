"""Values of a server's entry, each read as its kind: what it comes to, or what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from agent_utilities.upstream.config import ToolOverride
from agent_utilities.upstream.configuration.config_keys import Kind, fold
from agent_utilities.upstream.configuration.entry_credentials import (
    read_auth,
    read_bearer_variable,
    read_header_names,
    read_headers,
    read_meta_keys,
    read_oauth,
)
from agent_utilities.upstream.configuration.entry_reading import Reading, Unusable, is_encodable
from agent_utilities.upstream.configuration.shown import described, shown
from agent_utilities.upstream.configuration.variables import references

_LONGEST_S = 7 * 24 * 3600
_FEWEST_BYTES, _MOST_BYTES = 2**16, 2**30
_TRANSPORTS = {"stdio": "stdio", "local": "stdio", "sse": "sse"} | dict.fromkeys(
    ("http", "streamablehttp", "remote", "httpstream", "streamable"), "http"
)


def read_value(value: object, reading: Reading) -> Any:
    """Return what a value comes to.

    Raises:
        Unusable: it is no value of its kind.
        VariableError: a variable in it can't be filled in.
    """
    return _READERS[reading.key.kind](value, reading)


def _text(value: object, reading: Reading) -> str:
    if not isinstance(value, str):
        raise reading.wrong(value, "a text")
    return value


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
        for word in reading.items(value, expected)
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
    if not isinstance(value, bool):
        raise reading.wrong(value, "true or false")
    return value


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
    return {name: _override(name, told, reading, expected) for name, told in reading.objects(value, expected).items()}


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
    "text": _text,
    "path": _path,
    "command": _command,
    "url": _url,
    "texts": _texts,
    "names": lambda value, reading: reading.names(value),
    "headers": read_headers,
    "variables": _variables,
    "variables' names": _variables_names,
    "switch": _switch,
    "off switch": lambda value, reading: not _switch(value, reading),
    "seconds": _seconds,
    "milliseconds": lambda value, reading: _seconds(value, reading, 0.001),
    "bytes": _bytes,
    "time": _time,
    "transport": _transport,
    "auth": read_auth,
    "oauth": read_oauth,
    "bearer variable": read_bearer_variable,
    "tools": _tools,
    "header names": read_header_names,
    "meta keys": read_meta_keys,
}
