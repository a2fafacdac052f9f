"""What a line says: cut to a length, and without what looks like a secret in what callers wrote."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any
from unicodedata import normalize

LONGEST = 500
"""Characters of a text that are recorded; of all arguments of a call it is eight times as many."""
_LEFT_OUT = "…"
"""Stands for what was too long, or looked like a secret."""
_WORD_ENDS = re.compile(r"_|(?<=[a-z0-9])(?=[A-Z])")


def cut(value: Any, room: list[int]) -> Any:
    """Return a copy of arguments that nobody changes meanwhile, cut where the characters of room are used up."""
    room[0] -= len(value) if isinstance(value, str) else 16
    if room[0] < 0:
        return _LEFT_OUT
    if isinstance(value, Mapping):
        return {str(key)[:LONGEST]: cut(part, room) for key, part in value.items() if room[0] >= 0}
    return [cut(part, room) for part in value if room[0] >= 0] if isinstance(value, list) else value


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
    event: str, said: Mapping[str, Any], own: Mapping[str, str], without_secrets: Callable[[str], str]
) -> Mapping[str, Any]:
    """Return what a line says of an event; what is empty is left out.

    Args:
        event: what happened.
        said: of it; `path`, `reason`, `arguments`, and an unknown `tool`, as callers may have written them.
        own: what is said besides, and written as it stands.
        without_secrets: returns a text without what looks like one.
    """
    fields = {"event": event, **said, "trace": f"{said['trace']:032x}" if said.get("trace") else None}
    may_be_no_tool = said.get("verdict") in ("unknown", "refused")
    for name in ("path", "reason", "arguments", *(["tool"] if may_be_no_tool else [])):
        if name in fields:
            fields[name] = _redacted(fields[name], "", without_secrets)
    return {name: value for name, value in {**fields, **own}.items() if value not in ("", None)}


def _redacted(value: Any, name: str, without_secrets: Callable[[str], str]) -> Any:
    """Return a value without what looks like a secret, by itself or by its name; what was left out shows."""
    if name and not without_secrets(f"{_WORD_ENDS.sub('-', name)}=x"):
        return _LEFT_OUT
    if isinstance(value, Mapping):
        return {
            _redacted(key, "", without_secrets): _redacted(part, key, without_secrets) for key, part in value.items()
        }
    if isinstance(value, list):
        return [_redacted(part, name, without_secrets) for part in value]
    if isinstance(value, bool) or value is None:
        return value
    kept = without_secrets(text := str(value))
    return value if kept == " ".join(normalize("NFKC", text).split()) else f"{kept} {_LEFT_OUT}".strip()
