"""The environment of a test run: nothing of the user's selection in it, and nothing of the user's written to.

The run has a home, a cache and a state folder of its own, which end with it. The one exception is what was downloaded
for tests (Neo4j's jars, Node.js and its packages, MCP servers): they are kept in the user's cache folder and linked to.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

APP = "agent-utilities"
DOWNLOADS = ("go", "neo4j", "node", "python")
"""Folders of the user's cache that hold downloads for tests, and nothing that a server writes."""
_SETTINGS = (".npmrc", ".m2", ".config/pip", ".config/uv")
"""What tells npm, Maven and pip where downloads come from."""


@dataclass(frozen=True)
class Run:
    """The folders of one test run.

    Args:
        folder: ends with the run.
        saved: the environment before it.
    """

    folder: Path
    saved: Mapping[str, str]

    @property
    def strayed(self) -> Path:
        """Where a program writes that was told the home folder and not the cache folder."""
        return self.folder / "home" / ".cache" / APP

    @property
    def state(self) -> Path:
        """Where servers keep what outlives them: what was called, logins and agreements."""
        return self.folder / "state"

    def end(self) -> None:
        """Give the environment back and remove the folders; links are removed, not what they lead to."""
        os.environ.clear()
        os.environ.update(self.saved)
        shutil.rmtree(self.folder, ignore_errors=True)


def begin() -> Run:
    """Point home, cache and state at folders of this run, for this process and what it starts; unset every `MCP_*`."""
    run = Run(Path(tempfile.mkdtemp(prefix=f"{APP}-tests-")), dict(os.environ))
    home, cache = run.folder / "home", run.folder / "cache"
    for name in _SETTINGS:
        _link(home / name, Path.home() / name)
    for name in DOWNLOADS:
        downloads = Path(platformdirs.user_cache_dir(APP)) / name
        downloads.mkdir(parents=True, exist_ok=True)
        _link(cache / APP / name, downloads)
    for name in [name for name in os.environ if name.startswith("MCP_")]:
        del os.environ[name]
    os.environ.pop("XDG_CONFIG_HOME", None)  # the run's home has its own
    os.environ.update(HOME=str(home), XDG_CACHE_HOME=str(cache), XDG_STATE_HOME=str(run.state))
    # Whether a model is installed must not change what tests see.
    os.environ.update(MCP_RANKER="lexical", MCP_CONFIG_FILE="none")
    return run


def _link(path: Path, target: Path) -> None:
    if target.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target.resolve())
