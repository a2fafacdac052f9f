"""What a working tree can lead git to: paths in the index and the repositories of submodules.

git trusts its index file: an entry `../x` makes `git diff` read and `git stash` remove files outside. And
it starts itself in submodules, under their own config. Both are looked over before git touches a tree.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from fastmcp.exceptions import ToolError

from git_agent.repository import Repository, inspect, open_repository
from git_agent.text import decoded

MAX_INDEX_BYTES = 256 * 1024 * 1024
MAX_SUBMODULES = 200
MAX_DEPTH = 5

_ESCAPE = re.compile(rb"[\t/](\.\.|\.git)(/|\0)|\t/", re.IGNORECASE)
_GITLINK = re.compile(rb"(?:\A|\0)160000 [0-9a-f]+ [0-3]\t([^\0]+)")


def open_working_tree(value: str) -> Repository:
    """Return the repository at `value` for a tool that has git look at the working tree.

    Raises:
        ToolError: it or a submodule of it is refused, or it is bare.
    """
    repository = open_repository(value, working_tree=True)
    _inspect_submodules(repository, MAX_DEPTH)
    return repository


def _inspect_submodules(repository: Repository, depth: int) -> None:
    top = repository.top
    assert top is not None
    listed = repository.git("ls-files", "--stage", "-z", max_bytes=MAX_INDEX_BYTES)
    if listed.truncated:
        raise ToolError("repository refused: its index is too large to look over")
    if _ESCAPE.search(listed.out):
        raise ToolError("repository refused: its index holds a path outside the working tree")
    names = dict.fromkeys(_GITLINK.findall(listed.out))
    if len(names) > MAX_SUBMODULES or (names and depth == 0):
        raise ToolError("repository refused: its submodules are too many to look over")
    for name in names:
        folder = Path(os.path.realpath(top / os.fsdecode(name)))
        if not folder.is_relative_to(top):
            raise ToolError("repository refused: a submodule points outside its working tree")
        if not os.path.lexists(folder / ".git"):
            continue
        _inspect_submodules(inspect(repository.settings, folder, decoded(name)), depth - 1)


def refuse_embedded(repository: Repository, paths: list[str]) -> None:
    """Refuse checked paths that are repositories of their own: `git add` would record only a link."""
    assert repository.top is not None
    for path in paths:
        if path != "." and os.path.lexists(repository.top / path / ".git"):
            raise ToolError(f"path is a repository of its own: {path!r}; add it as a submodule by hand")
