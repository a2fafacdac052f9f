"""Checks on text that callers send, and the shape of text that git sends back."""

from __future__ import annotations

import posixpath
import unicodedata

from fastmcp.exceptions import ToolError

MAX_TEXT_CHARS = 4096


def checked(value: str, what: str, *, multiline: bool = False) -> str:
    """Return `value` when git can be given it: no control characters, no lone surrogates.

    Args:
        value: text from a caller.
        what: how the error names it.
        multiline: allow newlines and tabs, for commit messages.

    Raises:
        ToolError: the text holds a character that is refused, is empty or is too long.
    """
    if not value.strip():
        raise ToolError(f"{what} must not be empty: {value!r}")
    if not multiline and len(value) > MAX_TEXT_CHARS:
        raise ToolError(f"{what} is longer than {MAX_TEXT_CHARS} characters: {value[:60]!r}...")
    allowed = "\n\t\r" if multiline else ""
    for char in value:
        if char not in allowed and unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp"):
            raise ToolError(f"{what} holds the refused character {char!r}: {value[:200]!r}")
    return value


def checked_name(value: str, what: str) -> str:
    """Return `value` when it is clean text that git cannot take for an option."""
    if checked(value, what).startswith("-"):
        raise ToolError(f"{what} must not start with a dash: {value!r}")
    return value


def checked_path(value: str) -> str:
    """Return `value` normalised: a path below the top of the working tree.

    `..` and absolute paths are refused and not resolved, because `git diff` given two paths of which
    one lies outside the repository compares arbitrary files.
    """
    checked(value, "path")
    if value.startswith("-"):
        raise ToolError(f"path must not start with a dash: {value!r}; write {'./' + value!r}")
    if value.startswith("/"):
        raise ToolError(f"path must be relative to the top of the repository: {value!r}")
    parts = value.split("/")
    if ".." in parts:
        raise ToolError(f"path must not contain '..': {value!r}")
    if any(part.lower() == ".git" for part in parts):
        raise ToolError(f"path must not lead into a .git folder: {value!r}")
    return posixpath.normpath(value)


def checked_paths(values: list[str] | None) -> list[str]:
    """Return every path of `values` checked, in order; none for `None`."""
    return [checked_path(value) for value in values or []]


def decoded(data: bytes) -> str:
    r"""Return `data` as text; bytes that are not UTF-8 show as `\xNN`."""
    return data.decode("utf-8", "backslashreplace")


def clipped(text: str, n_chars: int) -> str:
    """Return `text`, at most `n_chars` characters of it, with a mark where it was cut."""
    return text if len(text) <= n_chars else text[:n_chars] + "[...]"


def whole_lines(data: bytes, max_bytes: int) -> bytes:
    """Return the longest run of whole lines at the start of `data` that fits in `max_bytes`."""
    if len(data) <= max_bytes:
        return data
    end = data.rfind(b"\n", 0, max_bytes)
    return data[: end + 1] if end >= 0 else data[:max_bytes]
