"""Atomic writes: readers see the old file or the new one, and a failure leaves the old one and nothing else.

New content goes to a file in the same directory, is flushed to disk, and then takes the name in one step. On
Linux that file has no name until then (`O_TMPFILE`), so that not even a killed server leaves one behind.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from fastmcp.exceptions import ToolError

from filesystem_agent.contents import read_whole, sha256_hex
from filesystem_agent.errors import explaining, refusal
from filesystem_agent.places import Place, kind_of
from filesystem_agent.renaming import rename_exclusive
from filesystem_agent.workspace import Workspace

PERMISSION_BITS = 0o777
ACL = "system.posix_acl_access"
NO_UNNAMED_FILES = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


@dataclass
class Staged:
    """Content on disk that has no name in the directory yet, or only a temporary one."""

    fd: int
    temporary_name: str | None


def replace_file(
    workspace: Workspace,
    place: Place,
    data: bytes,
    *,
    create_only: bool = False,
    expected_sha256: str | None = None,
) -> bool:
    """Make `data` the content of the file at `place`; return whether the file is new.

    The file keeps its permission bits, access list and, where the system allows, its owner. Set-id bits are
    dropped, as the system does on any write.

    Args:
        create_only: refuse if anything is here already.
        expected_sha256: refuse unless the current content has this digest. Changes made through this server
            are ordered by one lock, so that none is lost between the look and the rename.

    Raises:
        ToolError: the write is refused or the system can't do it; the old content stands.
    """
    max_bytes = workspace.settings.max_write_bytes
    if len(data) > max_bytes:
        raise refusal(f"content is larger than {max_bytes} bytes", place.shown)
    old = place.stat_or_none()
    _require_writable(place, old, create_only, expected_sha256)
    with explaining(place.shown), _staged(place, data, old) as staged:
        with workspace.commit_lock:
            now = place.stat_or_none()
            _require_writable(place, now, create_only, expected_sha256)
            if expected_sha256 is not None:
                _require_content(workspace, place, expected_sha256)
            _publish(place, staged, create_only)
        flush_directory(place.parent_fd)
    return old is None


def _require_writable(place: Place, old: os.stat_result | None, create_only: bool, expected_sha256: str | None) -> None:
    if old is None:
        if expected_sha256 is not None:
            raise refusal("there is no file with the expected content", place.shown)
        return
    if stat.S_ISDIR(old.st_mode):
        raise refusal("it is a directory, not a file", place.shown)
    if not stat.S_ISREG(old.st_mode):
        raise refusal(f"it is not a regular file but a {kind_of(old.st_mode)}", place.shown)
    if create_only:
        raise refusal("file exists already", place.shown, "leave out create_only to replace it")
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    with explaining(place.shown), suppress(FileNotFoundError):
        try:
            os.close(os.open(place.name, flags, dir_fd=place.parent_fd))
        except OSError as error:
            if error.errno != errno.ETXTBSY:
                raise


def _require_content(workspace: Workspace, place: Place, expected_sha256: str) -> None:
    limit = max(workspace.settings.max_read_bytes, workspace.settings.max_write_bytes)
    with place.open_file() as fd:
        actual = sha256_hex(read_whole(fd, limit, place.shown))
    if actual != expected_sha256.lower():
        raise refusal("file has changed since it was read", place.shown, f"its sha256 is {actual}; view it again")


@contextmanager
def _staged(place: Place, data: bytes, old: os.stat_result | None) -> Iterator[Staged]:
    staged = _open_staged(place.parent_fd, 0o666 if old is None else 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(staged.fd, view) :]
        if old is not None:
            _keep_access(place, staged.fd, old)
        os.fsync(staged.fd)
        yield staged
    finally:
        os.close(staged.fd)
        if staged.temporary_name is not None:
            with suppress(FileNotFoundError):
                os.unlink(staged.temporary_name, dir_fd=place.parent_fd)


def _open_staged(parent_fd: int, mode: int) -> Staged:
    unnamed = getattr(os, "O_TMPFILE", 0)
    if unnamed and os.path.isdir("/proc/self/fd"):
        try:
            return Staged(os.open(".", unnamed | os.O_WRONLY | os.O_CLOEXEC, mode, dir_fd=parent_fd), None)
        except OSError as error:
            if error.errno not in NO_UNNAMED_FILES:
                raise
    name = _temporary_name()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return Staged(os.open(name, flags, mode, dir_fd=parent_fd), name)


def _temporary_name() -> str:
    return f".{secrets.token_hex(8)}.tmp"


def _keep_access(place: Place, fd: int, old: os.stat_result) -> None:
    """Give the new file the access rules of the old one; never wider ones."""
    new = os.fstat(fd)
    mode = stat.S_IMODE(old.st_mode) & PERMISSION_BITS
    for owner in (old.st_uid, -1):
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            with suppress(PermissionError):
                os.fchown(fd, owner, old.st_gid)
                new = os.fstat(fd)
    if new.st_gid != old.st_gid:
        mode &= ~stat.S_IRWXG
    if hasattr(os, "listxattr"):
        _copy_attributes(place, fd)
    os.fchmod(fd, mode)


def _copy_attributes(place: Place, fd: int) -> None:
    """Copy the user's attributes and the access list; drop a list inherited from the directory."""
    try:
        with place.open_file() as old_fd:
            attributes = {name: os.getxattr(old_fd, name) for name in os.listxattr(old_fd) if _is_kept(name)}
    except (OSError, ToolError):
        attributes = {}
    if ACL not in attributes:
        with suppress(OSError):
            os.removexattr(fd, ACL)
    for name, value in attributes.items():
        try:
            os.setxattr(fd, name, value)
        except OSError:
            if name == ACL:
                raise


def _is_kept(name: str) -> bool:
    return name == ACL or name.startswith("user.")


def _publish(place: Place, staged: Staged, create_only: bool) -> None:
    if staged.temporary_name is None:
        name = place.name if create_only else _temporary_name()
        os.link(f"/proc/self/fd/{staged.fd}", name, dst_dir_fd=place.parent_fd, follow_symlinks=True)
        if create_only:
            return
        staged.temporary_name = name
    if create_only:
        rename_exclusive(place.parent_fd, staged.temporary_name, place.parent_fd, place.name)
    else:
        os.rename(staged.temporary_name, place.name, src_dir_fd=place.parent_fd, dst_dir_fd=place.parent_fd)
    staged.temporary_name = None


def flush_directory(parent_fd: int) -> None:
    """Make a new name last over a power loss; a directory that can't be opened or flushed is no failure."""
    with suppress(OSError):
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent_fd)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
