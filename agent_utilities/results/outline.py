"""What JSON is like, and where the items of its longest array are in its text.

It is scanned item by item, never in one call: a thread in C code holds the event loop until it returns.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, takewhile
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

NO_VALUE: Any = object()
"""The value of what is text alone."""
_DEEPEST, _MOST_WALKED = 6, 4_096
"""Keys above the array whose items are told apart, and members of objects that are looked into for it."""
_MARK_EVERY = 2_048
"""Characters between two items whose place is remembered."""
_MOST_KEPT = 64
"""Items or members of a sample."""
_SPACE = re.compile(r"[ \t\n\r]*")
_LINE_OF_JSON = re.compile(r"\n[ \t]*(?=[{\[])")
_END = re.compile(r"[ \t\n\r]*(?:```[ \t\n\r]*)?\Z")
_PLAIN = re.compile(r'[^"\[\]{}]{2,2048},')
"""Numbers, true, false and null."""
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Items:
    """Where the items of an array are in its text.

    Args:
        path: the keys that lead to the array.
        marks: some items, the first too: the index, and the first character.
        n_characters: how many they take.
    """

    text: str
    path: tuple[str, ...]
    n: int
    marks: list[tuple[int, int]]
    n_characters: int

    def span(self, index: int) -> tuple[int, int]:
        """Return the first character of an item, and the one after it."""
        first, at = self.marks[bisect_right(self.marks, index, key=lambda mark: mark[0]) - 1]
        return next(islice(self._spans(at), index - first, None))

    def n_before(self, offset: int) -> int:
        """Return how many items end at or before a character."""
        first, at = self.marks[max(0, bisect_right(self.marks, offset, key=lambda mark: mark[1]) - 1)]
        return first + sum(1 for _ in takewhile(lambda span: span[1] <= offset, self._spans(at)))

    def _spans(self, at: int) -> Iterator[tuple[int, int]]:
        return ((first, end) for _, first, _, end in _each(self.text, at, "]", lambda _, at: _scan(self.text, at)))


class Some(list[Any]):
    """Some items of an array of `n`."""

    n = 0


@dataclass(frozen=True)
class Outline:
    """What JSON is like.

    Args:
        start: its first character.
        sample: its value, with `Some` items of arrays; of objects with many members only the first have values.
        items: the array that has a quarter of it or more, the largest; None where there is none.
        is_like: whether it is equal to the value that it was compared with.
    """

    start: int
    sample: Any
    items: Items | None
    is_like: bool = False


def outline_of(text: str, start: int, like: Any = NO_VALUE) -> Outline | None:
    """Return what a JSON object or array is like; None where none begins at that character, or more follows.

    Args:
        like: a value with which it is compared meanwhile.
    """
    walk = _Walk(text, like=like)
    try:
        sample = walk.document(start)
    except (
        ValueError,
        IndexError,
        RuntimeError,
        StopIteration,
    ):  # the scanner raises the last two, in a generator and alone
        return None
    is_large = walk.largest is not None and len(text) - start <= walk.largest.n_characters * 4
    return Outline(start, sample, walk.largest if is_large else None, walk.is_like)


def value_of(text: str, start: int) -> Any:
    """Return all of the JSON that begins at a character, which has an outline."""
    return _Walk(text, is_whole=True).document(start)


def starts_of(text: str) -> Iterator[int]:
    """Yield where JSON may begin: at once, or in a line of its own after a few words."""
    start = _skipped(text, int(text.startswith("\ufeff")))
    if text[start : start + 1] in ("{", "["):
        yield start
    elif (line := _LINE_OF_JSON.search(text, 0, 2_000)) is not None:
        yield line.end()


def first_key(text: str, start: int) -> str:
    """Return the first key of an object that begins at a character; empty where there is none."""
    with suppress(ValueError, IndexError):
        return _key(text, _skipped(text, start + 1))[0] if text[start] == "{" else ""
    return ""


def _skipped(text: str, at: int) -> int:
    if text[at : at + 1] in (" ", "\n", "\t", "\r") and (space := _SPACE.match(text, at)) is not None:
        return space.end()
    return at


def _each(
    text: str, at: int, closing: str, read: Callable[[str, int], tuple[Any, int]], *, is_fast: bool = False
) -> Iterator[tuple[str, int, list[Any], int]]:
    """Yield the key, first character, value and end of each member of an object, or item of an array.

    Args:
        at: where a member begins, or white space before it.
        read: parses a value, given its key and first character.
        is_fast: yield items by the hundred: their values, the first character of the first, and the end of the last.
    """
    at, key = _skipped(text, at), ""
    while text[at] != closing:
        if is_fast and (run := _PLAIN.match(text, at)) is not None:
            end = run.end() - 1
            yield key, at, json.loads(f"[{text[at:end]}]"), end
        elif is_fast:
            value, end = _scan(text, at)
            values = [value]
            while text[end] == "," and end - at < _MARK_EVERY and text[end + 1] not in "]\n\t\r":
                value, end = _scan(text, end + 1 + (text[end + 1] == " "))
                values.append(value)
            yield key, at, values, end
        else:
            if closing == "}":
                key, at = _key(text, at)
            value, end = read(key, at)
            yield key, at, [value], end
        at = _skipped(text, end)
        if text[at] == ",":
            at = _skipped(text, at + 1)
            closes_late = text[at] == closing
        else:
            closes_late = text[at] != closing
        if closes_late:
            raise ValueError("no comma, or one too many")


def _key(text: str, at: int) -> tuple[str, int]:
    if text[at] != '"':
        raise ValueError("no key")
    key, at = scanstring(text, at + 1, True)
    at = _skipped(text, at)
    if text[at] != ":":
        raise ValueError("no colon")
    return key, _skipped(text, at + 1)


class _Walk:
    """Parses JSON by small steps; without `is_whole` most of it is dropped at once, and costs no memory."""

    def __init__(self, text: str, *, is_whole: bool = False, like: Any = NO_VALUE) -> None:
        self.text, self.is_whole, self.n_left = text, is_whole, _MOST_WALKED
        self.largest: Items | None = None
        self.like, self.is_like = like, like is not NO_VALUE

    def document(self, start: int) -> Any:
        value, end = self._value((), start, self.like)
        if not isinstance(value, (dict, list)) or not _END.match(self.text, end):
            raise ValueError("no object or array alone")
        return value

    def _value(self, path: tuple[str, ...], at: int, like: Any) -> tuple[Any, int]:
        if self.text[at] == "[":
            return self._array(path, at + 1, like)
        if self.text[at] == "{" and len(path) < _DEEPEST and self.n_left > 0:
            return self._object(path, at + 1, like)
        value, end = _scan(self.text, at)
        self.is_like = self.is_like and _is_same(value, like)
        return value, end

    def _object(self, path: tuple[str, ...], at: int, like: Any) -> tuple[Any, int]:
        members: dict[str, Any] = {}
        others: Mapping[str, Any] = like if isinstance(like, dict) else {}

        def member(key: str, first: int) -> tuple[Any, int]:
            return self._value((*path, key), first, others.get(key, NO_VALUE))

        for key, _, (value,), at in _each(self.text, at, "}", member):  # noqa: B007, B020
            self.n_left -= 1
            members[key] = value if self.is_whole or len(members) < _MOST_KEPT else None
        self.is_like = self.is_like and isinstance(like, dict) and len(members) == len(like)
        return members, _skipped(self.text, at) + 1

    def _array(self, path: tuple[str, ...], at: int, like: Any) -> tuple[Any, int]:
        kept, stride, marks = Some(), 1, list[tuple[int, int]]()
        for _, first, values, at in _each(self.text, at, "]", lambda _, at: _scan(self.text, at), is_fast=True):  # noqa: B007
            if not marks or first - marks[-1][1] >= _MARK_EVERY:
                marks.append((kept.n, first))
            if self.is_like:
                self.is_like = isinstance(like, list) and _is_same(values, like[kept.n : kept.n + len(values)])
            kept += values if self.is_whole else values[-kept.n % stride :: stride]
            kept.n += len(values)
            while not self.is_whole and len(kept) > _MOST_KEPT:
                del kept[1::2]
                stride *= 2
        if marks and (self.largest is None or at - marks[0][1] > self.largest.n_characters):
            self.largest = Items(self.text, path, kept.n, marks, at - marks[0][1])
        self.is_like = self.is_like and isinstance(like, list) and len(like) == kept.n
        return list(kept) if self.is_whole else kept, _skipped(self.text, at) + 1


def _is_same(value: Any, other: Any) -> bool:
    try:
        return bool(value == other)
    except RecursionError:
        return False
