"""Roots: the folders the server may look into, and the only way from a path to an open file.

Every component below a root is opened on its own, relative to the folder before it and without following
symlinks, so nothing outside a root is reached even when folders are swapped for links meanwhile.
"""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from fastmcp.exceptions import ToolError

ROOTS_ENV: Final = "LOGS_AGENT_ROOTS"
MAX_NAMES = 20_000
"""Most names of one folder that are looked at."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True)
class Folder:
    """An open folder at or below a root."""

    fd: int
    shown: str
    """Its path as callers see it, `''` for the first root itself."""

    def shows(self, name: str) -> str:
        """Return the path a caller can use for a name in this folder."""
        return f"{self.shown.rstrip('/')}/{name}" if self.shown else name

    def names(self) -> list[str]:
        """Return its entries' names, sorted; names that aren't UTF-8 are left out."""
        with os.scandir(self.fd) as entries:
            names = [entry.name for _, entry in zip(range(MAX_NAMES), entries, strict=False)]
        return sorted(name for name in names if _is_text(name))

    def stat(self, name: str) -> os.stat_result:
        """Return the status of an entry that must be a regular file.

        Raises:
            ToolError: there is none, or it is a link, folder, device, pipe or socket.
        """
        with _refusals(self, name):
            status = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            raise ToolError(f"not a regular file: {self.shows(name)!r} is a {_kind(status.st_mode)}")
        return status

    def open(self, name: str) -> int:
        """Return a read-only descriptor of a regular file in the folder; the caller closes it."""
        self.stat(name)
        with _refusals(self, name):
            fd = os.open(name, _FILE, dir_fd=self.fd)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise ToolError(f"not a regular file: {self.shows(name)!r}")
        return fd

    @contextmanager
    def enter(self, name: str) -> Iterator[Folder]:
        """Open a folder inside this one."""
        with _refusals(self, name):
            mode = os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_mode
            if not stat.S_ISDIR(mode):
                raise ToolError(f"not a folder: {self.shows(name)!r} is a {_kind(mode)}")
            fd = os.open(name, _FOLDER, dir_fd=self.fd)
        try:
            yield Folder(fd, self.shows(name))
        finally:
            os.close(fd)


@dataclass(frozen=True)
class Roots:
    """The allowed folders; a relative path is taken from the first."""

    paths: tuple[str, ...]

    @classmethod
    def from_env(cls) -> Roots:
        """Return the folders of `LOGS_AGENT_ROOTS` (`os.pathsep` between them), or the working folder."""
        given = [part for part in os.environ.get(ROOTS_ENV, "").split(os.pathsep) if part.strip()]
        return cls(tuple(os.path.abspath(os.path.expanduser(part)) for part in given) or (os.getcwd(),))

    @contextmanager
    def folder(self, path: str = "") -> Iterator[Folder]:
        """Open a folder; `''` and `'.'` are the first root."""
        root, parts = self._split(path, what="folder")
        with self._descend(root, parts) as folder:
            yield folder

    @contextmanager
    def parent(self, path: str) -> Iterator[tuple[Folder, str]]:
        """Open the folder a file stands in, and yield it with the file's name."""
        root, parts = self._split(path, what="log")
        if not parts:
            raise ToolError(f"not a log file: {path!r} is a folder; list_logs shows the logs in it")
        with self._descend(root, parts[:-1]) as folder:
            yield folder, parts[-1]

    @contextmanager
    def _descend(self, root: int, parts: list[str]) -> Iterator[Folder]:
        with ExitStack() as stack:
            try:
                fd = os.open(self.paths[root], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as error:
                raise ToolError(f"cannot open root {root + 1} of {ROOTS_ENV}: {error.strerror}") from None
            stack.callback(os.close, fd)
            folder = Folder(fd, "" if root == 0 else self.paths[root])
            for part in parts:
                folder = stack.enter_context(folder.enter(part))
            yield folder

    def _split(self, path: str, what: str) -> tuple[int, list[str]]:
        if "\0" in path or not _is_text(path) or len(path) > 4096:
            raise ToolError(f"not a path: {path[:60]!r} for a {what}")
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ToolError(f"'..' is not allowed: {path!r}; give a path below a root, as list_logs shows it")
        if not path.startswith("/"):
            return 0, parts
        for number, root in enumerate(self.paths):
            for spelling in (root, os.path.realpath(root)):
                above = [part for part in spelling.split("/") if part]
                if parts[: len(above)] == above:
                    return number, parts[len(above) :]
        raise ToolError(f"outside the allowed roots: {path!r}; list_logs shows the logs within")


@contextmanager
def _refusals(folder: Folder, name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        near = difflib.get_close_matches(name, folder.names()[:500], n=1, cutoff=0.5)
        hint = f"did you mean {folder.shows(near[0])!r}?" if near else "list_logs shows what there is"
        raise ToolError(f"no such log: {folder.shows(name)!r}; {hint}") from None
    except OSError as error:
        raise ToolError(f"cannot open {folder.shows(name)!r}: {(error.strerror or 'refused').lower()}") from None


def _kind(mode: int) -> str:
    kinds = {stat.S_IFLNK: "symlink, which is never followed", stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe"}
    kinds |= {stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device", stat.S_IFREG: "file"}
    return kinds.get(stat.S_IFMT(mode), "special file")


def _is_text(name: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in name)
