"""Walking a tree by descriptors: each directory is opened from its parent's; links are not entered."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import islice

from filesystem_agent.budget import Budget
from filesystem_agent.errors import reason
from filesystem_agent.names import is_plain, shown_name
from filesystem_agent.places import kind_of

N_MAX_DEPTH = 100
OPEN_BELOW = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Entry:
    """One name met on a walk. `parent_fd` is open until the walk goes on."""

    parent_fd: int
    name: str
    relative: tuple[str, ...]
    """Names from where the walk started, shown as they may be shown."""
    kind: str
    is_plain: bool
    """Whether the path can be given back to a tool."""

    def stat(self) -> os.stat_result | None:
        """Return the state of the entry itself, or `None` once it is gone."""
        try:
            return os.stat(self.name, dir_fd=self.parent_fd, follow_symlinks=False)
        except OSError:
            return None


@dataclass
class Walk:
    """A depth-first walk in name order, which tells afterwards what it could not see."""

    budget: Budget
    enter: Callable[[Entry], bool]
    """Decides whether to walk into a directory."""
    n_unreadable: int = 0

    def entries(self, directory_fd: int) -> Generator[Entry, None, None]:
        """Yield every entry below an open directory, directories before what is in them."""
        pending = [(directory_fd, self._names(directory_fd, (), True))]
        try:
            while pending and not self.budget.is_spent():
                fd, entries = pending[-1]
                entry = next(entries, None)
                if entry is None:
                    pending.pop()
                    if pending:
                        os.close(fd)
                    continue
                yield entry
                if entry.kind == "directory" and self.enter(entry):
                    if len(pending) > N_MAX_DEPTH:
                        self.budget.stop(f"depth of {N_MAX_DEPTH} directories")
                    elif (below := self._open(entry)) is not None:
                        pending.append((below, self._names(below, entry.relative, entry.is_plain)))
        finally:
            for fd, _ in pending[1:]:
                os.close(fd)

    def _open(self, entry: Entry) -> int | None:
        try:
            return os.open(entry.name, OPEN_BELOW, dir_fd=entry.parent_fd)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self.budget.stop(reason(error))
            elif error.errno != errno.ENOENT:
                self.n_unreadable += 1
            return None

    def _names(self, fd: int, above: tuple[str, ...], are_plain: bool) -> Iterator[Entry]:
        n_left = self.budget.n_entries_left
        try:
            with os.scandir(fd) as scan:
                found = [(entry.name, _kind(entry)) for entry in islice(scan, n_left + 1)]
        except OSError:
            self.n_unreadable += 1
            return
        self.budget.n_entries_left -= min(len(found), n_left)
        for name, kind in sorted(found[:n_left]):
            yield Entry(fd, name, (*above, shown_name(name)), kind, are_plain and is_plain(name))
        if len(found) > n_left:
            self.budget.stop("limit of scanned entries")


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "symlink"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    if entry.is_file(follow_symlinks=False):
        return "file"
    try:
        return kind_of(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return "gone"
