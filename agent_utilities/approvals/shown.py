"""What a person reads of a call before they answer: every argument, bounded, without secrets, nothing unseen."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from agent_utilities.access.record.chain import line
from agent_utilities.runtime.shown import shown
from agent_utilities.usage.redaction import without_secrets

_PIECE = 400
"""Characters that are searched for secrets at a time: what is longer would be shortened by the search itself."""
_LEFT_OUT = "[… more, left out …]"
_N_ARGUMENTS = 60
"""Arguments of one call that have a line."""
_DEEPEST = 20
_SECRET = "[left out: it looks like a secret]"


def canonical(arguments: Mapping[str, Any]) -> bytes:
    """Return arguments as text that is the same for the same arguments, whatever the order of their keys."""
    return json.dumps(arguments, sort_keys=True, separators=(",", ":")).encode()


def described(arguments: Mapping[str, Any], most: int) -> str:
    """Return a line for each argument, within about so many characters.

    Short values are shown whole however long another one is; of a long one the beginning and the end are, with how much
    is left out between them. So no padding pushes a short argument out of sight.
    """
    every = list(arguments.items())
    n_left = max(0, len(every) - _N_ARGUMENTS)
    kept = every[: _N_ARGUMENTS * 2 // 3] + every[-_N_ARGUMENTS // 3 :] if n_left else every
    each = max(200, 3 * most // max(1, len(kept)))
    lines = [f"{_cut(shown(str(name), None), 80)}: {_text(_redacted(name, value, [each]))}" for name, value in kept]
    if n_left:
        lines.insert(_N_ARGUMENTS * 2 // 3, f"[… {n_left:,} arguments left out …]")
    return fitted("\n".join(lines), most) or "no arguments"


def fitted(text: str, most: int) -> str:
    """Return a text within about so many characters, cut in the middle of its long lines alone."""
    lines = text.split("\n")
    room = _share([len(each) for each in lines], most)
    return "\n".join(_cut(each, room) for each in lines)


def _share(sizes: list[int], most: int) -> int:
    """Return the most that each may have so that all fit: what short ones leave over, long ones have."""
    left = most
    for n_more, size in zip(range(len(sizes), 0, -1), sorted(sizes), strict=True):
        if size * n_more > left:
            return max(40, left // n_more)
        left -= size
    return most


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    head, tail = most * 2 // 3, most - most * 2 // 3
    return f"{text[:head]} [… {len(text) - most:,} characters left out …] {text[-tail:]}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else shown(json.dumps(value, ensure_ascii=False), None)


def _redacted(name: object, value: Any, room: list[int], deepest: int = _DEEPEST) -> Any:
    """Return a value without what looks like a secret, by itself or by its name, as the record of calls has it.

    Args:
        room: how many characters are looked at; what goes beyond is left out, since the search takes its time.
    """
    if room[0] <= 0 or not deepest:
        return _LEFT_OUT
    room[0] -= 8
    named = {shown(str(name)[:80], None): "x"}
    if line("", {"arguments": named}, {}, without_secrets)["arguments"] != named:
        return _SECRET
    if isinstance(value, Mapping):
        parts = takewhile(lambda _: room[0] > -8, value.items())
        return {shown(str(key)[:80], None): _redacted(key, each, room, deepest - 1) for key, each in parts}
    if isinstance(value, list):
        return [_redacted("", each, room, deepest - 1) for each in takewhile(lambda _: room[0] > -8, value)]
    if isinstance(value, bool) or value is None:
        return value
    text = shown(_cut(value if isinstance(value, str) else str(value), room[0]), None)
    room[0] -= len(text)
    safe = "".join(map(_without_secrets, _pieces(text)))
    return safe if isinstance(value, str) or safe != text else value


def _pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces that end with a word, where words are not longer than a piece."""
    while len(text) > _PIECE:
        at = text.rfind(" ", 0, _PIECE) + 1 or (text.find(" ", _PIECE) + 1 or len(text))
        yield text[:at]
        text = text[at:]
    yield text


def _without_secrets(piece: str) -> str:
    redacted = line("", {"arguments": {"text": piece}}, {}, without_secrets)["arguments"]["text"]
    return piece if redacted == piece else f"{str(redacted).removesuffix('…').strip()} {_SECRET} ".lstrip()
