"""`tail_log`: the newest lines."""

from __future__ import annotations

import os
from collections import deque
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from logs_agent.parameters import LogPath, clip
from logs_agent.reading import Budget, Flaws, is_gzip, lines, text_of
from logs_agent.roots import Roots

MAX_LINE_CHARS = 2_000
MAX_CHARS = 100_000
_BLOCK = 65_536
_MAX_BACK = 8 * 1_048_576
"""Most bytes read from the end, whatever the number of lines."""


class Tail(TypedDict):
    """The last lines, oldest first. `truncated`: there are more than could be shown, or lines were cut."""

    path: str
    lines: list[str]
    size_bytes: int
    truncated: bool
    damaged_gzip: NotRequired[bool]
    notes: NotRequired[list[str]]


def tail_log(
    path: LogPath,
    n_lines: Annotated[int, Field(description="How many lines.", ge=1, le=2000)] = 50,
) -> Tail:
    """Show the newest (last) lines of a log file, read from its end."""
    roots = Roots.from_env()
    with roots.parent(path) as (folder, name):
        fd, shown = folder.open(name), folder.shows(name)
    try:
        size = os.fstat(fd).st_size
        flaws, spent = Flaws(), None
        if is_gzip(fd):
            budget = Budget.from_env()
            found = list(deque(lines(fd, shown, budget, flaws), n_lines))
            spent, cut = budget.spent, budget.spent is not None or flaws.clipped_lines > 0
        else:
            found, cut = _from_end(fd, size, n_lines)
    finally:
        os.close(fd)
    kept, n_chars = deque[str](), 0
    for line in reversed(found):
        line, cut = clip(line, MAX_LINE_CHARS), cut or len(line) > MAX_LINE_CHARS
        n_chars += len(line)
        if n_chars > MAX_CHARS:
            cut = True
            break
        kept.appendleft(line)
    tail = Tail(path=shown, lines=list(kept), size_bytes=size, truncated=cut or bool(flaws.damaged_gzip))
    if flaws.damaged_gzip:
        tail["damaged_gzip"] = True
    if spent:
        tail["notes"] = [f"these are not the newest lines, unpacking stopped early: {spent}"]
    return tail


def _from_end(fd: int, size: int, n_lines: int) -> tuple[list[str], bool]:
    """Return the last lines of `size` bytes, and whether reading back was cut short."""
    blocks: deque[bytes] = deque()
    at, n_ends = size, 0
    while at > 0 and n_ends <= n_lines and size - at < _MAX_BACK:
        start = max(0, at - _BLOCK)
        block = os.pread(fd, at - start, start)
        n_ends += block.count(b"\n")
        blocks.appendleft(block)
        at = start
    data = b"".join(blocks).removesuffix(b"\n")
    found = data.split(b"\n") if data else []
    return [text_of(line.lstrip(b"\0")[:_BLOCK]) for line in found[-n_lines:]], at > 0 and len(found) <= n_lines
