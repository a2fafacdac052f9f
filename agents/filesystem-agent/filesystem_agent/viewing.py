"""`view_file`: what a file says."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from filesystem_agent.budget import Budget
from filesystem_agent.contents import (
    N_BLOCK_BYTES,
    read_part,
    read_whole,
    sha256_hex,
)
from filesystem_agent.descent import place_to_read
from filesystem_agent.errors import explaining, refusal
from filesystem_agent.places import Place
from filesystem_agent.text import (
    N_SAMPLE_BYTES,
    WIDE,
    LineEnding,
    choose_encoding,
    decode,
    line_ending,
    n_undecodable,
    printable,
    require_text,
    split_lines,
    without_mark,
)
from filesystem_agent.workspace import Workspace

PathToRead = Annotated[str, Field(description="File, relative to the first root or absolute.", min_length=1)]
Encoding = Annotated[str | None, Field(description="Text encoding, e.g. cp1252; default: BOM, else UTF-8.")]


@dataclass(frozen=True)
class FileView:
    """A part of a file. `sha256` is that of the whole file; bytes that are no text show as `\\xNN`."""

    path: str
    text: str
    encoding: str
    size_bytes: int
    truncated: bool
    sha256: str | None = None
    line_ending: LineEnding | None = None
    n_total_lines: int | None = None
    next_line: int | None = None
    next_offset_bytes: int | None = None
    n_undecodable_bytes: int = 0


def view_file(
    workspace: Workspace,
    /,
    path: PathToRead,
    start_line: Annotated[int, Field(description="First line, from 1.", ge=1)] = 1,
    n_lines: Annotated[int, Field(description="Most lines to return.", ge=1, le=100_000)] = 2_000,
    encoding: Encoding = None,
    as_base64: Annotated[bool, Field(description="Return bytes as base64, for binary files.")] = False,
    offset_bytes: Annotated[int, Field(description="First byte, with as_base64.", ge=0)] = 0,
) -> FileView:
    """Show lines of a text file, or bytes of any file as base64."""
    if offset_bytes and not as_base64:
        raise refusal("offset_bytes needs as_base64", offset_bytes, "use start_line for text")
    with place_to_read(workspace, path) as place, place.open_file() as fd, explaining(place.shown):
        size_bytes = os.fstat(fd).st_size
        if as_base64:
            return _view_bytes(workspace, fd, place, size_bytes, offset_bytes)
        sample = read_part(fd, 0, N_SAMPLE_BYTES)
        if encoding is None:
            require_text(sample, place.shown)
        chosen = choose_encoding(encoding, sample)
        if size_bytes <= workspace.settings.max_read_bytes:
            return _view_whole(workspace, fd, place, chosen, start_line, n_lines)
        return _view_large(workspace, fd, place, chosen, start_line, n_lines)


def _view_bytes(workspace: Workspace, fd: int, place: Place, size_bytes: int, offset_bytes: int) -> FileView:
    data = read_part(fd, offset_bytes, workspace.settings.max_result_chars // 4 * 3)
    end = offset_bytes + len(data)
    more = end < size_bytes
    whole = data if offset_bytes == 0 and not more else None
    return FileView(
        place.shown,
        base64.b64encode(data).decode("ascii"),
        "base64",
        size_bytes,
        truncated=more,
        sha256=None if whole is None else sha256_hex(whole),
        next_offset_bytes=end if more else None,
    )


def _view_whole(workspace: Workspace, fd: int, place: Place, encoding: str, start_line: int, n_lines: int) -> FileView:
    data = read_whole(fd, workspace.settings.max_read_bytes, place.shown)
    text = decode(data, encoding)
    lines = split_lines(text)
    chosen = lines[start_line - 1 : start_line - 1 + n_lines]
    if not chosen and (lines or start_line > 1):
        raise refusal("start_line is past the end of the file", start_line, f"the file has {len(lines)} lines")
    shown, n_shown, cut_inside = _bounded(chosen, workspace.settings.max_result_chars)
    after = start_line + n_shown
    more = after <= len(lines)
    return FileView(
        place.shown,
        shown,
        encoding,
        len(data),
        truncated=more or cut_inside,
        sha256=sha256_hex(data),
        line_ending=line_ending(text),
        n_total_lines=len(lines),
        next_line=after if more else None,
        n_undecodable_bytes=n_undecodable("".join(chosen[:n_shown])),
    )


def _view_large(workspace: Workspace, fd: int, place: Place, encoding: str, start_line: int, n_lines: int) -> FileView:
    if encoding in WIDE:
        raise refusal("file is too large to show as text in this encoding", encoding, "use as_base64")
    size_bytes = os.fstat(fd).st_size
    start = _line_offset(fd, start_line, Budget(workspace.settings), place.shown)
    if start is None:
        raise refusal("start_line is past the end of the file", start_line, "tail_file shows the last lines")
    data = read_part(fd, start, workspace.settings.max_result_chars * 4)
    reaches_end = start + len(data) >= size_bytes
    lines = split_lines(decode(data, encoding))
    if not reaches_end and len(lines) > 1:
        lines.pop()
    shown, n_shown, cut_inside = _bounded(lines[:n_lines], workspace.settings.max_result_chars)
    more = not reaches_end or n_shown < len(lines)
    return FileView(
        place.shown,
        shown,
        encoding,
        size_bytes,
        truncated=more or cut_inside,
        line_ending=line_ending("".join(lines)),
        next_line=start_line + n_shown if more else None,
        n_undecodable_bytes=n_undecodable("".join(lines[:n_shown])),
    )


def _line_offset(fd: int, line: int, budget: Budget, shown: str) -> int | None:
    """Return the byte offset at which a line starts, or `None` past the end."""
    n_to_skip = line - 1
    offset = 0
    while n_to_skip:
        budget.require_time(shown)
        block = os.pread(fd, N_BLOCK_BYTES, offset)
        if not block:
            return None
        n_here = block.count(b"\n")
        if n_here < n_to_skip:
            n_to_skip -= n_here
            offset += len(block)
            continue
        position = -1
        for _ in range(n_to_skip):
            position = block.index(b"\n", position + 1)
        return offset + position + 1
    return offset


def _bounded(lines: list[str], max_chars: int) -> tuple[str, int, bool]:
    """Return as many whole lines as fit, their number, and whether the first alone had to be cut."""
    kept: list[str] = []
    n_left = max_chars
    for line in map(printable, lines):
        if len(line) > n_left:
            break
        kept.append(line)
        n_left -= len(line)
    if lines and not kept:
        return without_mark(printable(lines[0])[:max_chars]), 1, True
    text = without_mark("".join(kept))
    return text if line_ending(text) == "mixed" else text.replace("\r\n", "\n"), len(kept), False
