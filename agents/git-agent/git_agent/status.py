"""The state of the working tree: `git_status`."""

from __future__ import annotations

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
    fields = iter(decoded(complete).split("\0")[:-1])
    about: dict[str, str] = {}
    staged: list[Change] = []
    unstaged: list[Change] = []
    conflicted: list[str] = []
    unknown: list[str] = []
    n_files, truncated = 0, done.truncated
    for line in fields:
        kind, _, rest = line.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            about[name] = value
            continue
        old_path = next(fields, None) if kind == "2" else None
        n_files += 1
        if n_files > max_files:
            truncated = True
            break
        if kind == "?":
            unknown.append(rest)
        elif kind == "u":
            conflicted.append(rest.split(" ", 9)[-1])
        elif kind in ("1", "2"):
            codes, path = rest[:2], rest.split(" ", 8 if kind == "2" else 7)[-1]
            if codes[0] != ".":
                staged.append(Change(path, KINDS.get(codes[0], "unknown"), old_path))
            if codes[1] != ".":
                moved = old_path if codes[1] in "RC" else None
                unstaged.append(Change(path, KINDS.get(codes[1], "unknown"), moved))
    name, oid = about.get("branch.head", "(detached)"), about.get("branch.oid", "(initial)")
    ahead, _, behind = about.get("branch.ab", "").partition(" ")
    return Status(
        branch=head_branch(repository) if name == "(detached)" else name,
        head=None if oid == "(initial)" else oid,
        upstream=about.get("branch.upstream"),
        n_ahead=int(ahead) if ahead else None,
        n_behind=-int(behind) if behind else None,
        operation=_operation(repository),
        clean=n_files == 0,
        staged=staged,
        unstaged=unstaged,
        conflicted=conflicted,
        untracked=unknown,
        truncated=truncated,
    )


def conflicted_paths(repository: Repository) -> list[str]:
    """Return the files with unresolved conflicts, at most 200 of them."""
    done = repository.git("diff", "--name-only", "--diff-filter=U", "--no-ext-diff", "--no-textconv", "-z", "--")
    return decoded(done.out).split("\0")[:-1][:200]


def _operation(repository: Repository) -> str | None:
    return next((name for file, name in OPERATIONS.items() if (repository.git_dir / file).exists()), None)
