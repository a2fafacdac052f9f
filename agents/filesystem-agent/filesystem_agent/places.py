"""A place: one name in one open directory, which is what tools act on, so that no path is looked up twice."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice

from fastmcp.exceptions import ToolError

from filesystem_agent.errors import explaining, reason, refusal
from filesystem_agent.names import is_plain

N_NAMES_COMPARED = 2_000
KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
}


def kind_of(mode: int) -> str:
    """Return the kind of file a mode stands for; block and character devices are both `device`."""
    return KINDS.get(stat.S_IFMT(mode), "device")


@dataclass(frozen=True)
class Place:
    """One name in one open directory. It may name nothing yet."""

    parent_fd: int
    name: str
    """A single component; `.` where the place is a root."""
    shown: str
    """The path as the caller knows it."""

    def stat(self) -> os.stat_result:
        """Return the state of what is here, a symlink being itself."""
        try:
            return os.stat(self.name, dir_fd=self.parent_fd, follow_symlinks=False)
        except FileNotFoundError as error:
            raise missing(self.parent_fd, self.name, self.shown) from error
        except OSError as error:
            raise refusal(reason(error), self.shown) from error

    def stat_or_none(self) -> os.stat_result | None:
        """Return the state of what is here, or `None` where nothing is."""
        with explaining(self.shown):
            try:
                return os.stat(self.name, dir_fd=self.parent_fd, follow_symlinks=False)
            except FileNotFoundError:
                return None

    @contextmanager
    def open_file(self) -> Iterator[int]:
        """Yield a descriptor for reading a regular file.

        What is not regular is refused before it is opened, since opening alone can act (a FIFO wakes its
        writer, a device may start); what is swapped in between is opened without blocking and refused after.
        """
        self._require_regular(self.stat().st_mode)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with explaining(self.shown):
            fd = os.open(self.name, flags, dir_fd=self.parent_fd)
        try:
            self._require_regular(os.fstat(fd).st_mode)
            yield fd
        finally:
            os.close(fd)

    def _require_regular(self, mode: int) -> None:
        if stat.S_ISDIR(mode):
            raise refusal("it is a directory, not a file", self.shown)
        if not stat.S_ISREG(mode):
            raise refusal(f"it is not a regular file but a {kind_of(mode)}", self.shown)

    @contextmanager
    def open_directory(self) -> Iterator[int]:
        """Yield a descriptor for listing a directory."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        if not stat.S_ISDIR(mode := self.stat().st_mode):
            raise refusal(f"it is not a directory but a {kind_of(mode)}", self.shown)
        with explaining(self.shown):
            fd = os.open(self.name, flags, dir_fd=self.parent_fd)
        try:
            yield fd
        finally:
            os.close(fd)


def missing(parent_fd: int, name: str, shown: str) -> ToolError:
    """Return the refusal for a name that names nothing, with the nearest one in the same directory."""
    hint = ""
    try:
        listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent_fd)
    except OSError:
        return refusal("no such file or directory", shown)
    try:
        with os.scandir(listing) as entries:
            present = [entry.name for entry in islice(entries, N_NAMES_COMPARED) if is_plain(entry.name)]
        if close := get_close_matches(name, present, 1):
            hint = f"nearest: {shown[: len(shown) - len(name)] + close[0]!r}"
    finally:
        os.close(listing)
    return refusal("no such file or directory", shown, hint)
