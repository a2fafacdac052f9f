"""JSON of many megabytes, read in small pieces, so that a thread that reads it holds up no other.

Python's and pydantic's JSON readers keep the interpreter lock for a whole document: a list of 20 MB read by one of them
in a thread stops the event loop for 150 to 350 ms all the same. Here each piece takes some milliseconds at most, and
the lock is let go between them.
"""

from __future__ import annotations

import json
import re
import time
from typing import Any

_SMALL = 8 * 1024
"""Bytes: a value that fits is read in one piece."""
_LARGE = 256 * 1024
"""Bytes of a long string that are read in one piece."""
_WORK_S, _REST_S = 0.002, 0.0002
"""Seconds of work after which the lock is let go, and for how long."""
_SPACE = re.compile(rb"[ \t\n\r]*+")
_SCALAR = re.compile(rb"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|NaN|-?Infinity")


def read_long_json(data: bytes | bytearray) -> Any:
    """Return what a JSON document says.

    Args:
        data: the document, in UTF-8.

    Raises:
        ValueError: it is no JSON.
        RecursionError: it is nested too deeply.
    """
    document = _Document(data)
    value, end = document.value(0)
    if _after_space(data, end) != len(data):
        raise ValueError(f"more after the document's end, at byte {end}")
    return value


class _Document:
    """One document and how far the work on it has gone; each method returns a value and where it ends."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data
        self._decoder = json.JSONDecoder(strict=False)
        self._rest_at = time.monotonic() + _WORK_S

    def value(self, at: int) -> tuple[Any, int]:
        """Return the value that begins at a byte."""
        self._rest()
        at = _after_space(self._data, at)
        first = self._data[at : at + 1]
        if first == b'"':
            return self.string(at)
        if first not in (b"{", b"["):
            return self.scalar(at)
        return self.small(at) or (self.mapping(at) if first == b"{" else self.sequence(at))

    def small(self, at: int) -> tuple[Any, int] | None:
        """Return an object or array that is small, read at once; None where it is not."""
        piece = _whole_characters(self._data[at : at + _SMALL]).decode()
        try:
            value, n_characters = self._decoder.raw_decode(piece)
        except ValueError:  # cut off, or no JSON: reading it value by value will tell
            return None
        return value, at + _n_bytes(piece, n_characters)

    def mapping(self, at: int) -> tuple[dict[str, Any], int]:
        """Return the object that begins at a byte, value by value."""
        members: dict[str, Any] = {}
        at = _after_space(self._data, at + 1)
        while not self._is(b"}", at):
            if members:
                at = self._after(b",", at)
            key, at = self.string(self._at(b'"', at))
            members[key], at = self.value(self._after(b":", at))
            at = _after_space(self._data, at)
        return members, at + 1

    def sequence(self, at: int) -> tuple[list[Any], int]:
        """Return the array that begins at a byte, value by value."""
        items: list[Any] = []
        at = _after_space(self._data, at + 1)
        while not self._is(b"]", at):
            if items:
                at = self._after(b",", at)
            item, at = self.value(at)
            items.append(item)
            if not isinstance(item, str | dict | list):
                at = self._numbers(at, items)
            at = _after_space(self._data, at)
        return items, at + 1

    def _numbers(self, at: int, items: list[Any]) -> int:
        """Add the items that follow, where they are as short as numbers are; return where they end."""
        while self._is(b",", at) and b"," in (piece := self._data[at + 1 : at + 1 + _SMALL]):
            self._rest()
            piece = piece[: piece.rindex(b",")]
            try:
                more, n_characters = self._decoder.raw_decode(f"[{piece.decode()}]")
            except ValueError:
                break
            if n_characters < len(piece) + 2 or not more:
                break
            items += more
            at += 1 + len(piece)
        return at

    def string(self, at: int) -> tuple[str, int]:
        """Return the string that begins at a byte, in pieces where it is long."""
        pieces: list[str] = []
        at, n_bytes = at + 1, _SMALL
        while True:
            self._rest()
            piece = _whole_escapes(_whole_characters(self._data[at : at + n_bytes]).decode())
            # With a quote put after it a piece is a string of its own, which ends there or before.
            value, n_read = self._decoder.raw_decode(f'"{piece}"')
            if n_read < len(piece) + 2:
                pieces.append(value)
                at += _n_bytes(piece, n_read - 2)
                return "".join(pieces), at + 1
            if not piece:
                raise ValueError(f"a string without an end, at byte {at}")
            if len(piece) > 6 and "\ud800" <= value[-1] <= "\udbff":  # half a character; the rest is in the next piece
                piece, value = piece[:-6], value[:-1]
            pieces.append(value)
            at += _n_bytes(piece, len(piece))
            n_bytes = _LARGE

    def scalar(self, at: int) -> tuple[Any, int]:
        """Return the number, true, false or null that begins at a byte."""
        found = _SCALAR.match(self._data, at)
        if not found:
            raise ValueError(f"no JSON value at byte {at}")
        return self._decoder.decode(found.group().decode()), found.end()

    def _rest(self) -> None:
        """Let other threads run, where it is time."""
        if time.monotonic() >= self._rest_at:
            time.sleep(_REST_S)
            self._rest_at = time.monotonic() + _WORK_S

    def _is(self, byte: bytes, at: int) -> bool:
        return self._data[at : at + 1] == byte

    def _at(self, byte: bytes, at: int) -> int:
        at = _after_space(self._data, at)
        if not self._is(byte, at):
            raise ValueError(f"no {byte.decode()} at byte {at}")
        return at

    def _after(self, byte: bytes, at: int) -> int:
        return _after_space(self._data, self._at(byte, at) + 1)


def _after_space(data: bytes | bytearray, at: int) -> int:
    found = _SPACE.match(data, at)
    return found.end() if found else at


def _n_bytes(text: str, n_characters: int) -> int:
    """Return how many bytes the first characters of a text took."""
    return n_characters if text.isascii() else len(text[:n_characters].encode())


def _whole_escapes(piece: str) -> str:
    """Return a piece of a string without the escape that it cuts off at its end."""
    at = piece.rfind("\\", max(0, len(piece) - 6))
    if at < 0:
        return piece
    n_backslashes = at + 1 - len(piece[: at + 1].rstrip("\\"))
    n_needed = 6 if piece[at + 1 : at + 2] == "u" else 2
    return piece[:at] if n_backslashes % 2 and at + n_needed > len(piece) else piece


def _whole_characters(piece: bytes | bytearray) -> bytes | bytearray:
    """Return a piece of UTF-8 without the character that it cuts off at its end."""
    for n_left_out in range(1, min(len(piece), 4) + 1):
        byte = piece[-n_left_out]
        if byte < 0x80:
            break
        if byte >= 0xC0:  # the first of a character's bytes, which tells how many they are
            n_bytes = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return piece if n_bytes == n_left_out else piece[:-n_left_out]
    return piece
