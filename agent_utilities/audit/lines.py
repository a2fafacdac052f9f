"""What a line says: cut to a length, and without what looks like a secret in what callers wrote."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from unicodedata import normalize

LONGEST = 500
"""Characters of a text that are recorded; of all arguments of a call it is eight times as many."""
_LEFT_OUT = "…"
"""Stands for what was too long, or looked like a secret."""
_WRITTEN_BY_CALLERS = ("path", "reason", "arguments")
_NAMED_BY_CALLERS = ("unknown", "refused")
"""Verdicts on what may be no tool's name."""
_WORD_ENDS = re.compile(r"_|(?<=[a-z0-9])(?=[A-Z])")


def cut(value: Any, room: list[int]) -> Any:
    """Return a copy of arguments that nobody changes meanwhile, cut where the characters of room are used up."""
    room[0] -= len(value) if isinstance(value, str) else 16
    if room[0] < 0:
        return _LEFT_OUT
    if isinstance(value, Mapping):
        return {str(key)[:LONGEST]: cut(part, room) for key, part in value.items() if room[0] >= 0}
    return [cut(part, room) for part in value if room[0] >= 0] if isinstance(value, list) else value


def outcome_of(result: Any, problem: str) -> tuple[dict[str, Any], str]:
    """Return how a call ended, with the bytes of the texts and of the data in its result, and a text that says why.

    Args:
        result: as in the protocol, or a model of it; None where there is none.
        problem: what was raised in place of one; blank where nothing was.
    """
    given = result if isinstance(result, dict) else result.model_dump(by_alias=True) if result is not None else {}
    parts = [{**part, **(part.get("resource") or {})} for part in given.get("content") or ()]
    texts = [part[key] for part in parts for key in ("text", "data", "blob") if isinstance(part.get(key), str)]
    n_bytes = sum(len(text) if text.isascii() else len(text.encode(errors="replace")) for text in texts)
    outcome = "error" if problem or given.get("isError") is True else "ok"
    return {"outcome": outcome, "bytes": n_bytes}, (problem or "".join(texts[:1]))[:LONGEST]


def line(event: str, said: Mapping[str, Any], without_secrets: Callable[[str], str]) -> Mapping[str, Any]:
    """Return what a line says of an event; what is empty is left out.

    Args:
        event: what happened.
        said: of it; `path`, `reason`, `arguments`, and an unknown `tool`, as callers may have written them.
        without_secrets: returns a text without what looks like one.
    """
    fields = {"event": event, **said, "trace": f"{said['trace']:032x}" if said.get("trace") else None}
    for name in (*_WRITTEN_BY_CALLERS, *(["tool"] if said.get("verdict") in _NAMED_BY_CALLERS else [])):
        if name in fields:
            fields[name] = _redacted(fields[name], "", without_secrets)
    return {name: value for name, value in fields.items() if value not in ("", None)}


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
