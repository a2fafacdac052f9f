"""`move_file`, `delete_file`, `create_directory`: which names exist, changed in single steps."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from filesystem_agent.descent import place_to_change
from filesystem_agent.errors import explaining, reason, refusal
from filesystem_agent.places import Place, kind_of
from filesystem_agent.renaming import rename_exclusive
from filesystem_agent.staging import flush_directory
from filesystem_agent.workspace import TRAVERSE, Workspace

NewPath = Annotated[str, Field(description="Relative to the first root or absolute.", min_length=1)]


@dataclass(frozen=True)
class MovedFile:
    """A move that was made."""

    source: str
    destination: str
    kind: Literal["file", "directory"]
    replaced: bool


@dataclass(frozen=True)
class DeletedFile:
    """What was deleted."""

    path: str
    kind: str


@dataclass(frozen=True)
class CreatedDirectory:
    """A directory that exists now; `created` lists the new ones, outermost first."""

    path: str
    created: list[str]


def move_file(
    workspace: Workspace,
    /,
    source: Annotated[str, Field(description="File or directory to move.", min_length=1)],
    destination: Annotated[str, Field(description="Its full new path.", min_length=1)],
    overwrite: Annotated[bool, Field(description="Replace a file at the destination.")] = False,
) -> MovedFile:
    """Move or rename a file or directory in one step."""
    with ExitStack() as stack:
        old = stack.enter_context(place_to_change(workspace, source))
        new = stack.enter_context(place_to_change(workspace, destination))
        stack.enter_context(workspace.commit_lock)
        moved, there = old.stat(), new.stat_or_none()
        if not stat.S_ISREG(moved.st_mode) and not stat.S_ISDIR(moved.st_mode):
            raise refusal(f"only files and directories are moved, not a {kind_of(moved.st_mode)}", old.shown)
        if there is not None:
            if os.path.samestat(moved, there):
                raise refusal("source and destination are the same file", new.shown)
            _require_replaceable(moved, there, new, overwrite)
        with explaining(new.shown):
            _rename(old, new, overwrite and stat.S_ISREG(moved.st_mode))
        flush_directory(new.parent_fd)
        flush_directory(old.parent_fd)
        kind: Literal["file", "directory"] = "directory" if stat.S_ISDIR(moved.st_mode) else "file"
        return MovedFile(old.shown, new.shown, kind, replaced=there is not None)


def delete_file(
    workspace: Workspace,
    /,
    path: Annotated[str, Field(description="File, or symlink (the link itself is deleted).", min_length=1)],
    empty_directory: Annotated[bool, Field(description="Delete an empty directory instead.")] = False,
) -> DeletedFile:
    """Delete one file, or one empty directory when asked. There is no undo."""
    with place_to_change(workspace, path) as place, workspace.commit_lock:
        kind = kind_of(place.stat().st_mode)
        if kind == "directory" and not empty_directory:
            raise refusal("it is a directory, not a file", place.shown, "empty_directory deletes an empty one")
        if kind != "directory" and empty_directory:
            raise refusal(f"it is not a directory but a {kind}", place.shown, "leave out empty_directory")
        if kind not in ("file", "symlink", "directory"):
            raise refusal(f"only files are deleted, not a {kind}", place.shown)
        with explaining(place.shown):
            remove = os.rmdir if empty_directory else os.unlink
            remove(place.name, dir_fd=place.parent_fd)
        flush_directory(place.parent_fd)
        return DeletedFile(place.shown, kind)


def create_directory(
    workspace: Workspace,
    /,
    path: NewPath,
    parents: Annotated[bool, Field(description="Create missing parents too.")] = True,
) -> CreatedDirectory:
    """Create a directory; one that exists already is left as it is."""
    shown, created = make_directories(workspace, path, parents=parents)
    return CreatedDirectory(shown, created)


def make_directories(workspace: Workspace, path: str, *, parents: bool = True) -> tuple[str, list[str]]:
    """Create what is missing of a directory path; return the path as shown and the new ones, outermost first.

    Raises:
        ToolError: a component is no directory or a symlink, or the system refuses.
    """
    root, names = workspace.match(path)
    if ".." in names:
        raise refusal("path contains '..'", path, "write the path without it")
    created: list[str] = []
    fd = os.open(".", TRAVERSE, dir_fd=root.fd)
    try:
        for index, name in enumerate(names):
            shown = workspace.shown(root, names[: index + 1])
            below = _enter(fd, name, shown)
            if below is None:
                if not parents and index < len(names) - 1:
                    raise refusal("parent directory does not exist", shown, "set parents to create it")
                with explaining(shown):
                    try:
                        os.mkdir(name, dir_fd=fd)
                        created.append(shown)
                    except FileExistsError:
                        pass
                    flush_directory(fd)
                    below = os.open(name, TRAVERSE | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = below
    finally:
        os.close(fd)
    return workspace.shown(root, names), created


def _enter(fd: int, name: str, shown: str) -> int | None:
    try:
        return os.open(name, TRAVERSE | os.O_NOFOLLOW, dir_fd=fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise refusal("a file or symlink stands where a directory is needed", shown) from error
        raise refusal(reason(error), shown) from error


def _require_replaceable(moved: os.stat_result, there: os.stat_result, new: Place, overwrite: bool) -> None:
    if not overwrite:
        hint = "set overwrite to replace it" if stat.S_ISREG(there.st_mode) else "choose another name"
        raise refusal("destination exists already", new.shown, hint)
    if not stat.S_ISREG(there.st_mode) or not stat.S_ISREG(moved.st_mode):
        raise refusal("only a file can replace a file", new.shown, "choose another name")


def _rename(old: Place, new: Place, overwrite: bool) -> None:
    try:
        if overwrite:
            os.rename(old.name, new.name, src_dir_fd=old.parent_fd, dst_dir_fd=new.parent_fd)
        else:
            rename_exclusive(old.parent_fd, old.name, new.parent_fd, new.name)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise refusal("a directory can't be moved into itself", new.shown) from error
        if error.errno == errno.EXDEV:
            raise refusal(
                "source and destination are on different file systems, so the move can't be one step",
                new.shown,
                "write a copy and delete the original",
            ) from error
        raise
