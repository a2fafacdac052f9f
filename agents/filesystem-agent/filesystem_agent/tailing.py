"""`tail_file`: how a file ends."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from filesystem_agent.contents import read_last_lines, read_part, read_whole
from filesystem_agent.descent import place_to_read
from filesystem_agent.errors import explaining
from filesystem_agent.text import (
    N_SAMPLE_BYTES,
    WIDE,
    choose_encoding,
    decode,
    n_undecodable,
    printable,
    require_text,
    split_lines,
    without_mark,
)
from filesystem_agent.viewing import Encoding, PathToRead
from filesystem_agent.workspace import Workspace


@dataclass(frozen=True)
class FileTail:
    """The last lines of a file."""

    path: str
    text: str
    encoding: str
    size_bytes: int
    n_lines: int
    truncated: bool
    n_undecodable_bytes: int = 0


def tail_file(
    workspace: Workspace,
    /,
    path: PathToRead,
    n_lines: Annotated[int, Field(description="How many lines.", ge=1, le=100_000)] = 50,
    encoding: Encoding = None,
) -> FileTail:
    """Show the last lines of a text file; quick on files of any size."""
    settings = workspace.settings
    with place_to_read(workspace, path) as place, place.open_file() as fd, explaining(place.shown):
        size_bytes = os.fstat(fd).st_size
        chosen = choose_encoding(encoding, read_part(fd, 0, N_SAMPLE_BYTES))
        if chosen in WIDE:
            lines = split_lines(decode(read_whole(fd, settings.max_read_bytes, place.shown), chosen))
            text, cut = "".join(lines[-n_lines:]), False
        else:
            data, cut = read_last_lines(fd, n_lines, settings.max_result_chars * 4)
            if encoding is None:
                require_text(data[-N_SAMPLE_BYTES:], place.shown)
            text = decode(data, chosen)
        shown = without_mark(printable(text))
        cut = cut or len(shown) > settings.max_result_chars
        shown = shown[-settings.max_result_chars :].replace("\r\n", "\n")
        n_shown = len(split_lines(shown))
        return FileTail(place.shown, shown, chosen, size_bytes, n_shown, cut, n_undecodable(text))
