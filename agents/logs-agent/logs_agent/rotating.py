"""`rotate_log` and `delete_log`: the two tools that change anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NotRequired

from fastmcp.exceptions import ToolError
from pydantic import Field
from typing_extensions import TypedDict

from logs_agent.naming import looks_like_log, rotated, siblings
from logs_agent.parameters import LogPath
from logs_agent.roots import Folder, Roots
from logs_agent.rotation import create_empty, has_writer, locked, move, numbered, pack, prune, shift


class Rotation(TypedDict):
    """What was done. `writer_attached`: a process still writes to the rotated file (null: can't be told)."""

    rotated: bool
    path: str
    rotated_to: str | None
    writer_attached: bool | None
    compressed: list[str]
    deleted: list[str]
    notes: NotRequired[list[str]]


class Deletion(TypedDict):
    """What delete_log removed."""

    deleted: list[str]
    freed_bytes: int


def rotate_log(
    path: LogPath,
    keep: Annotated[int, Field(description="Rotated files to keep; older ones are deleted.", ge=1, le=1000)] = 7,
    compress: Annotated[bool, Field(description="Gzip rotated files no process has open for writing.")] = False,
) -> Rotation:
    """Rotate a log: rename it to .1 (older ones move up), start an empty one, keep n, optionally gzip.

    Safe beside a running writer: no line is lost, and a file still written to is neither packed nor deleted.
    """
    notes: list[str] = []
    with Roots.from_env().parent(path) as (folder, name), locked(folder), _told(folder, name):
        _check_log(folder, name)
        match = rotated(name)
        if match and match[0] in folder.names():
            raise ToolError(f"already rotated: {folder.shows(name)!r}; rotate {folder.shows(match[0])!r} instead")
        live = folder.stat(name)
        target = None
        attached: bool | None = None
        if live.st_size:
            shift(folder, name)
            move(folder, name, f"{name}.1")
            create_empty(folder, name, live)
            target = f"{name}.1"
            attached = _attached(folder, target)
        else:
            notes.append("the log is empty: nothing was rotated")
        deleted = _prune_old(folder, name, keep, notes)
        compressed = _pack_all(folder, name, notes) if compress else []
        if target and f"{target}.gz" in compressed:
            target = f"{target}.gz"
        result = Rotation(
            rotated=target is not None,
            path=folder.shows(name),
            rotated_to=folder.shows(target) if target else None,
            writer_attached=attached,
            compressed=[folder.shows(each) for each in compressed],
            deleted=[folder.shows(each) for each in deleted],
        )
        if attached:
            notes.append("a process goes on writing to the rotated file until it reopens its log")
        if notes:
            result["notes"] = notes
        return result


def delete_log(
    path: LogPath,
    include_rotated: Annotated[bool, Field(description="Delete its rotated siblings too.")] = False,
    even_if_open: Annotated[bool, Field(description="Delete though a process has it open for writing.")] = False,
) -> Deletion:
    """Delete a log file for good, optionally its rotated siblings. Refused while a process writes to it."""
    with Roots.from_env().parent(path) as (folder, name), locked(folder), _told(folder, name):
        _check_log(folder, name)
        doomed = [*(siblings(name, folder.names()) if include_rotated else []), name]
        sizes = {each: folder.stat(each).st_size for each in doomed}
        if not even_if_open:
            for each in doomed:
                if _attached(folder, each):
                    raise ToolError(
                        f"a process is writing to {folder.shows(each)!r}: its further lines would be lost; "
                        "use rotate_log, or even_if_open=true"
                    )
        for each in doomed:
            os.unlink(each, dir_fd=folder.fd)
        return Deletion(deleted=[folder.shows(each) for each in doomed], freed_bytes=sum(sizes.values()))


def _check_log(folder: Folder, name: str) -> None:
    folder.stat(name)
    if not looks_like_log(name):
        raise ToolError(f"not a log by its name: {folder.shows(name)!r}; only files list_logs shows can be changed")


def _attached(folder: Folder, name: str) -> bool | None:
    fd = folder.open(name)
    try:
        return has_writer(fd)
    finally:
        os.close(fd)


def _prune_old(folder: Folder, name: str, keep: int, notes: list[str]) -> list[str]:
    deleted = []
    for number, names in sorted(numbered(folder, name).items(), reverse=True):
        for each in names if number > keep else []:
            if prune(folder, each):
                deleted.append(each)
            else:
                notes.append(f"{folder.shows(each)!r} was kept: a process is still writing to it")
    return deleted


def _pack_all(folder: Folder, name: str, notes: list[str]) -> list[str]:
    packed = []
    for _, names in sorted(numbered(folder, name).items()):
        for each in names:
            if each.endswith((".gz", ".gzip")):
                continue
            if pack(folder, each):
                packed.append(f"{each}.gz")
            else:
                notes.append(f"{folder.shows(each)!r} was not compressed: it may still be written to")
    return packed


@contextmanager
def _told(folder: Folder, name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolError(f"cannot change {folder.shows(name)!r}: {(error.strerror or 'refused').lower()}") from None
