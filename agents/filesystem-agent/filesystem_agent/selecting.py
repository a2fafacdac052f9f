"""Walks cut down by globs: what matches, without what is excluded, and never where nothing can match."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from filesystem_agent.budget import Budget
from filesystem_agent.globbing import Glob, States
from filesystem_agent.walking import Entry, Walk

Exclude = Annotated[
    list[str],
    Field(description="Names of directories and files to skip, as globs.", max_length=50),
]
SKIPPED_BY_DEFAULT = [".git", "node_modules", "__pycache__", ".venv"]


@dataclass
class GlobWalk:
    """A walk that yields what matches a glob and stays out of directories where nothing can match."""

    budget: Budget
    glob: Glob
    exclude: list[Glob]
    n_excluded: int = 0
    n_unreadable: int = 0

    def entries(self, fd: int) -> Generator[Entry, None, None]:
        """Yield the matching entries below an open directory."""
        states: list[States] = [self.glob.start]
        excluded: list[list[States]] = [[glob.start for glob in self.exclude]]
        entering = False

        def enter(_: Entry) -> bool:
            return entering

        walk = Walk(self.budget, enter)
        with closing(walk.entries(fd)) as met:
            for entry in met:
                depth = len(entry.relative)
                del states[depth:], excluded[depth:]
                skip = [glob.step(before, entry.name) for glob, before in zip(self.exclude, excluded[-1], strict=True)]
                is_excluded = any(glob.accepts(after) for glob, after in zip(self.exclude, skip, strict=True))
                after = self.glob.step(states[-1], entry.name)
                states.append(after)
                excluded.append(skip)
                entering = bool(after) and not is_excluded
                self.n_excluded += is_excluded
                if not is_excluded and self.glob.accepts(after):
                    yield entry
                self.n_unreadable = walk.n_unreadable
        self.n_unreadable = walk.n_unreadable
