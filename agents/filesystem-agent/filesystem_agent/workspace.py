"""The allowed roots, held open: every path starts at one of their descriptors, never at `/`."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fastmcp.exceptions import ToolError
from pydantic import ValidationError

from filesystem_agent.errors import reason, refusal
from filesystem_agent.names import split_names
from filesystem_agent.settings import Settings

TRAVERSE: int = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True)
class Root:
    """One allowed directory."""

    path: str
    """Real path, without symlinks."""
    spellings: tuple[tuple[str, ...], ...]
    """Names of the real path and of the path as the operator wrote it."""
    fd: int
    """Descriptor opened once; renaming or replacing the directory can't redirect it."""


class Workspace:
    """What the tools of one server share: settings, roots and the lock that orders changes.

    Nothing is read or opened before the first call, so that importing the server does no I/O.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        """Keep `settings`; without them the environment is read at the first call."""
        self._given_settings = settings
        self._opening = threading.Lock()
        self._roots: tuple[Root, ...] = ()
        self.commit_lock = threading.Lock()

    @cached_property
    def settings(self) -> Settings:
        """The operator's settings.

        Raises:
            ToolError: a `FILESYSTEM_AGENT_*` variable has no valid value.
        """
        try:
            return self._given_settings or Settings()
        except ValidationError as error:
            problem = error.errors()[0]
            name = "FILESYSTEM_AGENT_" + "_".join(str(part) for part in problem["loc"]).upper()
            raise refusal(f"{name} is not valid ({problem['msg'].lower()})", problem["input"]) from error

    @property
    def roots(self) -> tuple[Root, ...]:
        """The open roots; relative paths start at the first."""
        with self._opening:
            if not self._roots:
                self._roots = tuple(_open_root(path) for path in self.settings.roots or (Path.cwd(),))
        return self._roots

    def match(self, path: str) -> tuple[Root, tuple[str, ...]]:
        """Return the root a path belongs to and the names below it.

        Raises:
            ToolError: an absolute path that lies in no root, or text that is no path.
        """
        names = split_names(path)
        if not path.startswith("/"):
            return self.roots[0], names
        matches = [
            (len(spelling), root)
            for root in self.roots
            for spelling in root.spellings
            if names[: len(spelling)] == spelling
        ]
        if not matches:
            raise self.outside(path)
        n_names, root = max(matches, key=lambda match: match[0])
        return root, names[n_names:]

    def outside(self, path: str) -> ToolError:
        """Return the refusal for a path that is not inside a root."""
        roots = ", ".join(root.path for root in self.roots)
        return refusal("path is outside the allowed roots", path, f"allowed: {roots}")

    def shown(self, root: Root, names: tuple[str, ...]) -> str:
        """Return the path that leads back here: relative in the first root, absolute in the others."""
        if root is self.roots[0]:
            return "/".join(names) or "."
        return "/".join((root.path.rstrip("/"), *names))

    def close(self) -> None:
        """Close the roots; a later call opens them again."""
        with self._opening:
            roots, self._roots = self._roots, ()
        for root in roots:
            os.close(root.fd)


def _open_root(path: Path) -> Root:
    try:
        real = os.path.realpath(path, strict=True)
        fd = os.open(real, TRAVERSE | os.O_NOFOLLOW)
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise refusal(f"an allowed root can't be opened ({why})", str(path), "check FILESYSTEM_AGENT_ROOTS") from error
    written = os.path.abspath(path)
    spellings = {tuple(part for part in text.split("/") if part) for text in (real, written)}
    return Root(real, tuple(sorted(spellings)), fd)
