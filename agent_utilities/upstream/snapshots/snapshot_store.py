"""Snapshots on disk, so that a gateway lists every tool before any upstream runs; what can't be kept delays none."""

from __future__ import annotations

import logging
import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

from agent_utilities.upstream.secrets import secrets_of, without_secrets
from agent_utilities.upstream.snapshots import snapshot_file

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


class SnapshotStore:
    """One file for each upstream and config digest, shared by processes: each is swapped whole.

    No secret of a config is written: `load` learns what is secret, so an upstream is loaded before it is first saved.
    A file that can't be read is set aside, with a warning, and its upstream counts as never reached. Where nothing can
    be written (a full disk, a folder of somebody else's) snapshots stay in memory: `problem` and one warning say so.

    Args:
        folder: where they are kept, in a folder `1` of its own (0700, files 0600); None for memory alone.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = None if folder is None else folder / "1"
        self._problems: dict[str, str] = {}
        self._in_memory: dict[str, Snapshot] = {}
        self._late: set[tuple[str, str]] = set()
        self._secrets: dict[tuple[str, str], tuple[str, ...]] = {}

    @property
    def problem(self) -> str:
        """Why snapshots are in memory only; empty where all are on disk, or are meant to be in memory."""
        return "; ".join(dict.fromkeys(self._problems.values()))

    def load(self, config: UpstreamConfig) -> Snapshot | None:
        """Return what an upstream last listed with this config; None where that is not known."""
        own = config.name, config.digest
        # The digest holds for any value of a variable: what was secret before may still come back from a process.
        known = {*self._secrets.get(own, ()), *secrets_of(config)}
        self._secrets[own] = tuple(sorted(known, key=lambda secret: (-len(secret), secret)))
        in_memory = self._in_memory.get(config.name)
        if in_memory is not None and in_memory.config_digest == config.digest:
            return in_memory
        if self.folder is None:
            return None
        path = self.folder / snapshot_file.file_name(*own)
        try:
            self._check_owner(self.folder)
            snapshot = snapshot_file.read(path)
            if (snapshot.upstream, snapshot.config_digest) != own:
                raise snapshot_file.DamagedSnapshotError("it is another upstream's")
        except FileNotFoundError:
            return None
        except snapshot_file.DamagedSnapshotError as error:
            self._set_aside(path, str(error))
            return None
        except OSError as error:
            logger.warning("the snapshot of upstream %r can't be read: %s", config.name, error)
            return None
        return snapshot

    def save(self, snapshot: Snapshot) -> None:
        """Keep a snapshot in place of the one before. It waits for the disk: call it in a thread."""
        if self.folder is None:
            self._in_memory[snapshot.upstream] = snapshot
            return
        try:
            self._write(self.folder, snapshot)
        except (OSError, ValueError) as error:  # ValueError: what can't be written as JSON
            self._in_memory[snapshot.upstream] = snapshot
            self._tell(snapshot.upstream, f"snapshots are kept in memory only: {error} ({self.folder})")
            return
        self._in_memory.pop(snapshot.upstream, None)
        self._problems.pop(snapshot.upstream, None)
        try:
            _remove_old(self.folder, snapshot.upstream)
        except OSError:  # another process removed what this one looked at, or nothing may be removed: not now, then
            return

    def is_late(self, config: UpstreamConfig) -> bool:
        """Whether an upstream without a snapshot failed, or came late, when lists waited for it, and is not again."""
        own = config.name, config.digest
        if own in self._late or self.folder is None:
            return own in self._late
        try:
            return (self.folder / snapshot_file.file_name(*own, snapshot_file.LATE_SUFFIX)).exists()
        except OSError:
            return False

    def note_late(self, config: UpstreamConfig) -> None:
        """Remember that an upstream failed, or came late, until it has a snapshot. Call it in a thread."""
        own = config.name, config.digest
        self._late.add(own)
        if self.folder is None:
            return
        try:
            self._make(self.folder)
            (self.folder / snapshot_file.file_name(*own, snapshot_file.LATE_SUFFIX)).touch(mode=0o600)
            _remove_old(self.folder, config.name)
        except OSError as error:
            self._tell(config.name, f"snapshots are kept in memory only: {error} ({self.folder})")

    def _write(self, folder: Path, snapshot: Snapshot) -> None:
        own = snapshot.upstream, snapshot.config_digest
        secrets = self._secrets.get(own)
        if secrets is None:
            raise ValueError(f"it is not known what is secret of upstream {snapshot.upstream!r}: load it before")
        self._make(folder)
        snapshot_file.write(folder / snapshot_file.file_name(*own), without_secrets(snapshot, secrets))
        (folder / snapshot_file.file_name(*own, snapshot_file.LATE_SUFFIX)).unlink(missing_ok=True)

    def _make(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_owner(folder)
        if stat.S_IMODE(folder.stat().st_mode) & 0o077:
            folder.chmod(0o700)

    def _check_owner(self, folder: Path) -> None:
        """Raise where a folder is somebody else's, who could have a gateway list what he likes."""
        if not hasattr(os, "geteuid"):
            return
        owner, user = folder.lstat().st_uid, os.geteuid()
        if user not in (0, owner):
            raise PermissionError(f"the folder belongs to user {owner}, not to {user}")

    def _tell(self, upstream: str, problem: str) -> None:
        if problem not in self._problems.values():
            logger.warning("%s", problem)
        self._problems[upstream] = problem

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


def _remove_old(folder: Path, upstream: str) -> None:
    """Remove what the bounds leave no room for."""
    stem, now = snapshot_file.stem_of(upstream), time.time()
    with os.scandir(folder) as entries:
        ages = {Path(entry.path): now - entry.stat().st_mtime for entry in entries}
    newest_first = sorted(ages, key=ages.__getitem__)

    def those(suffix: str) -> list[Path]:
        return [path for path in newest_first if path.suffix == suffix]

    snapshots = those(snapshot_file.SUFFIX)
    late = those(snapshot_file.LATE_SUFFIX)
    own = [path for path in snapshots if path.name.startswith(stem)]
    own_late = [path for path in late if path.name.startswith(stem)]
    old = [path for path in (*snapshots, *late) if ages[path] > LONGEST_S]
    unfinished = [path for path in those(snapshot_file.PARTIAL_SUFFIX) if ages[path] > PARTIAL_LONGEST_S]
    for path in {
        *own[N_CONFIGS:],
        *own_late[N_CONFIGS:],
        *old,
        *unfinished,
        *those(snapshot_file.DAMAGED_SUFFIX)[N_DAMAGED:],
    }:
        path.unlink(missing_ok=True)
