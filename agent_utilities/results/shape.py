"""An answer over the budget, shortened: what there is and how to go on, a sketch of JSON, head and tail."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from secrets import token_urlsafe
from typing import Any

from agent_utilities.catalog.context import n_tokens
from agent_utilities.results.content import Whole, bytes_in, bytes_of

_LONGEST_WORD, _LONGEST_KEY = 200, 100
_LONGEST_PATH, _LONGEST_SAID, _LEAST = 50, 100, 200
"""Bytes of a path and an argument that are repeated in a line of ours; tokens that are kept for what is no sketch."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of a whole.

    Args:
        blocks: the texts of separate blocks; the first is a line of ours.
        shown: what of it, in words.
    """

    blocks: tuple[str, ...]
    n_tokens: int
    shown: str

    @classmethod
    def of(cls, shown: str, *blocks: str) -> Shown:
        """Return blocks with their tokens, as they count in a result."""
        return cls(blocks, n_tokens("\n".join(blocks)), shown)


# -- where a text may be cut -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Units:
    """The parts that a text is read by: items, lines or characters.

    Args:
        span: returns the first character of a part, and the one after it.
        n_before: returns how many parts end at or before a character.
    """

    name: str
    n: int
    span: Callable[[int], tuple[int, int]]
    n_before: Callable[[int], int]


def units_of(whole: Whole, name: str | None = None) -> Units:
    """Return the units of a name; where there are none, or it is None, items, lines or characters, the first it has."""
    text, items = whole.text, whole.outline and whole.outline.items
    if items and name in (None, "items"):
        return Units("items", items.n, items.span, items.n_before)
    if name == "characters":
        return characters_of(text)

    def n_before(at: int) -> int:
        return text.count("\n", 0, at) + (at >= len(text) > 0 and text[-1] != "\n")

    def span(index: int, step: int = 65_536) -> tuple[int, int]:
        at = 0
        while (n := text.count("\n", at, at + step)) < index:
            index, at = index - n, at + step
        for _ in range(index):
            at = text.index("\n", at) + 1
        return at, text.find("\n", at) + 1 or len(text)

    n_lines = n_before(len(text))
    return Units("lines", n_lines, span, n_before) if name == "lines" or n_lines > 1 else characters_of(text)


def characters_of(text: str) -> Units:
    """Return the characters of a text as its parts."""
    return Units("characters", len(text), lambda index: (index, index + 1), lambda at: at)


def head_of(text: str, start: int, limit: int, units: Units, n_bytes: int) -> int:
    """Return where a head ends that begins at a character: after a unit, a word, or at least a whole character."""
    end = start + _fitting(text[start : start + n_bytes + 1], n_bytes)
    if end >= limit:
        return limit
    n = units.n_before(end) if units.name != "characters" else 0
    if n and (after := units.span(n - 1)[1]) - start > (end - start) // 2:
        return after
    line = text.rfind("\n", start + (end - start) // 2, end)
    word = line if line >= 0 else max(text.rfind(space, max(start, end - _LONGEST_WORD), end) for space in " \t,;>")
    return max(whole_character(text, end if word < 0 else word + 1), start + 1)


def tail_of(text: str, start: int, units: Units, n_bytes: int) -> int:
    """Return where a tail begins, not before a character: with a unit, or at least a whole character."""
    first = max(start, len(text) - n_bytes)
    while (over := bytes_of(text[first:]) - n_bytes) > 0:
        first += -(-over // 4)
    n = units.n_before(first) if units.name != "characters" else units.n
    begins = next((at for i in (n, n + 1) if i < units.n and (at := units.span(i)[0]) >= first), len(text))
    if len(text) - begins > (len(text) - first) // 2:
        return begins
    return next((at for at in range(first, first + _MOST_JOINED) if whole_character(text, at) == at), first)


def _fitting(text: str, n_bytes: int) -> int:
    """Return how many of the first characters fit."""
    if bytes_of(text) <= n_bytes:
        return len(text)
    encoded = text.encode("utf-8", "surrogatepass")
    while n_bytes and encoded[n_bytes] & 0xC0 == 0x80:
        n_bytes -= 1
    return len(encoded[:n_bytes].decode("utf-8", "surrogatepass"))


_JOINED = re.compile("\u200d|.[\u200d\U0001f3fb-\U0001f3ff]|\r\n|[\ud800-\udbff][\udc00-\udfff]", re.DOTALL)
"""Two characters that are written as one; marks, such as accents, are so with any before them."""
_MOST_JOINED = 64


def whole_character(text: str, at: int) -> int:
    """Return the place at or before one that is inside no character, even one that is written of 64."""
    for place in range(at, max(0, at - _MOST_JOINED), -1):
        if place >= len(text) or not (unicodedata.category(text[place])[0] == "M" or _JOINED.match(text, place - 1)):
            return place
    return at if at > _MOST_JOINED else 0


# -- a sketch ----------------------------------------------------------------------------------------------------------

_SIZES = ((6, 60, 60), (5, 40, 40), (4, 30, 30), (4, 24, 16), (3, 20, 16), (2, 16, 12), (1, 12, 12), (1, 5, 12))
"""Depth, breadth, and characters of an example, from which the first is taken that fits."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_MOST_MERGED = 64
_MAP = 40
"""An object with more members, all of one kind, is a map: its keys are data."""


def quoted(text: str) -> str:
    """Return a text as JSON in one line, what is invisible escaped."""
    written = json.dumps(text, ensure_ascii=False)
    return written if written.isprintable() else json.dumps(text)


def key_of(key: str) -> str:
    """Return a key as JMESPath writes it; a long one is cut."""
    return key if _NAME.match(key) and len(key) <= _LONGEST_KEY else _example(key, _LONGEST_KEY)


def _example(text: str, longest: int) -> str:
    return quoted(text if len(text) <= longest else f"{text[: whole_character(text, longest)]}…")


def sketch_of(sample: Any, n_bytes: int) -> str:
    """Return what JSON is like, a line for each key as JMESPath names it; empty where nothing fits.

    Args:
        sample: of an outline.
    """
    lines = list[str]()
    for depth, breadth, example in _SIZES:
        lines = list(_Sketch(depth, breadth, example).lines("", [sample], 0))
        if sum(map(bytes_of, lines)) + len(lines) <= n_bytes:
            break
    while lines and sum(map(bytes_of, lines)) + len(lines) > n_bytes:
        lines.pop()
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Sketch:
    depth: int
    breadth: int
    example: int

    def lines(self, name: str, values: list[Any], indent: int, before: str = "", after: str = "") -> Iterator[str]:
        """Yield the lines about the values that one name has."""
        arrays = [value for value in values if isinstance(value, list)]
        if arrays and all(isinstance(value, list) or value is None for value in values):
            n = _range([getattr(value, "n", len(value)) for value in arrays])
            items = [item for value in arrays for item in value]
            items = items[:: len(items) // _MOST_MERGED + 1]
            yield from self.lines(f"{name}[]", items, indent, f"{before}{n} of ", after)
            return
        by_kind: dict[str, list[Any]] = {}
        for value in values:
            by_kind.setdefault(_kind(value), []).append(value)
        if name:
            kinds = " | ".join(self._told(kind, of_kind) for kind, of_kind in by_kind.items())
            yield f"{'  ' * indent}{name}: {before}{kinds or 'nothing'}{after}"
        if (objects := by_kind.get("object")) and indent < self.depth:
            yield from self._members(objects, indent + bool(name))

    def _members(self, objects: list[dict[str, Any]], indent: int) -> Iterator[str]:
        members: dict[str, list[Any]] = {}
        for each in objects:
            for key, value in islice(each.items(), _MOST_MERGED):
                members.setdefault(key, []).append(value)
        n = max(map(len, objects), default=0)
        known = [value for values in members.values() for value in values]
        if n > _MAP and len(set(map(_kind, known))) == 1:
            keys = ", ".join(_example(key, self.example) for key in list(members)[:2])
            yield from self.lines("*", known[:_MOST_MERGED], indent, f"{n:,} keys such as {keys}: ")
            return
        for key, values in islice(members.items(), self.breadth):
            some = f" (in {len(values)} of {len(objects)})" if len(values) < len(objects) else ""
            yield from self.lines(key_of(key), values, indent, after=some)
        if (n_more := max(n, len(members)) - self.breadth) > 0:
            yield f"{'  ' * indent}… {n_more:,} more keys"

    def _told(self, kind: str, values: list[Any]) -> str:
        """Return a kind with its lengths and examples."""
        if kind == "number":
            least, most = str(min(values))[: self.example], str(max(values))[: self.example]
            return f"number {least}" + (f" to {most}" if least != most else "")
        different = list(dict.fromkeys(values)) if kind in ("string", "boolean") else []
        if kind == "boolean":
            return " | ".join(str(value).lower() for value in different)
        if kind != "string":
            return kind
        if len(different) <= 3 and len(different) < len(values):
            return " | ".join(_example(text, self.example) for text in different)
        lengths = list(map(len, different))
        n = f" of {_range(lengths)} characters" if max(lengths) > self.example else ""
        return f"string{n} {_example(different[0], self.example)}"


def _kind(value: Any) -> str:
    kinds = ((bool, "boolean"), (int | float, "number"), (str, "string"), (dict, "object"), (list, "array"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")


def _range(numbers: list[int]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{most:,}" if least == most else f"{least:,}-{most:,}"


# -- the answer --------------------------------------------------------------------------------------------------------


def go_on(reader: str, handle: str, arguments: Mapping[str, Any], then: str = "goes on") -> str:
    """Return in words which call goes on; an argument that is too long to be repeated is left out."""
    if not handle:
        return "the rest could not be kept"
    texts = ((key, quoted(value) if isinstance(value, str) else str(value)) for key, value in arguments.items())
    said = [f"{key}={text if bytes_of(text) <= _LONGEST_SAID else '(the same)'}" for key, text in texts]
    return f"{reader}({', '.join([f'result={quoted(handle)}', *said])}) {then}"


def within(tokens: int, make: Callable[[int], Shown]) -> Shown:
    """Return what is made in as many bytes as let all of it fit a budget.

    Args:
        make: given the most bytes of content.
    """
    most = room = bytes_in(tokens)
    while (over := bytes_of("\n".join((shown := make(room)).blocks)) - most) > 0:
        if room == 1:
            return Shown.of(shown.shown, shown.blocks[0][: most // 4])
        room = max(1, room - max(over, 8))
    return shown


def shortened(
    whole: Whole,
    tokens: int,
    handle: str,
    *,
    reader: str = "read_result",
    arguments: Mapping[str, Any] | None = None,
    said: str = "",
) -> Shown:
    """Return what a budget allows to be shown of a whole.

    First a line of ours: what there is, and the call that reads on. Then a sketch, where there is JSON. Then head and
    tail, exactly as they are in the text, between lines that name the handle: it is drawn at random after the tool has
    answered, so no tool can imitate them. What stands between two of them is the tool's, whatever it says.

    Args:
        tokens: the budget, at least 200; never exceeded.
        handle: what the whole is kept under; empty where it is not.
        reader: the tool that reads on, as this caller knows it.
        arguments: those of that call, where the whole is what it selects.
        said: what else the first line says.
    """
    text, units, outline, mark = whole.text, units_of(whole), whole.outline, handle or token_urlsafe(16)
    sketch = sketch_of(outline.sample, bytes_in(max(0, tokens - _LEAST)) // 5) if outline else ""
    path = ".".join(map(key_of, outline.items.path)) if outline and outline.items else "…"
    expression, path = ("…", "") if path == "…" or bytes_of(path) > _LONGEST_PATH else (f"{path}[?…]", path)
    there_is = f"{n_tokens(text):,} tokens of {'JSON' if outline else 'text'}, {units.n:,} {units.name}"
    there_is += f" in `{path}`" if path else ""
    also = "a sketch of some of it, " if sketch else ""
    pick = f'select="{expression}" or find="…" picks' if outline else 'find="…" searches'

    def make(n_bytes: int) -> Shown:
        n_bytes = max(1, n_bytes - bytes_of(sketch))
        head = head_of(text, 0, len(text), units, n_bytes * 3 // 4)
        tail = tail_of(text, head, units, max(0, n_bytes - bytes_of(text[:head])))
        n_last = units.n - (n := units.n_before(tail)) - (n < units.n and units.span(n)[0] < tail)
        if not n_last and _is_end(units, head):
            head, tail = head_of(text, 0, len(text), units, n_bytes), len(text)
        n_first, is_even = units.n_before(head), _is_end(units, head)
        start = {"start": n_first} if is_even else {"start": head, "unit": "characters"}
        shown = f"the first {n_first:,} {units.name}" if is_even else f"the first {head:,} characters"
        if tail < len(text):
            shown += f" and the last {n_last:,}" if n_last else f" and the last {len(text) - tail:,} characters"
        further = go_on(reader, handle, {**(arguments or {}), **start}) if head < len(text) else "that is all"
        line = f"{there_is}; {also}{shown} follow between lines that name {mark}; {further}, {pick}{said}"
        body = [f"[{mark} characters 0 to {head:,}]", text[:head], f"[{mark} {tail - head:,} characters left out]"]
        body += [text[tail:], f"[{mark} ends]"] if tail < len(text) else []
        return Shown.of(shown, line, *([sketch] if sketch else []), "\n".join(body))

    return within(tokens, make)


def _is_end(units: Units, at: int) -> bool:
    return (n := units.n_before(at)) > 0 and units.span(n - 1)[1] == at
