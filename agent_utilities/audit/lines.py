"""What a line says: cut to a length, and without what looks like a secret in what callers wrote."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from itertools import takewhile
from math import isfinite
from typing import Any
from unicodedata import normalize

LONGEST = 500
"""Characters of a text that are written, at most."""
ENOUGH = 2 * LONGEST + 1
"""Characters of a text that are kept until it is written: one more than are read, which shows that it was cut."""
_ARGUMENTS = 8 * LONGEST
"""Characters of a call's arguments, as JSON has them."""
_DEEPEST = 50
"""Lists and mappings in one another."""
_FEWEST_DIGITS = 9
"""Of a number that may be somebody's."""
_LEFT_OUT = "…"
"""Stands for what was too long, or looked like a secret."""
_WORD_ENDS = re.compile(r"_|(?<=[a-z0-9])(?=[A-Z])")

WithoutSecrets = Callable[[str, int], str]
"""Returns a text without what looks like a secret, of so many characters of it."""


def cut(value: Any, room: list[int] | None = None, deepest: int = _DEEPEST) -> Any:
    """Return a copy of arguments that nobody changes meanwhile, as much as has room: each text whole or not at all.

    What is left out is not looked at: the event loop does this, whatever callers send. So are NaN and numbers of
    hundreds of digits, which not every reader of JSON takes.
    """
    room = [_ARGUMENTS] if room is None else room
    if isinstance(value, Mapping | list) and deepest and room[0] > 3:
        room[0] -= 3
        if isinstance(value, list):
            return [cut(part, room, deepest - 1) for part in takewhile(lambda _: room[0] >= 0, value)]
        left = takewhile(lambda _: room[0] >= 0, value.items())
        return {cut(str(key), room): cut(part, room, deepest - 1) for key, part in left}
    is_short = isinstance(value, str) and len(value) <= room[0]
    is_number = (isinstance(value, int) and value.bit_length() <= 64) or (isinstance(value, float) and isfinite(value))
    if not (is_short or is_number or value is None):
        room[0] -= len(value) if isinstance(value, str) else 9
        return _LEFT_OUT
    # A text is written as it is, or without its secrets in another form, in which one letter may be eighteen.
    forms = {value, normalize("NFKC", value)} if is_short and not value.isascii() else {value}
    room[0] -= max(len(json.dumps(form)) for form in forms) + 1
    return value if room[0] >= 0 else _LEFT_OUT


async def n_bytes_of(result: Any) -> int:
    """Return the bytes of all names and values in a result, as the record tells and quotas count them.

    The event loop has its turn after every few thousand: in a thread they would hold the interpreter up as long.
    """
    n_bytes, n_parts, parts = 0, 0, [result]
    while parts:
        part = parts.pop()
        if isinstance(part, str):
            n_bytes += len(part) if part.isascii() else len(part.encode(errors="replace"))
        elif isinstance(part, dict):
            parts += part
            parts += part.values()
        elif isinstance(part, list):
            parts += part
        else:
            n_bytes += len(str(part))
        n_parts += 1
        if n_parts % 4096 == 0:
            await asyncio.sleep(0)
    return n_bytes


def line(
    event: str, said: Mapping[str, Any], own: Mapping[str, str], without_secrets: WithoutSecrets
) -> dict[str, Any]:
    """Return what a line says of an event, without what callers may have written that looks like a secret.

    Args:
        event: its name.
        said: what is known of it; of a trace its id as a number.
        own: texts of this server's own, which are written as they are.
        without_secrets: returns a text without what looks like one.
    """
    fields = {"event": event, **said, "trace": f"{said['trace']:032x}" if said.get("trace") else None}
    verdict = said.get("verdict")
    for name in ("path", "reason", "arguments", *(["tool"] if verdict != "permitted" else [])):
        if name in fields:
            fields[name] = _redacted(fields[name], without_secrets)
    if verdict == "denied":  # a tool's own name, which is read as unknown ones are: its caller may wait (law L1)
        fields["tool"] = said["tool"]
    return {name: value for name, value in {**fields, **own}.items() if value not in ("", None)}


def _redacted(value: Any, without_secrets: WithoutSecrets) -> Any:
    """Return a value without what looks like a secret, by itself or by its name; what was left out shows."""
    if isinstance(value, Mapping):
        return {
            _redacted(name, without_secrets): _redacted(part, without_secrets)
            if without_secrets(f"{_WORD_ENDS.sub('-', name)}=x", LONGEST)
            else _LEFT_OUT
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [_redacted(part, without_secrets) for part in value]
    text = str(value)
    if text in ("", _LEFT_OUT) or (len(text) < _FEWEST_DIGITS and not isinstance(value, str)):
        return value
    kept = without_secrets(text, ENOUGH - 1)
    return value if kept == " ".join(normalize("NFKC", text).split()) else f"{kept} {_LEFT_OUT}".strip()
