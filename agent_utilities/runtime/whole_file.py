"""Files that are swapped whole: a reader, or a kill in the middle, finds the old content or the new one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes, *, mode: int = 0o600, partial_suffix: str = "") -> None:
    """Put content in place of what a file held, on the disk by the time that it is seen.

    Args:
        path: the file; its folder must be there.
        content: all of it.
        mode: the file's permissions.
        partial_suffix: how the name of an unfinished file ends, which a kill may leave behind.

    Raises:
        OSError: it can't be written; the file is as it was.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=partial_suffix, dir=path.parent)  # mode 0600
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if mode != 0o600:
            os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
