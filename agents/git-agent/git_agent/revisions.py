"""Names of commits and branches, resolved before any command sees them."""

from __future__ import annotations

import difflib

from fastmcp.exceptions import ToolError

from git_agent.repository import Repository
from git_agent.text import checked_name


def resolve(repository: Repository, revision: str) -> str:
    """Return the object id of the commit that `revision` names.

    Commands get ids only, so that no revision can be taken for an option, a range or a path. A search of messages by an
    expression (`:/x`, `HEAD^{/x}`) is refused: git's own expressions can take any time and memory.

    Raises:
        ToolError: no such commit.
    """
    checked_name(revision, "revision")
    if ":/" in revision or "^{/" in revision:
        raise ToolError(f"a revision is not searched for by an expression: {revision[:200]!r}; use git_log with grep")
    found = _commit(repository, revision)
    if found:
        return found
    if not head_commit(repository):
        raise ToolError(f"no such commit: {revision!r}; the repository has no commits yet")
    near = difflib.get_close_matches(revision, _names(repository), n=1, cutoff=0.5)
    raise ToolError(f"no such commit: {revision!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def resolve_range(repository: Repository, revision: str) -> list[str]:
    """Return arguments for `git log` that mean `revision`: a commit, `a..b` or `a...b`."""
    checked_name(revision, "revision")
    for dots in ("...", ".."):
        start, found, end = revision.partition(dots)
        if found:
            start, end = (checked_name(side or "HEAD", "revision") for side in (start, end))
            first, last = resolve(repository, start), resolve(repository, end)
            return [f"{first}...{last}"] if dots == "..." else [last, f"^{first}"]
    return [resolve(repository, revision)]


def head_commit(repository: Repository) -> str | None:
    """Return the id of the commit checked out; `None` before the first commit."""
    return _commit(repository, "HEAD") or None


def head_branch(repository: Repository) -> str | None:
    """Return the branch checked out, which may have no commit yet; `None` when detached."""
    name = repository.line("symbolic-ref", "--quiet", "HEAD", codes=(0, 1))
    return name.removeprefix("refs/heads/") or None


def branch_commit(repository: Repository, branch: str) -> str | None:
    """Return the commit at the tip of a local branch, `None` when there is no such branch."""
    return _commit(repository, f"refs/heads/{branch}") or None


def checked_branch(repository: Repository, branch: str) -> str:
    """Return `branch` when git allows it as a branch name.

    Raises:
        ToolError: it does not.
    """
    checked_name(branch, "branch")
    done = repository.git("check-ref-format", f"refs/heads/{branch}", codes=(0, 1))
    if done.code or branch == "HEAD":
        raise ToolError(f"not a branch name git allows: {branch!r}")
    return branch


def _commit(repository: Repository, revision: str) -> str:
    return repository.line(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", codes=(0, 1, 128)
    )


def _names(repository: Repository) -> list[str]:
    return repository.line("for-each-ref", "--count=2000", "--format=%(refname:short)").splitlines()
