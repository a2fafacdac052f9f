"""Every tool of the server with its labels, on one page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from git_agent.branches import git_branches, git_checkout
from git_agent.diff import git_diff
from git_agent.history import git_blame, git_log, git_show
from git_agent.remotes import clone_repo, git_push
from git_agent.staging import git_add, git_commit, git_stash
from git_agent.status import git_status


@dataclass(frozen=True)
class Entry:
    """A tool and what hosts and operators are told about it."""

    function: Callable[..., Any]
    title: str
    tags: frozenset[str]
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False

    @property
    def annotations(self) -> dict[str, Any]:
        """The MCP annotations of the tool."""
        return {
            "title": self.title,
            "readOnlyHint": "read" in self.tags,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }


def _reads(function: Callable[..., Any], title: str, *tags: str) -> Entry:
    return Entry(function, title, frozenset({"git", "read", *tags}), idempotent=True)


def _writes(function: Callable[..., Any], title: str, *tags: str, **hints: bool) -> Entry:
    return Entry(function, title, frozenset({"git", "write", *tags}), **hints)


TOOLS = (
    _writes(clone_repo, "Clone a repository", "remote", open_world=True),
    _reads(git_status, "Working tree status", "changes"),
    _reads(git_log, "Commit history", "history"),
    _reads(git_diff, "Differences", "changes"),
    _reads(git_show, "Show a commit or file", "history"),
    _reads(git_blame, "Who changed each line", "history"),
    _reads(git_branches, "List branches", "branches"),
    _writes(git_checkout, "Switch branch", "branches"),
    _writes(git_add, "Stage changes", "changes", idempotent=True),
    _writes(git_commit, "Commit", "changes"),
    _writes(git_push, "Push a branch", "remote", destructive=True, open_world=True),
    _writes(git_stash, "Stash changes", "changes", "delete", destructive=True),
)
