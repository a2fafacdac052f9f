"""One file of a bundle: read whole, never from outside of its folder; and what is told of such files."""

from __future__ import annotations

import os
import re
import tomllib
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

    def pass_over(self, where: object, key: str) -> None:
        """Remember a key that nobody knows: it is told once, however often it stands."""
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
    """A file that can't be taken: what is wrong, and what would do."""

    def __init__(self, what: str, hint: str) -> None:
        self.what, self.hint = what, hint
        super().__init__(f"{what}; {hint}")


def real_path(path: Path, folder: Path) -> Path:
    """Return where a path leads once its links are followed.

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
    """Return the text of a file, which a link may not lead to from outside of the bundle's folder.

    Raises:
        BundleFileError: it can't be read, is no regular file, too long, or not UTF-8.
    """
    real = real_path(path, folder)
    try:
        if not real.is_file():  # a pipe may have its reader wait for ever
            raise BundleFileError("is no file", "put a TOML file there")
        with real.open("rb") as file:
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
