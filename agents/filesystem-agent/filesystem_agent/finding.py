"""`find_files`: where files of a name are."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from filesystem_agent.budget import Budget
from filesystem_agent.descent import place_to_read
from filesystem_agent.globbing import parse_glob
from filesystem_agent.listing import DirectoryPath, shown_below
from filesystem_agent.selecting import SKIPPED_BY_DEFAULT, Exclude, GlobWalk
from filesystem_agent.workspace import Workspace


@dataclass(frozen=True)
class FoundFiles:
    """Paths in walk order; `stopped_at` names the limit that cut the list."""

    paths: list[str]
    truncated: bool
    stopped_at: str | None
    n_excluded: int
    n_unaddressable: int
    n_unreadable: int


def find_files(
    workspace: Workspace,
    /,
    pattern: Annotated[str, Field(description="Glob, e.g. 'src/**/*.py'; without '/' any depth.", min_length=1)],
    path: DirectoryPath = ".",
    kind: Annotated[Literal["file", "directory", "any"], Field(description="What to find.")] = "file",
    exclude: Exclude = SKIPPED_BY_DEFAULT,
    max_results: Annotated[int, Field(description="Most paths.", ge=1, le=10_000)] = 200,
) -> FoundFiles:
    """Find files by name pattern."""
    budget = Budget(workspace.settings)
    walk = GlobWalk(budget, parse_glob(pattern), [parse_glob(name) for name in exclude])
    n_wanted = min(max_results, workspace.settings.max_entries)
    paths: list[str] = []
    n_unaddressable = 0
    with place_to_read(workspace, path) as place, place.open_directory() as fd:
        with closing(walk.entries(fd)) as met:
            for entry in met:
                if kind != "any" and entry.kind != kind:
                    continue
                if len(paths) == n_wanted:
                    budget.stop(f"limit of {n_wanted} paths")
                    break
                n_unaddressable += not entry.is_plain
                paths.append(shown_below(place, entry))
    return FoundFiles(
        paths,
        budget.spent is not None,
        budget.spent,
        walk.n_excluded,
        n_unaddressable,
        walk.n_unreadable,
    )
