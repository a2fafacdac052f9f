"""One file of a bundle: read whole, and never from outside of the bundle's folder."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

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
