"""From working tree to commit, and aside: `git_add`, `git_commit`, `git_stash`."""

from __future__ import annotations

from typing import Annotated, Literal

from fastmcp.exceptions import ToolError
from pydantic import Field

from git_agent.diff import changes
from git_agent.parameters import Repo
from git_agent.repository import Repository
from git_agent.results import Committed, Staged, Stash, StashEntry
from git_agent.revisions import head_branch, head_commit
from git_agent.status import conflicted_paths
from git_agent.text import checked, checked_paths, clipped, decoded
from git_agent.working_tree import open_working_tree, refuse_embedded

MAX_MESSAGE_BYTES = 64 * 1024
MAX_STASHES = 200

Message = Annotated[str, Field(description="Commit message: a first line, then optionally more", max_length=65_536)]


def git_add(
    repo: Repo = ".",
    paths: Annotated[
        list[str] | None,
        Field(description="Files or folders, relative to the top; '.' is all", max_length=1000),
    ] = None,
    all: Annotated[bool, Field(description="Stage every change, deletions too")] = False,
) -> Staged:
    """Stage changes for the next commit. Ignored files are refused, names are literal, not patterns."""
    repository = open_working_tree(repo)
    if all == bool(paths):
        raise ToolError("pass either paths or all=true")
    scope = checked_paths(paths)
    refuse_embedded(repository, scope)
    repository.git("add", *(["--all"] if all else []), "--", *scope, write=True)
    staged, truncated = changes(repository, ["diff"], ["--cached", "--"])
    return Staged(staged, truncated)


def git_commit(
    message: Message,
    repo: Repo = ".",
    all: Annotated[bool, Field(description="Stage changes to tracked files first")] = False,
    allow_empty: Annotated[bool, Field(description="Commit even without changes")] = False,
) -> Committed:
    """Commit what is staged. Hooks do not run and nothing is signed."""
    repository = open_working_tree(repo)
    text = checked(message, "message", multiline=True).encode()
    conflicted = conflicted_paths(repository)
    if conflicted and not all:
        raise ToolError(f"unresolved conflicts in {conflicted[:10]!r}; resolve them and stage the files first")
    if not (all or allow_empty) and not _something_staged(repository):
        raise ToolError("nothing is staged; stage files with git_add first, or pass all=true")
    repository.git(
        *(
            "commit",
            "--quiet",
            "--file=-",
            "--cleanup=whitespace",
            "--no-verify",
            "--no-gpg-sign",
            "--no-status",
        ),
        *(["--all"] if all else []),
        *(["--allow-empty"] if allow_empty else []),
        stdin=text,
        write=True,
    )
    oid = head_commit(repository) or ""
    files, truncated = changes(repository, ["show", "--format="], [oid, "--"])
    return Committed(oid, head_branch(repository), clipped(message.strip().split("\n")[0], 500), files, truncated)


def git_stash(
    action: Annotated[
        Literal["list", "push", "apply", "pop", "drop"],
        Field(description="push sets changes aside, apply brings them back, pop also drops the entry"),
    ] = "list",
    repo: Repo = ".",
    index: Annotated[int, Field(description="Which stash, 0 is the newest", ge=0, le=100_000)] = 0,
    message: Annotated[str | None, Field(description="With push: a name for it")] = None,
    include_untracked: Annotated[bool, Field(description="With push: untracked files too")] = False,
) -> Stash:
    """Set uncommitted changes aside and bring them back; returns the stashes left."""
    repository = open_working_tree(repo)
    before = _stashes(repository)
    conflicted: list[str] = []
    if action == "push":
        if head_commit(repository) is None:
            raise ToolError("nothing to stash upon: the repository has no commits yet")
        named = [f"--message={checked(message, 'message')}"] if message is not None else []
        untracked = ["--include-untracked"] if include_untracked else ["--no-include-untracked"]
        repository.git("stash", "push", "--quiet", *untracked, *named, write=True, literal_paths=False)
    elif action != "list":
        if index >= len(before):
            raise ToolError(f"no such stash: {index!r}; there are {len(before)}, counted from 0")
        done = repository.git(
            "stash", action, "--quiet", f"stash@{{{index}}}", codes=(0, 1), write=True, literal_paths=False
        )
        conflicted = conflicted_paths(repository) if done.code else []
        if done.code and not conflicted:
            raise ToolError(f"git stash {action} failed: {repository.explained(done)}")
    after = _stashes(repository)
    changed = action in ("apply", "pop") or after != before
    return Stash(after[:MAX_STASHES], conflicted, changed and action != "list", len(after) > MAX_STASHES)


def _something_staged(repository: Repository) -> bool:
    """Whether a commit would hold a change, or conclude a merge."""
    if (repository.git_dir / "MERGE_HEAD").exists():
        return True
    if head_commit(repository) is None:
        return bool(repository.git("ls-files", "--cached", "-z", max_bytes=1).out)
    return repository.git("diff", "--cached", "--quiet", "--no-ext-diff", "--", codes=(0, 1)).code == 1


def _stashes(repository: Repository) -> list[StashEntry]:
    known = repository.git("show-ref", "--verify", "--quiet", "--", "refs/stash", codes=(0, 1, 128))
    if known.code:
        return []
    done = repository.git("stash", "list", "-z", "--format=%H%x00%cI%x00%gs")
    fields = decoded(done.out).split("\0")[:-1]
    return [
        StashEntry(number, fields[start], fields[start + 1], clipped(fields[start + 2], 500))
        for number, start in enumerate(range(0, len(fields) - 2, 3))
    ]
