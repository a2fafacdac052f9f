"""What the tools return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

ChangeKind = Literal["added", "modified", "deleted", "renamed", "copied", "type_changed", "conflicted", "unknown"]

KINDS: dict[str, ChangeKind] = {
    "A": "added",
    "M": "modified",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "T": "type_changed",
    "U": "conflicted",
}


@dataclass(frozen=True)
class Change:
    """A changed file; `lines_*` are null for binary files and where not counted."""

    path: str
    change: ChangeKind
    old_path: str | None = None
    lines_added: int | None = None
    lines_deleted: int | None = None


@dataclass(frozen=True)
class Status:
    """State of a working tree. `branch` is null when detached, `head` before the first commit."""

    branch: str | None
    head: str | None
    upstream: str | None = None
    n_ahead: int | None = None
    n_behind: int | None = None
    operation: str | None = None
    clean: bool = True
    staged: list[Change] = field(default_factory=list)
    unstaged: list[Change] = field(default_factory=list)
    conflicted: list[str] = field(default_factory=list)
    untracked: list[str] = field(default_factory=list)
    truncated: bool = False


@dataclass(frozen=True)
class Commit:
    """A commit; `date` is the author's, ISO 8601."""

    hash: str
    parents: list[str]
    author: str
    email: str
    date: str
    refs: list[str]
    message: str


@dataclass(frozen=True)
class Log:
    """Commits, newest first; `truncated` when there are more."""

    commits: list[Commit]
    truncated: bool = False


@dataclass(frozen=True)
class Diff:
    """Changed files and the patch; `truncated` when either was cut."""

    files: list[Change]
    patch: str
    truncated: bool = False


@dataclass(frozen=True)
class Shown:
    """A commit with its changes, or with `path` that file's content (null when binary)."""

    commit: Commit
    files: list[Change] = field(default_factory=list)
    patch: str | None = None
    content: str | None = None
    size_bytes: int | None = None
    binary: bool = False
    truncated: bool = False


@dataclass(frozen=True)
class BlameHunk:
    """Consecutive lines last changed by one commit."""

    hash: str
    author: str
    date: str
    summary: str
    start_line: int
    lines: list[str]


@dataclass(frozen=True)
class Blame:
    """Who last changed which lines; `truncated` when the file goes on or a line was cut."""

    hunks: list[BlameHunk]
    truncated: bool = False


@dataclass(frozen=True)
class Branch:
    """A branch; `tracking` is git's note such as `[ahead 1]`."""

    name: str
    hash: str
    date: str
    subject: str
    upstream: str | None = None
    tracking: str | None = None


@dataclass(frozen=True)
class Branches:
    """Branches, most recently committed to first. `current` is null when detached."""

    current: str | None
    local: list[Branch]
    remote: list[Branch]
    truncated: bool = False


@dataclass(frozen=True)
class Head:
    """What is checked out."""

    branch: str | None
    head: str | None


@dataclass(frozen=True)
class Cloned:
    """The new repository; `head` is null when the source has no commits."""

    path: str
    branch: str | None
    head: str | None


@dataclass(frozen=True)
class Staged:
    """Everything staged for the next commit."""

    staged: list[Change]
    truncated: bool = False


@dataclass(frozen=True)
class Committed:
    """The new commit."""

    hash: str
    branch: str | None
    subject: str
    files: list[Change]
    truncated: bool = False


@dataclass(frozen=True)
class Pushed:
    """What the push did to the remote branch."""

    remote: str
    branch: str
    outcome: Literal["created", "updated", "forced", "up_to_date"]
    summary: str


@dataclass(frozen=True)
class StashEntry:
    """One stash; `index` counts from the newest, 0."""

    index: int
    hash: str
    date: str
    message: str


@dataclass(frozen=True)
class Stash:
    """The stashes left after the action, and files left in conflict by it."""

    entries: list[StashEntry]
    conflicted: list[str] = field(default_factory=list)
    changed: bool = True
    truncated: bool = False
