"""One file of a bundle: read whole, never from outside of its folder; its values, and what is told of them."""

from __future__ import annotations

import math
import os
import re
import stat
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LONGEST_LINE = 1000
_LONGEST_VALUE = 120
_MOST_NOTICES = 200


@dataclass(slots=True)
class Notes:
    """Collects what is told of the files.

    Args:
        problems: a line for each thing that leaves a bundle out.
        notices: a line for each thing that is passed over.
        files: every file that was read or looked for.
        unknown: by key, the places where it stands, where nobody knows it.
    """

    problems: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    unknown: dict[str, list[str]] = field(default_factory=dict)

    def problem(self, where: object, what: str, hint: str) -> None:
        """Add a problem: where it is, what is wrong, what would do."""
        self.problems.append(one_line(f"{where}: {what}; {hint}"))

    def notice(self, where: object, what: str) -> None:
        """Add a notice; beyond 200 they are counted, no longer told."""
        self.notices.append(one_line(f"{where}: {what}"))

    def pass_over(self, where: object, keys: Iterable[str]) -> None:
        """Remember keys that nobody knows: each is told once, however often it stands."""
        for key in keys:
            self.unknown.setdefault(key, []).append(str(where))

    def all_notices(self) -> tuple[str, ...]:
        """Return every notice, those of unknown keys last."""
        told = list(self.notices)
        for key, places in self.unknown.items():
            more = f" and {len(places) - 1} more" if len(places) > 1 else ""
            told.append(one_line(f"{places[0]}{more}: the key {quoted(key)} is not known, and passed over"))
        if (n_more := len(told) - _MOST_NOTICES) > 0:
            told = [*told[:_MOST_NOTICES], f"{n_more} more notices are not shown"]
        return tuple(told)


def one_line(text: str) -> str:
    """Return a text on one line of at most 1,000 characters, in which nothing acts on a terminal.

    Names and values may be a stranger's: what is not printable, line ends too, is shown as an escape.
    """
    cut = text if len(text) <= _LONGEST_LINE else text[: _LONGEST_LINE - 1] + "…"
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii") for char in cut
    )


def quoted(text: str) -> str:
    """Return a value as messages show it: in quotes, 120 characters of it at most."""
    return repr(text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…")


MAX_BYTES = 1024 * 1024
"""The most bytes that a file may have."""

# The parser takes minutes for thousands of keys of many parts.
_DEEP = re.compile(r"""(?:\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){16}""")


class BundleFileError(ValueError):
    """A file that can't be taken.

    Args:
        what: what is wrong.
        hint: what would do.
    """

    def __init__(self, what: str, hint: str) -> None:
        self.what, self.hint = what, hint
        super().__init__(f"{what}; {hint}")


def real_path(path: Path, folder: Path) -> Path:
    """Return where a path leads once its links are followed.

    Args:
        path: the path.
        folder: the folder that it may not lead out of.

    Raises:
        BundleFileError: it leads nowhere, in a circle, or out of the folder.
    """
    try:
        real = os.path.realpath(path, strict=True)
        within = os.path.realpath(folder, strict=True)
    except FileNotFoundError:
        raise BundleFileError("is a link that leads nowhere", "point it at a file beside it") from None
    except (OSError, ValueError) as error:
        raise BundleFileError(f"can't be read ({_reason(error)})", "make it readable") from None
    if not Path(real).is_relative_to(within):
        raise BundleFileError("leads out of its folder", "point it at a file beside it, or copy that there")
    return Path(real)


def read_text(path: Path, folder: Path) -> str:
    """Return a file's text.

    Args:
        path: the file.
        folder: the bundle's folder, which a link may not lead out of.

    Raises:
        BundleFileError: it can't be read, is no regular file, too long, or not UTF-8.
    """
    real = real_path(path, folder)
    try:
        # What is no plain file, such as a pipe, may have the reader wait for ever.
        descriptor = os.open(real, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise BundleFileError("is no file", "put a TOML file there")
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BundleFileError(f"can't be read ({_reason(error)})", "make it readable") from None
    if len(content) > MAX_BYTES:
        raise BundleFileError(f"has over {MAX_BYTES} bytes", "shorten it")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BundleFileError(f"line {line} is not UTF-8", "save it as UTF-8") from None


def parsed(text: str) -> dict[str, Any]:
    """Return what TOML says.

    Raises:
        BundleFileError: it is none, or nested too deeply.
    """
    try:
        if _DEEP.search(text):
            raise RecursionError
        return tomllib.loads(text)
    except RecursionError:
        raise BundleFileError("is nested too deeply", "flatten it") from None
    except ValueError as error:  # a number of thousands of digits is none that the parser names
        raise BundleFileError(f"is no TOML: {str(error)[:120]}", "mend it there; see https://toml.io") from None


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


class TableReader:
    """Reads one table of a file.

    Args:
        told: what stands there.
        file: the file, as messages name it.
        notes: what is told is added here.
        place: the table's own key, such as `roles.mcp`; empty for the file itself.
    """

    def __init__(self, told: Mapping[str, Any], file: str, notes: Notes, place: str = "") -> None:
        self._told, self._file, self._notes, self._place = told, file, notes, place

    def where(self, key: str = "") -> str:
        """Return how messages name a key, such as `browser/playwright.toml: deps.require`."""
        place = ".".join(part for part in (self._place, key) if part)
        return f"{self._file}: {place}" if place else self._file

    def has(self, key: str) -> bool:
        """Whether a key stands there."""
        return key in self._told

    def knows(self, keys: Collection[str]) -> None:
        """Have keys passed over that are not among these."""
        self._notes.pass_over(self.where(), (key for key in self._told if key not in keys))

    def table(self, key: str) -> TableReader:
        """Return a table's reader; an empty one's where there is none."""
        value = self._told.get(key, {})
        if not isinstance(value, dict):
            self.wrong(key, f"is {described(value)}", f"write it as a table: [{self._joined(key)}]")
            value = {}
        return TableReader(value, self._file, self._notes, self._joined(key))

    def tables(self, key: str) -> list[TableReader]:
        """Return the readers of a list of tables, named by their places in it."""
        value = self._told.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            self.wrong(key, "is no list of tables", f"write each as a table: [[{self._joined(key)}]]")
            return []
        joined = self._joined(key)
        return [TableReader(each, self._file, self._notes, f"{joined}[{i}]") for i, each in enumerate(value)]

    def named(self, name: str) -> TableReader:
        """Return the same table's reader, named by what it is called in place of its index."""
        return TableReader(self._told, self._file, self._notes, f"{self._place.partition('[')[0]}.{name}")

    def text(self, key: str) -> str:
        """Return a text; empty where there is none."""
        value = self._told.get(key, "")
        if not isinstance(value, str):
            self.wrong(key, f"is {described(value)}", "write a text")
            return ""
        return value.strip()

    def texts(self, key: str, example: str) -> tuple[str, ...]:
        """Return a list of texts, stripped, without blank ones, each once.

        Args:
            key: the key.
            example: what would do.
        """
        value = self._told.get(key, [])
        if not isinstance(value, list):
            self.wrong(key, f"is {described(value)}", f"write a list of texts, such as {example}")
            return ()
        if odd := [each for each in value if not isinstance(each, str)]:
            self.wrong(key, f"has {described(odd[0])}", f"write a list of texts, such as {example}")
            return ()
        return tuple(dict.fromkeys(each for each in map(str.strip, value) if each))

    def words(self, key: str) -> list[str]:
        """Return a list of a program's words as they are; numbers are taken as texts."""
        value = self._told.get(key, [])
        if not isinstance(value, list) or not all(_is_word(each) for each in value):
            self.wrong(key, "is no list of texts", 'write a list of texts, such as ["-y", "NAME"]')
            return []
        return [str(each) for each in value]

    def values(self, key: str) -> dict[str, str]:
        """Return a table of texts; numbers and switches are taken as texts."""
        value = self._told.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(each, str | int | float) for each in value.values()):
            self.wrong(key, "is no table of texts", 'write a table of texts, such as { NAME = "value" }')
            return {}
        return {name: str(each).lower() if isinstance(each, bool) else str(each) for name, each in value.items()}

    def seconds(self, key: str) -> float | None:
        """Return a time in seconds; None where there is none."""
        value = self._told.get(key)
        if value is None:
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value <= 0:
            self.wrong(key, f"is {quoted(str(value))}", "write a number of seconds above 0, such as 60")
            return None
        return float(value)

    def wrong(self, key: str, what: str, hint: str) -> None:
        """Tell a problem with a key."""
        self._notes.problem(self.where(key), what, hint)

    def _joined(self, key: str) -> str:
        return f"{self._place}.{key}" if self._place else key


def described(value: object) -> str:
    """Return what a value is, without the value."""
    names = {dict: "a table", list: "a list", str: "a text", bool: "a switch", int: "a number", float: "a number"}
    return next((name for kind, name in names.items() if isinstance(value, kind)), "a date or time")


def _is_word(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)
