"""Changes as files and patches: `git_diff`, and what other tools show of a commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastmcp.exceptions import ToolError
from pydantic import Field

from git_agent.parameters import MaxBytes, Paths, Repo
from git_agent.repository import Repository, open_repository
from git_agent.results import KINDS, Change, Diff
from git_agent.revisions import resolve
from git_agent.text import checked_paths, decoded, whole_lines
from git_agent.working_tree import open_working_tree

MAX_FILES = 500

SAFE = ("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", "--ignore-submodules=dirty")
"""Options of every command that makes a diff: no program of a driver runs."""


def git_diff(
    repo: Repo = ".",
    base: Annotated[
        str | None, Field(description="Compare from this commit; default: the index, or HEAD if staged")
    ] = None,
    target: Annotated[
        str | None,
        Field(description="Compare to this commit; default: the working tree, or the index if staged"),
    ] = None,
    staged: Annotated[bool, Field(description="Compare to what is staged")] = False,
    paths: Paths = None,
    context_lines: Annotated[int, Field(description="Unchanged lines around changes", ge=0, le=100)] = 3,
    max_bytes: MaxBytes = 50_000,
) -> Diff:
    """Show unstaged changes, staged changes, or what differs between commits, as files and a patch."""
    if target is not None and (staged or base is None):
        raise ToolError("target needs base and excludes staged")
    repository = open_repository(repo) if target is not None else open_working_tree(repo)
    sides = [resolve(repository, side) for side in (base, target) if side is not None]
    scope = [*(["--cached"] if staged else []), *sides, "--", *checked_paths(paths)]
    return differences(repository, ["diff"], scope, context_lines=context_lines, max_bytes=max_bytes)


def differences(
    repository: Repository,
    command: Sequence[str],
    scope: Sequence[str],
    *,
    context_lines: int,
    max_bytes: int,
) -> Diff:
    """Return files and patch of a diff command.

    Args:
        repository: where.
        command: the git command and options that leave only the diff in its output.
        scope: what to compare: ids, then `--`, then paths.
        context_lines: unchanged lines around each change.
        max_bytes: length of the patch at which it is cut, at a line's end.
    """
    files, cut = changes(repository, command, scope)
    done = repository.git(
        *command, *SAFE, "--patch", "-M", f"--unified={context_lines}", *scope, max_bytes=max_bytes + 1
    )
    patch = whole_lines(done.out, max_bytes)
    return Diff(files, decoded(patch), cut or done.truncated or len(patch) < len(done.out))


def changes(repository: Repository, command: Sequence[str], scope: Sequence[str]) -> tuple[list[Change], bool]:
    """Return the changed files of a diff command and whether there are more."""
    done = repository.git(*command, *SAFE, "--raw", "--numstat", "-z", "-M", "--no-abbrev", *scope)
    fields = iter(decoded(done.out[: done.out.rfind(b"\0") + 1]).split("\0")[:-1])
    kinds: dict[str, tuple[str, str | None]] = {}
    counts: dict[str, tuple[int | None, int | None]] = {}
    for entry in fields:
        entry = entry.lstrip("\n")
        if entry.startswith(":"):
            code = entry.rsplit(" ", 1)[-1][:1]
            first = next(fields, "")
            path, old_path = (next(fields, ""), first) if code in "RC" else (first, None)
            if kinds.get(path, ("",))[0] != "U":
                kinds[path] = (code, old_path)
        elif entry.count("\t") >= 2:
            added, deleted, path = entry.split("\t", 2)
            if not path:
                next(fields, "")
                path = next(fields, "")
            counts[path] = (_count(added), _count(deleted))
    found = [
        Change(path, KINDS.get(code, "unknown"), old_path, *counts.get(path, (None, None)))
        for path, (code, old_path) in kinds.items()
    ]
    return found[:MAX_FILES], done.truncated or len(found) > MAX_FILES


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
