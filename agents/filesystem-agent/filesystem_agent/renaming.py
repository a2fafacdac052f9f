"""Renames that never overwrite."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from functools import cache
from typing import Any

RENAME_NOREPLACE = 1  # Linux, renameat2
RENAME_EXCL = 4  # macOS, renameatx_np
NOT_OFFERED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def rename_exclusive(src_fd: int, src: str, dst_fd: int, dst: str) -> None:
    """Rename `src` to `dst` in one step, which fails if `dst` exists.

    Where the file system can't do that, a file is linked and unlinked (never overwrites; for a moment it
    bears both names), and a directory is renamed after a look (the system then spares all but an empty one).

    Raises:
        FileExistsError: `dst` exists.
        OSError: the system refuses for another reason.
    """
    call = _exclusive_call()
    if call is not None:
        function, flag = call
        if function(src_fd, os.fsencode(src), dst_fd, os.fsencode(dst), flag) == 0:
            return
        code = ctypes.get_errno()
        if code not in NOT_OFFERED:
            raise OSError(code, os.strerror(code))
    if stat.S_ISDIR(os.stat(src, dir_fd=src_fd, follow_symlinks=False).st_mode):
        try:
            os.stat(dst, dir_fd=dst_fd, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(src, dst, src_dir_fd=src_fd, dst_dir_fd=dst_fd)
            return
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    os.link(src, dst, src_dir_fd=src_fd, dst_dir_fd=dst_fd, follow_symlinks=False)
    os.unlink(src, dir_fd=src_fd)


@cache
def _exclusive_call() -> tuple[Any, int] | None:
    name, flag = ("renameatx_np", RENAME_EXCL) if sys.platform == "darwin" else ("renameat2", RENAME_NOREPLACE)
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if function is None:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    function.restype = ctypes.c_int
    return function, flag
