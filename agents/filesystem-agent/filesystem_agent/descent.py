"""From path text to a place.

Each component is opened relative to the descriptor of the one before, without following symlinks. Where a
tool only reads, a symlink is read as text and its names are walked again from a root's descriptor, under the
same rule: the kernel never follows a link for us, so no swap between a check and its use can lead outside.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from fastmcp.exceptions import ToolError

from filesystem_agent.errors import reason, refusal
from filesystem_agent.names import split_names
from filesystem_agent.places import Place, missing
from filesystem_agent.workspace import TRAVERSE, Root, Workspace

N_MAX_DETOURS = 300

Detour = tuple[Root, tuple[str, ...]]


@contextmanager
def place_to_read(workspace: Workspace, path: str, *, keep_last: bool = False) -> Iterator[Place]:
    """Yield the place a path leads to, through symlinks as long as they stay inside the roots.

    Args:
        keep_last: stop at a symlink in the last component, which is then the place itself.
    """
    root, names = workspace.match(path)
    for _ in range(N_MAX_DETOURS):
        step = _descend(workspace, root, names, path, follow_links=True, keep_last=keep_last)
        if isinstance(step, Place):
            try:
                yield step
            finally:
                os.close(step.parent_fd)
            return
        root, names = step
    raise refusal("path goes through too many symlinks", path)


@contextmanager
def place_to_change(workspace: Workspace, path: str) -> Iterator[Place]:
    """Yield the place a path names; a symlink before the last component is refused, and so is `..`."""
    root, names = workspace.match(path)
    if not names:
        raise refusal("an allowed root itself can't be changed", path)
    if ".." in names:
        raise refusal("path contains '..'", path, "write the path without it")
    step = _descend(workspace, root, names, path, follow_links=False, keep_last=True)
    assert isinstance(step, Place)
    try:
        yield step
    finally:
        os.close(step.parent_fd)


def _descend(
    workspace: Workspace,
    root: Root,
    names: tuple[str, ...],
    asked: str,
    *,
    follow_links: bool,
    keep_last: bool,
) -> Place | Detour:
    """Return the place `names` lead to, or the names to walk instead once a link or `..` was met."""
    fd = os.open(".", TRAVERSE, dir_fd=root.fd)
    try:
        for index, name in enumerate(names):
            if name == "..":
                if index == 0:
                    raise workspace.outside(asked)
                return root, names[: index - 1] + names[index + 1 :]
            is_last = index == len(names) - 1
            shown = workspace.shown(root, names[: index + 1])
            if not is_last and (below := _open_below(fd, name, shown)) is not None:
                os.close(fd)
                fd = below
                continue
            target = None if is_last and keep_last else _link_target(fd, name, shown)
            if target is not None:
                if not follow_links:
                    raise refusal("path goes through a symlink", shown, "changes are made on real paths only")
                return _after_link(workspace, root, names, index, target)
            if not is_last:
                raise refusal("it is not a directory", shown)
        name = names[-1] if names else "."
        place, fd = Place(fd, name, workspace.shown(root, names)), -1
        return place
    finally:
        if fd >= 0:
            os.close(fd)


def _open_below(fd: int, name: str, shown: str) -> int | None:
    """Return a descriptor of a directory, or `None` for what is no directory, such as a link to one."""
    try:
        return os.open(name, TRAVERSE | os.O_NOFOLLOW, dir_fd=fd)
    except FileNotFoundError as error:
        raise missing(fd, name, shown) from error
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            return None
        raise refusal(reason(error), shown) from error


def _after_link(workspace: Workspace, root: Root, names: tuple[str, ...], index: int, target: str) -> Detour:
    """Return the names to walk once the link at `index` is replaced by what it says."""
    link = workspace.shown(root, names[: index + 1])
    try:
        if not target.startswith("/"):
            return root, split_names("/".join((*names[:index], target, *names[index + 1 :])))
        start_root, start = workspace.match(target)
    except ToolError:
        raise refusal("a symlink leads outside the allowed roots", link) from None
    return start_root, start + names[index + 1 :]


def _link_target(parent_fd: int, name: str, shown: str) -> str | None:
    """Return what a symlink says, or `None` for what is no symlink."""
    try:
        return os.readlink(name, dir_fd=parent_fd)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise refusal(reason(error), shown) from error
