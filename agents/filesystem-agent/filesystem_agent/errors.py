"""Errors a caller can act on: what is wrong, the value, the nearest choice; no path outside the roots."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from fastmcp.exceptions import ToolError

N_SHOWN_CHARS = 160

UNCHANGED = "nothing was changed"
REASONS: dict[int, str] = {
    errno.ENOENT: "no such file or directory",
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.ENOSPC: f"the disk is full, {UNCHANGED}",
    errno.EDQUOT: f"the disk quota is used up, {UNCHANGED}",
    errno.EFBIG: f"the file would be larger than the system allows, {UNCHANGED}",
    errno.EROFS: "the file system is read-only",
    errno.EEXIST: "it exists already",
    errno.ENOTEMPTY: "the directory is not empty",
    errno.EISDIR: "it is a directory",
    errno.ENOTDIR: "it is not a directory",
    errno.ELOOP: "it is a symlink, or became one meanwhile",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EXDEV: "source and destination are on different file systems",
    errno.EINVAL: "the operation is not possible here",
    errno.EBUSY: "it is in use by the system",
    errno.EMFILE: "the server has too many files open, try again",
    errno.ENFILE: "the system has too many files open, try again",
    errno.EIO: "the disk reported an input/output error",
    errno.ENXIO: "it is not a regular file",
}


def short_repr(value: object) -> str:
    """Return `repr(value)` cut to a bounded length, control characters escaped."""
    text = repr(value)
    return text if len(text) <= N_SHOWN_CHARS else f"{text[: N_SHOWN_CHARS - 1]}… ({len(text)} characters)"


def refusal(what: str, value: object, hint: str = "") -> ToolError:
    """Return the error for a call that can't be served; a mistake of a call is no event for an error log."""
    text = f"{what}: {short_repr(value)}"
    return ToolError(f"{text}; {hint}" if hint else text, log_level=logging.INFO)


def reason(error: OSError) -> str:
    """Return why the system refused, in words, without the path the error object carries."""
    return REASONS.get(error.errno or 0) or os.strerror(error.errno or errno.EIO).lower()


@contextmanager
def explaining(shown: str) -> Iterator[None]:
    """Turn the system's errors into refusals that name `shown`, the path as the caller knows it."""
    try:
        yield
    except OSError as error:
        raise refusal(reason(error), shown) from error
