"""Rotated siblings on disk: shift, pack and prune them without ever losing a line.

The live log is linked as `.1` and only then taken from its old name, so it has a name at every moment;
nothing is ever renamed over another file; a file is packed or pruned only when no process writes to it.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import secrets
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fastmcp.exceptions import ToolError

from logs_agent.naming import number_of, rotated
from logs_agent.roots import Folder

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)
"""Where hard links are refused, a rename under the lock has to do."""
_LOCK_WAIT_S = 5.0
_LOCK_POLL_S = 0.05


@contextmanager
def locked(folder: Folder) -> Iterator[None]:
    """Hold the folder's lock, so that two rotations in it never interleave.

    Raises:
        ToolError: another one held it for five seconds.
    """
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder.fd)
    try:
        give_up = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise ToolError("another rotation in this folder is under way; try again later") from None
                time.sleep(_LOCK_POLL_S)
        yield
    finally:
        os.close(fd)


def has_writer(fd: int) -> bool | None:
    """Whether any process has the file open for writing; `None` where the system can't tell.

    A read lease is granted only on a file nobody has open for writing (Linux, own files).
    """
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # ignored by default, should someone break the lease
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except AttributeError:
        return None
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def numbered(folder: Folder, name: str) -> dict[int, list[str]]:
    """Return the numbered siblings of a log: number to names, packed or not."""
    found: dict[int, list[str]] = {}
    for other in folder.names():
        match, number = rotated(other), number_of(other)
        if match and number is not None and match[0] == name and other[len(name)] == ".":
            found.setdefault(number, []).append(other)
    return found


def shift(folder: Folder, name: str) -> None:
    """Make `.1` free: move each sibling without a gap below it one number up, the highest first."""
    taken = numbered(folder, name)
    top = 0
    while top + 1 in taken:
        top += 1
    for number in range(top, 0, -1):
        for old in taken[number]:
            suffix = old[len(f"{name}.{number}") :]
            move(folder, old, f"{name}.{number + 1}{suffix}")


def move(folder: Folder, old: str, new: str) -> None:
    """Rename a file within the folder, never over another one."""
    folder.stat(old)
    try:
        os.link(old, new, src_dir_fd=folder.fd, dst_dir_fd=folder.fd, follow_symlinks=False)
    except FileExistsError:
        raise ToolError(f"cannot move {folder.shows(old)!r}: {folder.shows(new)!r} is there already") from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if new in folder.names():
            raise ToolError(f"cannot move {folder.shows(old)!r}: {folder.shows(new)!r} is there already") from None
        os.rename(old, new, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
        return
    aside = f".{old}.{secrets.token_hex(8)}"
    os.rename(old, aside, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
    moved, linked = (os.stat(each, dir_fd=folder.fd, follow_symlinks=False) for each in (aside, new))
    if (moved.st_dev, moved.st_ino) == (linked.st_dev, linked.st_ino):
        os.unlink(aside, dir_fd=folder.fd)
    else:  # another program put a new file under the old name in between: give it its name back
        os.link(aside, old, src_dir_fd=folder.fd, dst_dir_fd=folder.fd, follow_symlinks=False)
        os.unlink(aside, dir_fd=folder.fd)


def create_empty(folder: Folder, name: str, like: os.stat_result) -> None:
    """Create the live log anew with the old one's mode and owner, unless its writer already has."""
    with suppress(FileExistsError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(name, flags, 0o600, dir_fd=folder.fd)
        try:
            with suppress(PermissionError):
                os.fchown(fd, like.st_uid, like.st_gid)
            os.fchmod(fd, like.st_mode & 0o777)
        finally:
            os.close(fd)


def pack(folder: Folder, name: str) -> bool:
    """Replace a rotated file by its gzip; `False`, leaving it as it is, when it may still be written to."""
    fd = folder.open(name)
    partial = f".{name}.{secrets.token_hex(8)}"
    try:
        if has_writer(fd) is not False:  # asked again below, when it counts; this spares the work
            return False
        before = os.fstat(fd)
        out = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder.fd)
        try:
            with open(out, "wb") as raw, open(fd, "rb", closefd=False) as source:
                with gzip.GzipFile("", "wb", fileobj=raw, mtime=before.st_mtime) as packed:
                    shutil.copyfileobj(source, packed, 1 << 20)
                raw.flush()
                with suppress(PermissionError):
                    os.fchown(raw.fileno(), before.st_uid, before.st_gid)
                os.fchmod(raw.fileno(), before.st_mode & 0o777)
                os.utime(raw.fileno(), ns=(before.st_atime_ns, before.st_mtime_ns))
                os.fsync(raw.fileno())
                if source.tell() != os.fstat(fd).st_size or has_writer(fd) is not False:
                    return False
            try:
                os.link(partial, f"{name}.gz", src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
            except FileExistsError:
                return False
            os.fsync(folder.fd)
            os.unlink(name, dir_fd=folder.fd)
            return True
        finally:
            os.unlink(partial, dir_fd=folder.fd)
    finally:
        os.close(fd)


def prune(folder: Folder, name: str) -> bool:
    """Delete a file; `False`, leaving it, when a process has it open for writing."""
    fd = folder.open(name)
    try:
        if has_writer(fd):
            return False
        os.unlink(name, dir_fd=folder.fd)
        return True
    finally:
        os.close(fd)
