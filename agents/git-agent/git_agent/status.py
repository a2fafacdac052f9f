"""The state of the working tree: `git_status`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from git_agent.parameters import Repo
from git_agent.repository import Repository
from git_agent.results import KINDS, Change, Status
from git_agent.revisions import head_branch
from git_agent.text import decoded
from git_agent.working_tree import open_working_tree

OPERATIONS = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}


@dataclass
class _Tree:
    """What `git status` prints, sorted.

    Args:
        branch: the header lines, by name.
        n_files: how many files were read, the one over the limit among them.
        staged, unstaged, conflicted, untracked: as in `Status`.
    """

    branch: dict[str, str] = field(default_factory=dict)
    n_files: int = 0
    staged: list[Change] = field(default_factory=list)
    unstaged: list[Change] = field(default_factory=list)
    conflicted: list[str] = field(default_factory=list)
    untracked: list[str] = field(default_factory=list)

    def add(self, kind: str, text: str, old_path: str | None) -> None:
        """Sort in one file: its record's kind, the rest of its record, and the path it was moved from."""
        if kind == "?":
            self.untracked.append(text)
        elif kind == "u":
            self.conflicted.append(text.split(" ", 9)[-1])
        elif kind in ("1", "2"):
            codes, path = text[:2], text.split(" ", 8 if kind == "2" else 7)[-1]
            if codes[0] != ".":
                self.staged.append(Change(path, KINDS.get(codes[0], "unknown"), old_path))
            if codes[1] != ".":
                moved = old_path if codes[1] in "RC" else None
                self.unstaged.append(Change(path, KINDS.get(codes[1], "unknown"), moved))


def git_status(
    repo: Repo = ".",
    untracked: Annotated[bool, Field(description="List untracked files too")] = True,
    max_files: Annotated[int, Field(description="At most this many files", ge=1, le=5000)] = 500,
) -> Status:
    """Show branch, distance to upstream, an unfinished merge or rebase, and changed and untracked files."""
    repository = open_working_tree(repo)
    done = repository.git(
        "status",
        "--porcelain=v2",
        "-z",
        "--branch",
        "--ignore-submodules=dirty",
        f"--untracked-files={'all' if untracked else 'no'}",
    )
    complete = done.out[: done.out.rfind(b"\0") + 1]
    tree = _read(decoded(complete).split("\0")[:-1], max_files)
    branch = tree.branch
    name, oid = branch.get("branch.head", "(detached)"), branch.get("branch.oid", "(initial)")
    ahead, _, behind = branch.get("branch.ab", "").partition(" ")
    return Status(
        branch=head_branch(repository) if name == "(detached)" else name,
        head=None if oid == "(initial)" else oid,
        upstream=branch.get("branch.upstream"),
        n_ahead=int(ahead) if ahead else None,
        n_behind=-int(behind) if behind else None,
        operation=_operation(repository),
        clean=tree.n_files == 0,
        staged=tree.staged,
        unstaged=tree.unstaged,
        conflicted=tree.conflicted,
        untracked=tree.untracked,
        truncated=done.truncated or tree.n_files > max_files,
    )


def _read(fields: list[str], max_files: int) -> _Tree:
    """Read the fields of `git status --porcelain=v2 -z --branch`, as many files as may be listed."""
    tree, rest = _Tree(), iter(fields)
    for line in rest:
        kind, _, text = line.partition(" ")
        if kind == "#":
            name, _, value = text.partition(" ")
            tree.branch[name] = value
            continue
        old_path = next(rest, None) if kind == "2" else None
        tree.n_files += 1
        if tree.n_files > max_files:
            break
        tree.add(kind, text, old_path)
    return tree


def conflicted_paths(repository: Repository) -> list[str]:
    """Return the files with unresolved conflicts, at most 200 of them."""
    done = repository.git("diff", "--name-only", "--diff-filter=U", "--no-ext-diff", "--no-textconv", "-z", "--")
    return decoded(done.out).split("\0")[:-1][:200]


def _operation(repository: Repository) -> str | None:
    return next((name for file, name in OPERATIONS.items() if (repository.git_dir / file).exists()), None)
