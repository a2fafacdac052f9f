"""Where a caller's path really is, and whether it may be used."""

from __future__ import annotations

import difflib
import os
import stat
from pathlib import Path

from fastmcp.exceptions import ToolError

from git_agent.settings import Settings
from git_agent.text import checked_name

MAX_SIBLINGS = 500


def locate(settings: Settings, value: str, what: str = "repository") -> Path:
    """Return the real path of `value`, which lies inside the allowed roots.

    A relative path is tried below each root in turn. Symlinks and `..` are resolved before the check,
    and nothing is said about what exists outside.

    Raises:
        ToolError: the path leaves the roots or cannot be a path.
    """
    checked_name(value, what)
    real = [Path(os.path.realpath(root / value)) for root in settings.roots]
    inside = [path for path in real if settings.contains(path)]
    if not inside:
        raise ToolError(f"{what} is outside the allowed roots: {value!r}; use a path relative to one, such as '.'")
    return next((path for path in inside if path.exists()), inside[0])


def require_inside(settings: Settings, path: Path, which: str) -> Path:
    """Return the real path of `path`.

    Args:
        settings: the limits.
        path: where something in a repository points.
        which: that something, as the error names it; the target is not told.

    Raises:
        ToolError: the target is outside the roots.
    """
    real = Path(os.path.realpath(path))
    if not settings.contains(real):
        raise ToolError(f"repository refused: its {which} points outside the allowed roots")
    return real


def read_pointer(path: Path, which: str, max_bytes: int = 4096) -> str | None:
    """Return the text of a small regular file, `None` when there is none.

    Opened without following a last symlink out of the check and without waiting on a pipe.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ToolError(f"repository refused: its {which} cannot be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ToolError(f"repository refused: its {which} is not a regular file")
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes or b"\0" in data:
        raise ToolError(f"repository refused: its {which} is malformed")
    return os.fsdecode(data)


def similar_folder(settings: Settings, path: Path) -> str | None:
    """Return the repository beside `path` whose name is nearest, as a caller may reuse it."""
    parent = path.parent
    if not settings.contains(parent):
        parent = path
    try:
        with os.scandir(parent) as entries:
            names = [entry.name for entry, _ in zip(entries, range(MAX_SIBLINGS), strict=False)]
    except OSError:
        return None
    near = difflib.get_close_matches(path.name, [n for n in names if n != path.name], n=5, cutoff=0.5)
    for name in near:
        if (parent / name / ".git").exists() or (parent / name / "HEAD").exists():
            return settings.shown(parent / name)
    return None
