"""One database on one file in one process: the engine's own lock keeps other processes out, and not this one."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from weakref import WeakValueDictionary

from agent_utilities.graph.base import GraphError

_CLOSING_S = 10.0
"""Seconds to wait for a file that is being closed, as where a server is stopped and started again at once."""


class FileHold:
    """The right to have a file open; lasts until `release`, or until nobody refers to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_closing = False
        """Whether its holder is about to release it, so that the next one waits for that."""

    def release(self) -> None:
        """Let others have the file; it must be closed by now."""
        with _changed:
            if _holds.get(self.path) is self:
                del _holds[self.path]
            _changed.notify_all()


_changed = threading.Condition()
# State of the process, as what it keeps track of is: files that the process has open.
_holds: WeakValueDictionary[Path, FileHold] = WeakValueDictionary()


def hold_file(path: Path) -> FileHold:
    """Return the hold on a file, which nobody else in this process has; blocks while another closes it.

    Raises:
        GraphError: `busy`: another database of this process has it open.
    """
    path = path.resolve()
    until_s = time.monotonic() + _CLOSING_S
    with _changed:
        while (other := _holds.get(path)) is not None:
            left_s = until_s - time.monotonic()
            if not other.is_closing or left_s <= 0:
                raise GraphError("busy", "this process has it open already")
            del other
            _changed.wait(min(left_s, 0.1))
        hold = _holds[path] = FileHold(path)
    return hold
