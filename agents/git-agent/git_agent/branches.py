"""Lines of work: `git_branches`, `git_checkout`."""

from __future__ import annotations

import difflib
from typing import Annotated, Literal

from fastmcp.exceptions import ToolError
from pydantic import Field

from git_agent.parameters import Repo
from git_agent.repository import Repository, open_repository
from git_agent.results import Branch, Branches, Head
from git_agent.revisions import branch_commit, checked_branch, head_branch, head_commit, resolve
from git_agent.text import checked_name, clipped, decoded
from git_agent.working_tree import open_working_tree

FORMAT = "%00".join(
    (
        "%(refname)",
        "%(objectname)",
        "%(committerdate:iso-strict)",
        "%(subject)",
        "%(upstream:short)",
        "%(upstream:track)",
        "%(symref)",
        "",
    )
)
N_FIELDS = 7


def git_branches(
    repo: Repo = ".",
    scope: Annotated[Literal["local", "remote", "all"], Field(description="Which branches")] = "all",
    max_count: Annotated[int, Field(description="At most this many of each kind", ge=1, le=1000)] = 100,
) -> Branches:
    """List branches with tip, upstream and how far ahead or behind they are."""
    repository = open_repository(repo)
    local, more_local = _listed(repository, "heads", max_count) if scope != "remote" else ([], False)
    remote, more_remote = _listed(repository, "remotes", max_count) if scope != "local" else ([], False)
    return Branches(head_branch(repository), local, remote, more_local or more_remote)


def git_checkout(
    revision: Annotated[str, Field(description="Branch, or commit or tag to detach at; with create: the new branch")],
    repo: Repo = ".",
    create: Annotated[bool, Field(description="Make the branch first")] = False,
    start: Annotated[str, Field(description="With create: where the branch starts")] = "HEAD",
) -> Head:
    """Switch to a branch or commit, or make a branch; uncommitted changes that would be lost stop it."""
    repository = open_working_tree(repo)
    switch = ["checkout", "--quiet", "--no-guess", "--no-recurse-submodules", "--no-progress"]
    if create:
        branch = checked_branch(repository, revision)
        if branch_commit(repository, branch):
            raise ToolError(f"branch exists already: {branch!r}; leave out create to switch to it")
        if start == "HEAD" and head_commit(repository) is None:
            repository.git("symbolic-ref", "HEAD", f"refs/heads/{branch}", write=True)
        else:
            repository.git(*switch, "-b", branch, *_start(repository, start), "--", write=True)
    elif branch_commit(repository, checked_name(revision, "revision")):
        repository.git(*switch, revision, "--", write=True)
    else:
        repository.git(*switch, "--detach", _commit(repository, revision), "--", write=True)
    return Head(head_branch(repository), head_commit(repository))


def _start(repository: Repository, start: str) -> list[str]:
    """Return where a branch starts; a remote's branch also becomes its upstream."""
    oid = resolve(repository, start)
    remote = f"refs/remotes/{start}"
    known = repository.git("show-ref", "--verify", "--quiet", "--", remote, codes=(0, 1, 128))
    return ["--track", remote] if known.code == 0 else ["--no-track", oid]


def _commit(repository: Repository, revision: str) -> str:
    try:
        return resolve(repository, revision)
    except ToolError:
        remote = [b.name for b in _listed(repository, "remotes", 1000)[0]]
        own = next((name for name in remote if name.partition("/")[2] == revision), None)
        if own:
            raise ToolError(
                f"no such branch here: {revision!r}; {own!r} exists: pass create=true and start={own!r}"
            ) from None
        near = difflib.get_close_matches(revision, remote, n=1, cutoff=0.6)
        if near:
            raise ToolError(f"no such branch or commit: {revision!r}; did you mean {near[0]!r}?") from None
        raise


def _listed(repository: Repository, kind: str, max_count: int) -> tuple[list[Branch], bool]:
    done = repository.git(
        "for-each-ref",
        f"--count={max_count + 1}",
        "--sort=-committerdate",
        f"--format={FORMAT}",
        "--end-of-options",
        f"refs/{kind}/",
    )
    fields = decoded(done.out).split("\0")[:-1]
    branches = []
    for start in range(0, len(fields) - N_FIELDS + 1, N_FIELDS):
        name, oid, date, subject, upstream, tracking, symref = fields[start : start + N_FIELDS]
        if symref:
            continue
        short = name.lstrip("\n").removeprefix(f"refs/{kind}/")
        branches.append(Branch(short, oid, date, clipped(subject, 200), upstream or None, tracking or None))
    return branches[:max_count], done.truncated or len(branches) > max_count
