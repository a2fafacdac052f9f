"""Why a usage log can't be written or read, and what would do."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Literal

from agent_utilities.errors import AgentUtilitiesError

Cause = Literal["locked", "full", "read-only", "failing", "corrupt", "foreign", "newer", "unavailable"]

FINAL: frozenset[Cause] = frozenset({"corrupt", "foreign", "newer", "unavailable"})
"""Causes that no waiting ends."""

_WHAT: dict[Cause, tuple[str, str]] = {
    "locked": ("another program keeps the usage log locked", "end that program"),
    "full": ("no room for the usage log", "make room on its disk, or keep fewer rows by MCP_USAGE_ROWS"),
    "read-only": ("the usage log can't be read or written", "give this user the file and its folder"),
    "failing": ("the disk of the usage log fails", "see what the system says of that disk"),
    "corrupt": ("the usage log is damaged", "move it aside, or delete it with `agent-utilities usage forget --all`"),
    "foreign": ("the file is no usage log", "move it aside, or name another file by MCP_USAGE_FILE"),
    "newer": (
        "the usage log is of a later version of agent-utilities",
        "install that version, or name another file by MCP_USAGE_FILE",
    ),
    "unavailable": ("this Python has no SQLite", "install one that has the module sqlite3"),
}

_BY_SQLITE: dict[int, Cause] = {
    **dict.fromkeys((3, 8, 14), "read-only"),  # SQLITE_PERM, READONLY, CANTOPEN
    **dict.fromkeys((5, 6), "locked"),  # BUSY, LOCKED
    **dict.fromkeys((11, 26), "corrupt"),  # CORRUPT, NOTADB
    **dict.fromkeys((13, 4874), "full"),  # FULL, IOERR_SHMSIZE
}
"""By SQLite's result codes: the module that names them is loaded by no server that logs nothing."""
_BY_SYSTEM: dict[int | None, Cause] = {
    **dict.fromkeys((errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)), "full"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT), "read-only"),
    **dict.fromkeys((errno.EISDIR, errno.ENOTDIR, errno.EEXIST), "foreign"),
}


class UsageError(AgentUtilitiesError, OSError):
    """A usage log that can't be written or read; `detail` is what SQLite or the system said, if it adds something."""

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
    if code is not None:
        return UsageError(_BY_SQLITE.get(code) or _BY_SQLITE.get(code & 0xFF, "failing"), path, error)
    number = error.errno if isinstance(error, OSError) else None
    cause = _BY_SYSTEM.get(number, "failing")
    return UsageError(cause, path, os.strerror(number or 0) if cause in ("full", "foreign") else error)
