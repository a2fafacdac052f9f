"""`list_directories` and `file_info`: what is where."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastmcp.exceptions import ToolError
from pydantic import Field

from filesystem_agent.budget import Budget
from filesystem_agent.contents import read_part, read_whole, sha256_hex
from filesystem_agent.descent import place_to_read
from filesystem_agent.errors import explaining
from filesystem_agent.places import Place, kind_of
from filesystem_agent.text import N_SAMPLE_BYTES, is_binary
from filesystem_agent.walking import Entry, Walk
from filesystem_agent.workspace import Workspace

DirectoryPath = Annotated[str, Field(description="Directory, relative to the first root or absolute.")]


@dataclass(frozen=True)
class ListedEntry:
    """One entry; `is_addressable` is false for names no tool accepts, shown with escapes."""

    path: str
    kind: str
    size_bytes: int | None
    modified: str | None
    is_addressable: bool = True


@dataclass(frozen=True)
class Listing:
    """Entries in name order; `stopped_at` names the limit that cut the list."""

    path: str
    entries: list[ListedEntry]
    truncated: bool
    stopped_at: str | None
    n_unreadable: int


@dataclass(frozen=True)
class FileInfo:
    """What the system knows of a path. `link_target` is where a symlink leads, if inside the roots."""

    path: str
    kind: str
    size_bytes: int
    modified: str
    mode: str
    n_hard_links: int
    is_binary: bool | None = None
    sha256: str | None = None
    link_target: str | None = None


def list_directories(
    workspace: Workspace,
    /,
    path: DirectoryPath = ".",
    depth: Annotated[int, Field(description="Levels to show.", ge=1, le=20)] = 1,
    directories_only: Annotated[bool, Field(description="Leave out files.")] = False,
) -> Listing:
    """List the entries of a directory with kind, size and time, several levels deep if asked."""
    budget = Budget(workspace.settings)
    max_entries = workspace.settings.max_entries
    walk = Walk(budget, enter=lambda entry: len(entry.relative) < depth)
    found: list[ListedEntry] = []
    with (
        place_to_read(workspace, path) as place,
        place.open_directory() as fd,
        closing(walk.entries(fd)) as met,
    ):
        for entry in met:
            if directories_only and entry.kind != "directory":
                continue
            if len(found) == max_entries:
                budget.stop(f"limit of {max_entries} entries")
                break
            found.append(_listed(place, entry))
    return Listing(place.shown, found, budget.spent is not None, budget.spent, walk.n_unreadable)


def file_info(
    workspace: Workspace,
    /,
    path: Annotated[str, Field(description="File or directory, relative to the first root or absolute.")],
    with_sha256: Annotated[bool, Field(description="Also hash the file's content.")] = False,
) -> FileInfo:
    """Show kind, size, time, permissions and optionally the hash of a path; a symlink is described itself."""
    with place_to_read(workspace, path, keep_last=True) as place:
        state = place.stat()
        if not stat.S_ISREG(state.st_mode):
            target = _target_inside(workspace, path) if stat.S_ISLNK(state.st_mode) else None
            return _info(place, state, link_target=target)
        try:
            with place.open_file() as fd, explaining(place.shown):
                return _info(
                    place,
                    os.fstat(fd),
                    is_binary=is_binary(read_part(fd, 0, N_SAMPLE_BYTES)),
                    sha256=_sha256(workspace, fd, place) if with_sha256 else None,
                )
        except ToolError:
            if with_sha256:
                raise
            return _info(place, state)


def shown_below(place: Place, entry: Entry) -> str:
    """Return the path of an entry met on a walk that started at `place`."""
    relative = "/".join(entry.relative)
    return relative if place.shown == "." else f"{place.shown.rstrip('/')}/{relative}"


def _listed(place: Place, entry: Entry) -> ListedEntry:
    state = entry.stat()
    return ListedEntry(
        shown_below(place, entry),
        entry.kind,
        state.st_size if state and stat.S_ISREG(state.st_mode) else None,
        _time(state.st_mtime) if state else None,
        entry.is_plain,
    )


def _info(
    place: Place,
    state: os.stat_result,
    *,
    is_binary: bool | None = None,
    sha256: str | None = None,
    link_target: str | None = None,
) -> FileInfo:
    return FileInfo(
        place.shown,
        kind_of(state.st_mode),
        state.st_size,
        _time(state.st_mtime),
        f"{stat.S_IMODE(state.st_mode):04o}",
        state.st_nlink,
        is_binary,
        sha256,
        link_target,
    )


def _sha256(workspace: Workspace, fd: int, place: Place) -> str:
    return sha256_hex(read_whole(fd, workspace.settings.max_read_bytes, place.shown))


def _target_inside(workspace: Workspace, path: str) -> str | None:
    try:
        with place_to_read(workspace, path) as target:
            target.stat()
            return target.shown
    except ToolError:
        return None


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError):
        return f"{seconds:.0f} s since 1970"
