"""Snapshots on disk, so that a gateway lists every tool before any upstream runs; what can't be kept delays none."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from agent_utilities.upstream import snapshot_file

if TYPE_CHECKING:
    from agent_utilities.upstream.config import UpstreamConfig
    from agent_utilities.upstream.snapshot import Snapshot

logger = logging.getLogger(__name__)

N_CONFIGS = 8
"""How many configs of one upstream are remembered: gateways of several projects share a folder."""
LONGEST_S = 90 * 24 * 3600.0
"""Seconds after which a file that nobody renewed is removed."""
PARTIAL_LONGEST_S = 3600.0
"""Seconds after which a file that was never finished counts as a killed process's."""
N_DAMAGED = 4
"""How many files that were set aside are left to be looked at."""


def default_folder() -> Path:
    """Return the folder of the user's snapshots."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("agent-utilities")) / "snapshots"


class SnapshotStore:
    """One file for each upstream and config digest, shared by processes: each is swapped whole.

    A file that can't be read is set aside, with a warning, and its upstream counts as never reached. Where nothing can
    be written (a full disk, a folder of somebody else's) snapshots stay in memory: `problem` and one warning say so.

    Args:
        folder: where they are kept, in a folder `1` of its own (0700, files 0600); None for memory alone.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = None if folder is None else folder / "1"
        self.problem = ""
        """Why snapshots are in memory only; empty where they are on disk."""
        self._in_memory: dict[str, Snapshot] = {}

    def load(self, config: UpstreamConfig) -> Snapshot | None:
        """Return what an upstream last listed with this config; None where that is not known."""
        kept = self._in_memory.get(config.name)
        if kept is not None and kept.config_digest == config.digest:
            return kept
        if self.folder is None:
            return None
        path = self.folder / snapshot_file.file_name(config.name, config.digest)
        try:
            snapshot = snapshot_file.read(path)
            if (snapshot.upstream, snapshot.config_digest) != (config.name, config.digest):
                raise snapshot_file.DamagedSnapshotError("it is another upstream's")
            return snapshot
        except FileNotFoundError:
            return None
        except snapshot_file.DamagedSnapshotError as error:
            self._set_aside(path, str(error))
        except OSError as error:
            logger.warning("the snapshot of upstream %r can't be read: %s", config.name, error)
        return None

    def save(self, snapshot: Snapshot) -> None:
        """Keep a snapshot in place of the one before. It waits for the disk: call it in a thread."""
        if self.folder is None:
            self._in_memory[snapshot.upstream] = snapshot
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            snapshot_file.write(
                self.folder / snapshot_file.file_name(snapshot.upstream, snapshot.config_digest), snapshot
            )
        except OSError as error:
            self._in_memory[snapshot.upstream] = snapshot
            self._tell(f"snapshots are kept in memory only: {error.strerror or error} ({self.folder})")
            return
        self.problem = ""
        self._in_memory.pop(snapshot.upstream, None)
        self._remove_old(snapshot)

    def _tell(self, problem: str) -> None:
        if problem != self.problem:
            logger.warning("%s", problem)
        self.problem = problem

    def _set_aside(self, path: Path, why: str) -> None:
        aside = path.with_name(f"{path.name}.{time.time_ns()}{snapshot_file.DAMAGED_SUFFIX}")
        try:
            path.rename(aside)
        except FileNotFoundError:  # another process has just done so
            return
        except OSError as error:
            logger.warning("the snapshot %s is passed over: %s; it can't be set aside: %s", path, why, error)
            return
        logger.warning("the snapshot %s is set aside: %s (it is now %s)", path, why, aside.name)

    def _remove_old(self, saved: Snapshot) -> None:
        """Remove what bounds leave no room for; what can't be removed stays."""
        assert self.folder is not None
        now = time.time()
        stem = snapshot_file.stem_of(saved.upstream)
        ages: dict[Path, float] = {}
        try:
            for entry in os.scandir(self.folder):
                ages[Path(entry.path)] = now - entry.stat().st_mtime
        except OSError:  # a file that another process removed: the next save looks again
            return
        newest_first = sorted(ages, key=ages.__getitem__)
        own = [path for path in newest_first if path.name.startswith(stem) and path.suffix == snapshot_file.SUFFIX]
        damaged = [path for path in newest_first if path.suffix == snapshot_file.DAMAGED_SUFFIX]
        partial = [path for path in newest_first if path.suffix == snapshot_file.PARTIAL_SUFFIX]
        old = [path for path in newest_first if ages[path] > LONGEST_S and path.suffix == snapshot_file.SUFFIX]
        killed = [path for path in partial if ages[path] > PARTIAL_LONGEST_S]
        for path in {*own[N_CONFIGS:], *damaged[N_DAMAGED:], *old, *killed}:
            try:
                path.unlink(missing_ok=True)
            except OSError:
                continue
