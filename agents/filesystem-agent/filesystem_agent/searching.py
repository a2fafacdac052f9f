"""`search_files`: which lines of which files say something."""

from __future__ import annotations

import itertools
import stat
from contextlib import closing
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastmcp.exceptions import ToolError
from pydantic import Field

from filesystem_agent.budget import Budget
from filesystem_agent.contents import read_blocks
from filesystem_agent.descent import place_to_read
from filesystem_agent.globbing import parse_glob
from filesystem_agent.listing import shown_below
from filesystem_agent.matching import block_bytes, compile_pattern, match_lines
from filesystem_agent.places import Place
from filesystem_agent.selecting import SKIPPED_BY_DEFAULT, Exclude, GlobWalk
from filesystem_agent.text import N_SAMPLE_BYTES, is_binary
from filesystem_agent.workspace import Workspace


@dataclass(frozen=True)
class SearchMatch:
    """One matching line and where on it the first match is, counted from 1."""

    path: str
    line: int
    column: int
    text: str


@dataclass(frozen=True)
class FoundLines:
    """Matching lines; `stopped_at` names the limit that cut the list, the counts what was not searched."""

    matches: list[SearchMatch]
    truncated: bool
    stopped_at: str | None
    n_files_searched: int
    n_binary: int
    n_excluded: int
    n_unreadable: int


def search_files(
    workspace: Workspace,
    /,
    pattern: Annotated[str, Field(description="Text to find within lines.", min_length=1, max_length=1_000)],
    path: Annotated[str, Field(description="Directory or file to search.")] = ".",
    is_regex: Annotated[bool, Field(description="`pattern` is an RE2 regular expression.")] = False,
    ignore_case: Annotated[bool, Field(description="Match upper and lower case alike.")] = False,
    glob: Annotated[str, Field(description="Only files whose path matches, e.g. '*.py'.", min_length=1)] = "**",
    exclude: Exclude = SKIPPED_BY_DEFAULT,
    max_results: Annotated[int, Field(description="Most lines.", ge=1, le=10_000)] = 100,
) -> FoundLines:
    """Search file contents line by line, literally unless `is_regex`. Binary files are skipped."""
    budget = Budget(workspace.settings)
    n_wanted = min(max_results, workspace.settings.max_entries)
    search = _Search(
        budget,
        compile_pattern(pattern, is_regex=is_regex, ignore_case=ignore_case),
        n_wanted,
        workspace.settings.max_result_chars,
    )
    walk = GlobWalk(budget, parse_glob(glob), [parse_glob(name) for name in exclude])
    with place_to_read(workspace, path) as place:
        if stat.S_ISREG(place.stat().st_mode):
            search.file(place)
        else:
            with place.open_directory() as fd, closing(walk.entries(fd)) as met:
                for entry in met:
                    if entry.kind == "file":
                        search.file(Place(entry.parent_fd, entry.name, shown_below(place, entry)))
                    if budget.is_spent():
                        break
    return FoundLines(
        search.matches,
        budget.spent is not None,
        budget.spent,
        search.n_searched,
        search.n_binary,
        walk.n_excluded,
        search.n_unreadable + walk.n_unreadable,
    )


@dataclass
class _Search:
    budget: Budget
    pattern: Any
    n_wanted: int
    n_chars_left: int
    matches: list[SearchMatch] = field(default_factory=list)
    n_searched: int = 0
    n_binary: int = 0
    n_unreadable: int = 0

    def file(self, place: Place) -> None:
        """Search one file; what can't be read is counted, not raised."""
        try:
            with place.open_file() as fd:
                blocks = read_blocks(fd, block_bytes(self.pattern))
                first = next(blocks, b"")
                if is_binary(first[:N_SAMPLE_BYTES]):
                    self.n_binary += 1
                    return
                self.n_searched += 1
                for found in match_lines(itertools.chain([first], blocks), self.pattern):
                    if found is None:
                        if self.budget.is_spent():
                            return
                        continue
                    if len(self.matches) == self.n_wanted:
                        self.budget.stop(f"limit of {self.n_wanted} lines")
                        return
                    self.n_chars_left -= len(place.shown) + len(found.text)
                    if self.n_chars_left < 0:
                        self.budget.stop("limit of result size")
                        return
                    self.matches.append(SearchMatch(place.shown, found.line, found.column, found.text))
        except (OSError, ToolError):
            self.n_unreadable += 1
