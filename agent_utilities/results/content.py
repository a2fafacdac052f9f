"""What a tool answered, as values: its tokens, and the whole of it."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from math import inf
from struct import error as StructError
from struct import unpack_from
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from agent_utilities.catalog.context import _BYTES_PER_TOKEN
from agent_utilities.results.outline import NO_VALUE, Outline, first_key, outline_of, starts_of, value_of
from agent_utilities.runtime.waiting import in_daemon_thread

_LARGEST_IMAGE, _PIXELS_PER_TOKEN = 1_600, 750
_MOST_SEGMENTS = 64
"""Those of a JPEG before the one that has its size; only their beginnings are decoded."""
_MOST_OF_LINKS = 500
"""Tokens; more of links become lines of the text, so that they can be read in parts."""
_AT_ONCE = 200_000
"""Characters that are counted or written in one call, which holds the event loop."""
_LEAST_COPY = 1_000
"""Characters of a text of JSON that is about as long as the `structuredContent` beside it."""
_MAX_LEVELS, _MAX_BITS = 500, 14_284
"""Of a value whose size is known; Python writes no longer number."""
LONE = re.compile("[\ud800-\udfff]")


async def counted(result: Mapping[str, Any], most: float = inf) -> int:
    """Return the tokens of a result, as `tokens_of` does; what is long is counted off the event loop."""
    n_characters, repeats, structured = 0, False, result.get("structuredContent")
    for block in result.get("content") or ():
        if isinstance(block, Mapping) and isinstance(text := block.get("text"), str):
            n_characters += len(text)
            repeats = repeats or (len(text) > _LEAST_COPY and text[0] in "{[")
    if n_characters > _AT_ONCE or (structured is not None and not repeats and _is_long(structured)):
        return await in_daemon_thread(partial(tokens_of, result, most))
    return tokens_of(result, most, is_short=True)


def tokens_of(result: Mapping[str, Any], most: float = inf, *, is_short: bool = False) -> int:
    """Return the tokens that a host would put into a prompt of a result: the larger of text and JSON, and media.

    Args:
        result: a CallToolResult as it is sent.
        most: where texts and media alone take more, JSON is not counted.
        is_short: whether its JSON may be written in one call.
    """
    texts, media = _parts(result)
    n_bytes, n_media = sum(map(bytes_of, texts)) + max(0, len(texts) - 1), sum(map(media_tokens, media))
    if _tokens(n_bytes) + n_media <= most and (structured := _structured(result)) is not None:
        n_bytes = max(n_bytes, bytes_of(written(structured, 0) if is_short else written(structured)))
    return _tokens(n_bytes) + n_media


def bytes_of(text: str) -> int:
    """Return the bytes of a text in UTF-8; a lone surrogate takes three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def bytes_in(tokens: int) -> int:
    """Return the most bytes that count as so many tokens."""
    return int(tokens * _BYTES_PER_TOKEN)


def _tokens(n_bytes: int) -> int:
    return round(n_bytes / _BYTES_PER_TOKEN)


def written(value: Any, n_levels: int = 6) -> str:
    """Return a value as compact JSON, lone surrogates escaped, and null for what can't be sent.

    Args:
        n_levels: of which the members are written by small steps, each as long as the one before suggests.
    """
    if n_levels and isinstance(value, list | dict):
        is_list, texts, n = isinstance(value, list), list[str](), 1
        members = iter(value if isinstance(value, list) else value.items())
        while some := list(islice(members, n)):
            together = "null" if n == 1 else written(some if is_list else dict(some), 0)
            if together != "null":
                texts.append(together[1:-1])
            elif is_list:
                texts += [written(each, n_levels - 1) for each in some]
            else:
                texts += [f"{written(str(key), 0)}:{written(each, n_levels - 1)}" for key, each in some]
            n = max(1, min(n * 8, _AT_ONCE * n // (len(texts[-1]) + 1)))
        return f"[{','.join(texts)}]" if is_list else f"{{{','.join(texts)}}}"
    try:
        return to_json(value, inf_nan_mode="constants").decode()
    except (PydanticSerializationError, ValueError):
        with suppress(RecursionError, ValueError):
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
            return LONE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", text)
    return "null"


def _is_long(value: Any) -> bool:
    """Whether a value takes more than is written in one call, or can't be told."""
    try:
        return written_size(value, _AT_ONCE) > _AT_ONCE
    except (RecursionError, TypeError):
        return True


def written_size(value: Any, at_most: int) -> int:
    """Return about how many characters a value takes as JSON; what is over `at_most` is not counted to its end.

    Raises:
        RecursionError: it has over 500 levels.
        TypeError: it can't be written.
    """
    n, level = 0, [value]
    for _ in range(_MAX_LEVELS):
        below: list[Any] = []
        for part in level:
            kind = type(part)
            if kind is str:
                n += len(part)
            elif kind is list or kind is dict:
                n += 3 + 3 * len(part) + (3 * len(part) + sum(map(len, part)) if kind is dict else 0)
                if n > at_most:
                    return n
                below += part if kind is list else part.values()
            elif kind is int and part.bit_length() <= _MAX_BITS:
                n += part.bit_length() // 3
            elif kind is float or kind is bool or part is None:
                n += 3
            else:
                raise TypeError("too long a number, or an expression after & where a value is expected")
        if not below or n > at_most:
            return n
        level = below
    raise RecursionError


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
    """Return width times height from the header of a PNG or JPEG in base64; 0 for any other."""
    head = b64decode(data[:44])
    width = height = 0
    if head.startswith(b"\x89PNG"):
        width, height = unpack_from(">II", head, 16)
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
        starts = (self.begins,) if self.begins >= 0 else starts_of(self.text)
        return next((outline for start in starts if (outline := outline_of(self.text, start))), None)

    @cached_property
    def value(self) -> Any:
        """All of its JSON; `NO_VALUE` where there is none. It takes a second for 16 MiB, and ten times the memory."""
        return NO_VALUE if self.outline is None else value_of(self.text, self.outline.start)

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
    def of(cls, text: str, begins: int = -1, media: Sequence[Mapping[str, Any]] = ()) -> Whole:
        """Return a text and media as a whole."""
        return cls(text, _tokens(bytes_of(text)) + sum(map(media_tokens, media)), begins, tuple(map(dict, media)))


def whole_of(result: Mapping[str, Any]) -> Whole:
    """Return the whole of a result.

    What is text stays text, JSON too. `structuredContent` follows it, unless the text says the same. Where there is a
    block for each of its items, it stands in their place.

    Args:
        result: a CallToolResult as it is sent.
    """
    texts, media = _parts(result)
    structured, whole = _structured(result), Whole.of("\n".join(texts), media=media)
    if not isinstance(structured, Mapping) or whole.text == (inner := structured.get("result")):
        return whole
    start = next(starts_of(whole.text), -1)
    first = first_key(whole.text, start)
    if start >= 0 and (outline := outline_of(whole.text, start, structured if first in structured else inner)):
        whole.__dict__["outline"] = outline  # which took long
        if outline.is_like:
            return whole
    added = written(structured)
    is_items = isinstance(inner, list) and len(texts) == len(inner) > 1 and all(map(_says, texts, inner))
    text = "" if is_items else f"{whole.text}\n" * bool(whole.text)
    return Whole.of(text + added, len(text), media)


def _says(text: str, value: Any) -> bool:
    """Whether a text is a value, or its JSON."""
    if text == value:
        return True
    with suppress(ValueError, RecursionError):
        return bool(json.loads(text) == value)
    return False
