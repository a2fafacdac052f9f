"""What a tool answered, as values: its tokens, the whole of it, and where the items of its JSON are.

JSON is scanned item by item, never in one call: a thread in C code holds the event loop until it returns.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, takewhile
from json.decoder import scanstring  # type: ignore[attr-defined]
from struct import error as StructError
from struct import unpack_from
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from agent_utilities.catalog.context import _BYTES_PER_TOKEN

NO_VALUE: Any = object()
"""The value of what is text alone."""
_LARGEST_IMAGE, _PIXELS_PER_TOKEN = 1_600, 750
_MOST_SEGMENTS = 64
"""Those of a JPEG before the one that has its size; only their beginnings are decoded."""
_MOST_OF_LINKS = 500
"""Tokens; more of links become lines of the text, so that they can be read in parts."""
_AT_ONCE = 256
"""Items that are written in one call."""
LONE = re.compile("[\ud800-\udfff]")


def tokens_of(result: Mapping[str, Any]) -> int:
    """Return the tokens that a host would put into a prompt of a result: the larger of text and JSON, and media.

    Args:
        result: a CallToolResult as it is sent.
    """
    texts, media = _parts(result)
    n_bytes = sum(map(bytes_of, texts)) + max(0, len(texts) - 1)
    if (structured := _structured(result)) is not None:
        n_bytes = max(n_bytes, bytes_of(written(structured)))
    return _tokens(n_bytes) + sum(map(media_tokens, media))


def bytes_of(text: str) -> int:
    """Return the bytes of a text in UTF-8; a lone surrogate takes three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def bytes_in(tokens: int) -> int:
    """Return the most bytes that count as so many tokens."""
    return int(tokens * _BYTES_PER_TOKEN)


def _tokens(n_bytes: int) -> int:
    return round(n_bytes / _BYTES_PER_TOKEN)


def written(value: Any, depth: int = 3) -> str:
    """Return a value as compact JSON, lone surrogates escaped, and null for what can't be sent.

    Args:
        depth: how many levels are written by small steps.
    """
    if depth and isinstance(value, list) and len(value) > _AT_ONCE:
        slices = (value[i : i + _AT_ONCE] for i in range(0, len(value), _AT_ONCE))
        return f"[{','.join(written(each)[1:-1] for each in slices)}]"
    if depth and isinstance(value, dict) and len(value) < _AT_ONCE:
        return f"{{{','.join(f'{written(str(key))}:{written(value[key], depth - 1)}' for key in value)}}}"
    try:
        return to_json(value, inf_nan_mode="constants").decode()
    except (PydanticSerializationError, ValueError):
        with suppress(RecursionError, ValueError):
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
            return LONE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", text)
    return "null"


def _structured(result: Mapping[str, Any]) -> Any:
    """Return the structured content of a result; None where there is none, or it is the blocks once more."""
    structured = result.get("structuredContent")
    is_copy = isinstance(structured, Mapping) and structured.get("content") == result.get("content")
    return None if is_copy else structured


def _parts(result: Mapping[str, Any]) -> tuple[list[str], list[Mapping[str, Any]]]:
    """Return the texts of a result, those of embedded resources too, and the blocks that have none."""
    texts, media = list[str](), list[Mapping[str, Any]]()
    blocks = result.get("content")
    for block in blocks if isinstance(blocks, Sequence) else ():
        if isinstance(block, Mapping):
            of = block.get("resource", block)
            text = of.get("text") if isinstance(of, Mapping) else None
            texts.append(text) if isinstance(text, str) else media.append(block)
    links = [block for block in media if block.get("type") == "resource_link"]
    if sum(map(media_tokens, links)) > _MOST_OF_LINKS:
        texts += map(written, links)
        media = [block for block in media if block.get("type") != "resource_link"]
    return texts, media


def media_tokens(block: Mapping[str, Any]) -> int:
    """Return the tokens of a block that is no text: an image by its pixels, all else by its length."""
    resource = block.get("resource")
    data = resource.get("blob") if isinstance(resource, Mapping) else block.get("data")
    if not isinstance(data, str):
        return _tokens(bytes_of(written(block)))
    if block.get("type") != "image":
        return _tokens(len(data))
    with suppress(ValueError, StructError):
        if (n_pixels := _pixels(data)) > 0:
            return min(_LARGEST_IMAGE, -(-n_pixels // _PIXELS_PER_TOKEN))
    return _LARGEST_IMAGE


def _pixels(data: str) -> int:
    """Return width times height from the header of an image in base64; 0 where it is unknown."""
    head = b64decode(data[:44])
    width = height = 0
    if head.startswith(b"\x89PNG"):
        width, height = unpack_from(">II", head, 16)
    elif head.startswith(b"GIF8"):
        width, height = unpack_from("<HH", head, 6)
    elif head[8:16] == b"WEBPVP8X":
        low_width, high_width, low_height, high_height = unpack_from("<HBHB", head, 24)
        width, height = (high_width << 16) + low_width + 1, (high_height << 16) + low_height + 1
    elif head[8:16] == b"WEBPVP8L":
        (bits,) = unpack_from("<I", head, 21)
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    elif head[8:16] == b"WEBPVP8 ":
        width, height = (size & 0x3FFF for size in unpack_from("<HH", head, 26))
    at = 2
    for _ in range(_MOST_SEGMENTS if head.startswith(b"\xff\xd8") else 0):
        segment = b64decode(data[at // 3 * 4 : at // 3 * 4 + 16])[at % 3 :]
        kind, length, height, width = unpack_from(">HHxHH", segment)
        if kind & 0xFFF0 == 0xFFC0 and kind not in (0xFFC4, 0xFFC8, 0xFFCC):
            break
        at, width = at + 2 + length, 0
    return width * height


# -- the whole ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Whole:
    """All that a tool answered.

    Args:
        text: what is shown and read in parts: the texts, and the JSON of `structuredContent` where that is no copy.
        begins: the first character of JSON in the text, where that is known; else -1.
        media: the blocks that are no text.
    """

    text: str
    tokens: int
    begins: int = -1
    media: tuple[Mapping[str, Any], ...] = ()

    @cached_property
    def outline(self) -> Outline | None:
        """What its JSON is like; None where there is none. Take it in a thread: 16 MiB take half a second."""
        starts = (self.begins,) if self.begins >= 0 else _starts(self.text)
        return next((outline for start in starts if (outline := outline_of(self.text, start))), None)

    @cached_property
    def value(self) -> Any:
        """All of its JSON; `NO_VALUE` where there is none. It takes a second for 16 MiB, and ten times the memory."""
        return NO_VALUE if self.outline is None else _Walk(self.text, is_whole=True).document(self.outline.start)

    def to_bytes(self) -> bytes:
        """Return all of it for keeping."""
        head = json.dumps([self.tokens, self.begins, self.media]).encode()
        return head + b"\n" + self.text.encode("utf-8", "surrogatepass")

    @classmethod
    def from_bytes(cls, kept: bytes) -> Whole:
        """Return what was kept."""
        end = kept.index(b"\n")
        tokens, begins, media = json.loads(kept[:end])
        return cls(kept[end + 1 :].decode("utf-8", "surrogatepass"), tokens, begins, tuple(media))

    @classmethod
    def of(cls, text: str) -> Whole:
        """Return a text as a whole."""
        return cls(text, _tokens(bytes_of(text)))


def whole_of(result: Mapping[str, Any]) -> Whole:
    """Return the whole of a result.

    What is text stays text, JSON too. `structuredContent` follows it where it is no copy: where the text is the same
    alone, is JSON and about as large, or has a block for each of its items, in whose place it stands.

    Args:
        result: a CallToolResult as it is sent.
    """
    texts, media = _parts(result)
    whole, structured = Whole.of("\n".join(texts)), _structured(result)
    if isinstance(structured, Mapping) and (text := whole.text) != structured.get("result"):
        added = written(structured)
        if len(texts) > 1 and isinstance(items := structured.get("result"), list) and len(items) == len(texts):
            text = ""
        if not text or whole.outline is None or bytes_of(added) > bytes_of(text) * 1.1 + 100:
            whole = Whole.of(f"{text}\n{added}" if text else added)
            whole = replace(whole, begins=len(whole.text) - len(added))
    return replace(whole, tokens=whole.tokens + sum(map(media_tokens, media)), media=tuple(map(dict, media)))


# -- the outline of JSON -----------------------------------------------------------------------------------------------

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
    """

    start: int
    sample: Any
    items: Items | None


def outline_of(text: str, start: int) -> Outline | None:
    """Return what a JSON object or array is like; None where none begins at that character, or more follows."""
    walk = _Walk(text)
    try:
        sample = walk.document(start)
    except (ValueError, IndexError, RuntimeError):  # a generator makes a RuntimeError of the scanner's StopIteration
        return None
    is_large = walk.largest is not None and len(text) - start <= walk.largest.n_characters * 4
    return Outline(start, sample, walk.largest if is_large else None)


def _starts(text: str) -> Iterator[int]:
    """Yield where JSON may begin: at once, or in a line of its own after a few words."""
    start = _skipped(text, int(text.startswith("\ufeff")))
    if text[start : start + 1] in ("{", "["):
        yield start
    elif (line := _LINE_OF_JSON.search(text, 0, 2_000)) is not None:
        yield line.end()


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

    def __init__(self, text: str, *, is_whole: bool = False) -> None:
        self.text, self.is_whole, self.n_left = text, is_whole, _MOST_WALKED
        self.largest: Items | None = None

    def document(self, start: int) -> Any:
        value, end = self._value((), start)
        if not isinstance(value, (dict, list)) or not _END.match(self.text, end):
            raise ValueError("no object or array alone")
        return value

    def _value(self, path: tuple[str, ...], at: int) -> tuple[Any, int]:
        if self.text[at] == "[":
            return self._array(path, at + 1)
        if self.text[at] == "{" and len(path) < _DEEPEST and self.n_left > 0:
            return self._object(path, at + 1)
        return _scan(self.text, at)

    def _object(self, path: tuple[str, ...], at: int) -> tuple[Any, int]:
        members: dict[str, Any] = {}
        for key, _, (value,), at in _each(self.text, at, "}", lambda key, at: self._value((*path, key), at)):  # noqa: B007
            self.n_left -= 1
            members[key] = value if self.is_whole or len(members) < _MOST_KEPT else None
        return members, _skipped(self.text, at) + 1

    def _array(self, path: tuple[str, ...], at: int) -> tuple[Any, int]:
        kept, stride, marks = Some(), 1, list[tuple[int, int]]()
        for _, first, values, at in _each(self.text, at, "]", lambda _, at: _scan(self.text, at), is_fast=True):  # noqa: B007
            if not marks or first - marks[-1][1] >= _MARK_EVERY:
                marks.append((kept.n, first))
            kept += values if self.is_whole else values[-kept.n % stride :: stride]
            kept.n += len(values)
            while not self.is_whole and len(kept) > _MOST_KEPT:
                del kept[1::2]
                stride *= 2
        if marks and (self.largest is None or at - marks[0][1] > self.largest.n_characters):
            self.largest = Items(self.text, path, kept.n, marks, at - marks[0][1])
        return list(kept) if self.is_whole else kept, _skipped(self.text, at) + 1
