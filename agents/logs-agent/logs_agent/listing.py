"""`list_logs`: which log files there are."""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, NotRequired

from fastmcp.exceptions import ToolError
from pydantic import Field
from typing_extensions import TypedDict

from logs_agent.formats import detect
from logs_agent.naming import looks_like_log, rotated, siblings
from logs_agent.reading import Budget, Flaws, is_gzip, lines
from logs_agent.roots import MAX_NAMES, Folder, Roots
from logs_agent.timestamps import shown

MAX_DEPTH = 12
_MAX_LOOKED_AT = 50_000
_SAMPLE_BYTES = 65_536


class LogFile(TypedDict):
    """One log."""

    path: str
    size_bytes: int
    modified: str | None
    format: str
    gzip: NotRequired[bool]
    rotated: NotRequired[list[str]]


class LogFiles(TypedDict):
    """The logs found."""

    logs: list[LogFile]
    truncated: bool


def list_logs(
    folder: Annotated[str, Field(description="Folder to look in; empty: all allowed roots.", max_length=4096)] = "",
    pattern: Annotated[
        str | None,
        Field(
            description="Glob on the file name, e.g. '*.log'; default: whatever looks like a log.",
            max_length=200,
        ),
    ] = None,
    recursive: Annotated[bool, Field(description="Look into subfolders too.")] = True,
    limit: Annotated[int, Field(description="Most logs to list.", ge=1, le=1000)] = 200,
) -> LogFiles:
    """List log files for analysis: path, size, last change, detected format and rotated siblings."""
    roots = Roots.from_env()
    walk = _Walk(pattern)
    found: list[LogFile] = []
    for start in [folder] if folder else ["", *roots.paths[1:]]:
        with roots.folder(start) as opened:
            for log in walk.below(opened, MAX_DEPTH if recursive else None):
                if len(found) == limit:
                    return LogFiles(logs=found, truncated=True)
                found.append(log)
    return LogFiles(logs=found, truncated=walk.cut)


@dataclass
class _Walk:
    """A walk over folders; `cut` once it left something out for being too deep or too much."""

    pattern: str | None
    looked_at: int = 0
    cut: bool = False

    def below(self, folder: Folder, depth: int | None) -> Iterator[LogFile]:
        """Yield the logs in a folder and `depth` levels of subfolders, `None` for the folder alone."""
        names = folder.names()
        listed = set(names)
        deeper = []
        self.cut = self.cut or len(names) == MAX_NAMES
        for name in names:
            self.looked_at += 1
            if self.looked_at > _MAX_LOOKED_AT:
                self.cut = True
                return
            if depth is not None and not name.startswith(".") and _is_folder(folder, name):
                deeper.append(name)
            elif self._wants(name, listed):
                with suppress(ToolError):  # gone meanwhile, unreadable or no regular file
                    yield _described(folder, name, siblings(name, names))
        if depth == 0:
            self.cut = self.cut or bool(deeper)
            return
        for name in deeper:
            with suppress(ToolError), folder.enter(name) as inner:
                yield from self.below(inner, None if depth is None else depth - 1)

    def _wants(self, name: str, listed: set[str]) -> bool:
        if self.pattern:
            return fnmatch.fnmatchcase(name, self.pattern)
        base = rotated(name)
        return looks_like_log(name) and not (base and base[0] in listed)


def _is_folder(folder: Folder, name: str) -> bool:
    with suppress(OSError):
        return stat.S_ISDIR(os.stat(name, dir_fd=folder.fd, follow_symlinks=False).st_mode)
    return False


def _described(folder: Folder, name: str, older: list[str]) -> LogFile:
    fd = folder.open(name)
    try:
        status, packed = os.fstat(fd), is_gzip(fd)
        budget = Budget(_SAMPLE_BYTES, float("inf"), 0)
        sample = list(islice(lines(fd, name, budget, Flaws()), 50))
    finally:
        os.close(fd)
    log = LogFile(
        path=folder.shows(name),
        size_bytes=status.st_size,
        modified=shown(status.st_mtime),
        format=detect(sample) if sample else "empty",
    )
    if packed:
        log["gzip"] = True
    if older:
        log["rotated"] = [folder.shows(sibling) for sibling in older]
    return log
