"""A repository that was looked over before git is pointed at it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fastmcp.exceptions import ToolError

from git_agent.command import MAX_BYTES, explained, run_git
from git_agent.config_policy import require_harmless_config
from git_agent.process import Finished
from git_agent.roots import locate, read_pointer, require_inside, similar_folder
from git_agent.settings import Settings, read_settings
from git_agent.text import decoded

MAX_ENTRIES = 200_000
MAX_ALTERNATES = 20


@dataclass(frozen=True)
class Repository:
    """A repository inside the allowed roots, all of whose parts are there too."""

    settings: Settings
    top: Path | None
    """The working tree; `None` for a bare repository."""
    git_dir: Path
    common_dir: Path
    """Where a linked worktree keeps what it shares; else `git_dir`."""

    def git(
        self,
        *args: str,
        codes: Sequence[int] = (0,),
        max_bytes: int = MAX_BYTES,
        stdin: bytes = b"",
        write: bool = False,
        protocol: str = "none",
        literal_paths: bool = True,
    ) -> Finished:
        """Run git here, told where the repository is so that it never searches for one.

        Paths are names and no patterns, but for `git stash`, which uses patterns of its own.
        """
        place = ["--literal-pathspecs"] if literal_paths else []
        place += [f"--git-dir={self.git_dir}", *([f"--work-tree={self.top}"] if self.top else [])]
        return run_git(
            self.settings,
            [*place, *args],
            cwd=self.top or self.git_dir,
            protocol=protocol,
            codes=codes,
            max_bytes=max_bytes,
            stdin=stdin,
            write=write,
        )

    def line(self, *args: str, codes: Sequence[int] = (0,)) -> str:
        """Return what git says to `args` as one line of text."""
        return decoded(self.git(*args, codes=codes).out).strip()

    def explained(self, done: Finished) -> str:
        """Return git's complaint for a caller."""
        return explained(self.settings, done.err)

    @property
    def shown(self) -> str:
        """The repository as a caller may name it again."""
        return self.settings.shown(self.top or self.git_dir)


def open_repository(value: str, *, working_tree: bool = False) -> Repository:
    """Return the repository at `value`, a path a caller sent.

    Args:
        value: the top of a working tree or a bare repository; folders above it are not searched.
        working_tree: whether the caller's tool needs one.

    Raises:
        ToolError: there is none, it is outside the roots, or it is refused.
    """
    settings = read_settings()
    folder = locate(settings, value)
    repository = inspect(settings, folder, value)
    if working_tree and repository.top is None:
        raise ToolError(f"bare repository has no working tree: {value!r}")
    return repository


def inspect(settings: Settings, folder: Path, named: str) -> Repository:
    """Return the repository whose top is `folder`, a real path inside the roots.

    Raises:
        ToolError: it is none, or a part of it is outside the roots or could start programs.
    """
    top, git_dir = _git_dir(settings, folder, named)
    common = read_pointer(git_dir / "commondir", "commondir")
    common_dir = git_dir if common is None else require_inside(settings, git_dir / common.rstrip("\r\n"), "commondir")
    if not _looks_like_git_dir(git_dir, common_dir):
        raise _not_a_repository(settings, folder, named)
    back = read_pointer(git_dir / "gitdir", "gitdir")
    if back is not None:
        require_inside(settings, git_dir / back.rstrip("\r\n"), "gitdir")
    for place in dict.fromkeys((git_dir, common_dir)):
        if os.path.lexists(place / ".git"):
            raise ToolError(f"repository refused: its git folder holds another one: {named!r}")
        _require_links_inside(settings, place)
    _require_alternates_inside(settings, common_dir / "objects")
    for config in dict.fromkeys((common_dir / "config", git_dir / "config.worktree")):
        require_harmless_config(settings, config, top)
    return Repository(settings, top, git_dir, common_dir)


def _git_dir(settings: Settings, folder: Path, named: str) -> tuple[Path | None, Path]:
    """Return the working tree, if any, and the git folder behind `folder`."""
    dot_git = folder / ".git"
    bare = _looks_like_git_dir(folder, folder)
    if not os.path.lexists(dot_git):
        if not bare:
            raise _not_a_repository(settings, folder, named)
        return None, folder
    if bare:
        raise ToolError(f"repository refused: it is both a working tree and a bare repository: {named!r}")
    real = require_inside(settings, dot_git, ".git")
    if real.is_dir():
        return folder, real
    pointer = None if dot_git.is_symlink() else read_pointer(dot_git, ".git file")
    if pointer is None or not pointer.startswith("gitdir: "):
        raise _not_a_repository(settings, folder, named)
    target = pointer.removeprefix("gitdir: ").rstrip("\r\n")
    return folder, require_inside(settings, folder / target, ".git file")


def _looks_like_git_dir(git_dir: Path, common_dir: Path) -> bool:
    return os.path.lexists(git_dir / "HEAD") and (common_dir / "objects").is_dir() and (common_dir / "refs").is_dir()


def _not_a_repository(settings: Settings, folder: Path, named: str) -> ToolError:
    if not folder.exists():
        what = f"no such folder: {named!r}"
    else:
        what = f"not the top of a git repository: {named!r}"
    for above in folder.parents:
        if settings.contains(above) and (above / ".git").exists():
            return ToolError(f"{what}; the repository above it is {settings.shown(above)!r}")
    near = similar_folder(settings, folder)
    return ToolError(f"{what}; did you mean {near!r}?" if near else what)


def _require_links_inside(settings: Settings, git_dir: Path) -> None:
    """Refuse a git folder with a symlink out of the roots.

    git writes `COMMIT_EDITMSG`, `logs/HEAD` and others through such links. Loose objects and the
    stores of submodules (looked over when they are used) and of LFS are not walked.
    """
    todo, seen, n_entries = [git_dir], {git_dir}, 0
    while todo:
        folder = todo.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    n_entries += 1
                    if entry.is_symlink():
                        path = require_inside(settings, Path(entry.path), f"{entry.name!r} link")
                    elif entry.is_dir():
                        path = Path(entry.path)
                    else:
                        continue
                    if path not in seen and path.is_dir() and not _is_store(folder, entry.name, git_dir):
                        seen.add(path)
                        todo.append(path)
        except OSError as error:
            raise ToolError(f"repository refused: its git folder cannot be read: {error.strerror}") from None
        if n_entries > MAX_ENTRIES:
            raise ToolError("repository refused: its git folder holds too many files to look over")


def _is_store(folder: Path, name: str, git_dir: Path) -> bool:
    if folder.name == "objects":
        return len(name) == 2
    return folder == git_dir and name in ("modules", "lfs")


def _require_alternates_inside(settings: Settings, objects: Path) -> None:
    todo, seen = [Path(os.path.realpath(objects))], set[Path]()
    while todo:
        store = todo.pop()
        if store in seen:
            continue
        seen.add(store)
        if len(seen) > MAX_ALTERNATES:
            raise ToolError("repository refused: its alternates are too many to look over")
        listed = read_pointer(store / "info" / "alternates", "alternates", 64 * 1024) or ""
        for line in listed.split("\n"):
            if line.startswith('"'):
                raise ToolError("repository refused: its alternates are malformed")
            if line and not line.startswith("#"):
                require_inside(settings, store / line, "alternates")
                # git drops `..` before it follows symlinks
                todo.append(require_inside(settings, Path(os.path.normpath(store / line)), "alternates"))
