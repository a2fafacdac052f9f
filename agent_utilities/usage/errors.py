"""Why a usage log can't be written or read, and what would do."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from agent_utilities.errors import AgentUtilitiesError

Cause = Literal["locked", "full", "read-only", "failing", "corrupt", "foreign", "newer", "unavailable"]

FINAL: frozenset[Cause] = frozenset({"corrupt", "foreign", "newer", "unavailable"})
"""Causes that no waiting ends."""

_WHAT: Mapping[Cause, tuple[str, str]] = MappingProxyType(
    {
        "locked": ("another program keeps the usage log locked", "end that program"),
        "full": ("no room for the usage log", "make room on its disk, or keep fewer rows by MCP_USAGE_ROWS"),
        "read-only": (
            "the usage log can't be read or written",
            "give this user the file and its folder",
        ),
        "failing": ("the disk of the usage log fails", "see what the system says of that disk"),
        "corrupt": (
            "the usage log is damaged",
            "move it aside, or delete it with `agent-utilities usage forget --all`",
        ),
        "foreign": ("the file is no usage log", "move it aside, or name another file by MCP_USAGE_FILE"),
        "newer": (
            "the usage log is of a later version of agent-utilities",
            "install that version, or name another file by MCP_USAGE_FILE",
        ),
        "unavailable": ("this Python has no SQLite", "install one that has the module sqlite3"),
    }
)

# SQLite's primary result codes; the module's names for them are there from Python 3.11, which is the oldest.
_BY_SQLITE: Mapping[int, Cause] = MappingProxyType(
    {
        3: "read-only",
        5: "locked",
        6: "locked",
        8: "read-only",
        11: "corrupt",
        13: "full",
        14: "read-only",
        26: "corrupt",
    }
)
_FULL_IN_MEMORY_MAP = 4874  # SQLITE_IOERR_SHMSIZE
_FULL = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT})
_NO_FILE = frozenset({errno.EISDIR, errno.ENOTDIR, errno.EEXIST})


class UsageError(AgentUtilitiesError, OSError):
    """A usage log that can't be written or read.

    Args:
        cause: for callers and tests.
        path: the log.
        detail: what SQLite or the system said, where it adds something.
    """

    def __init__(self, cause: Cause, path: Path, detail: object = "") -> None:
        self.cause: Cause = cause
        what, hint = _WHAT[cause]
        said = f" ({detail})" if str(detail) else ""
        super().__init__(f"{what}: {str(path)!r}{said}; {hint}")

    @property
    def is_temporary(self) -> bool:
        """Whether it may end while the server runs."""
        return self.cause not in FINAL


def usage_error(error: Exception, path: Path) -> UsageError:
    """Return an error of SQLite or of the system as one of a usage log."""
    if isinstance(error, UsageError):
        return error
    if isinstance(error, ImportError):
        return UsageError("unavailable", path, error)
    code = getattr(error, "sqlite_errorcode", None)
    if code == _FULL_IN_MEMORY_MAP:
        return UsageError("full", path, error)
    if code is not None:
        return UsageError(_BY_SQLITE.get(code & 0xFF, "failing"), path, error)
    number = error.errno if isinstance(error, OSError) else None
    if number in _FULL:
        return UsageError("full", path, os.strerror(number or 0))
    if number in _NO_FILE:
        return UsageError("foreign", path, os.strerror(number or 0))
    return UsageError("read-only" if number in _READ_ONLY else "failing", path, error)
