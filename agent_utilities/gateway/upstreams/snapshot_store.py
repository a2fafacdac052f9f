"""Snapshots on disk, so that a gateway lists every tool before any upstream runs; what can't be kept delays none."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from agent_utilities.runtime.process_io import open_regular, write_whole

if TYPE_CHECKING:
    from agent_utilities.gateway.upstreams.config import UpstreamConfig
    from agent_utilities.gateway.upstreams.snapshot import Snapshot


FORMAT = "agent-utilities snapshot 1"
"""The first words of a file. Files of another format are for another version of this package."""
SUFFIX = ".snapshot"
LATE_SUFFIX = ".late"
"""Of an empty file in place of a snapshot: its upstream failed, or came late, when lists waited for it."""
PARTIAL_SUFFIX = ".partial"


def stem_of(upstream: str) -> str:
    """Return how the names of all files of an upstream begin: readable, and no two upstreams' alike."""
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", upstream)[:60]
    return f"{readable}-{blake2b(upstream.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}."


def file_name(upstream: str, config_digest: str, suffix: str = SUFFIX) -> str:
    """Return the name of the file for an upstream with one config."""
    return f"{stem_of(upstream)}{config_digest}{suffix}"


def read(path: Path) -> Snapshot:
    """Return the snapshot that a file holds.

    The digest of what it lists is taken from the file, so that a start hashes nothing but the file's bytes.

    Raises:
        ValueError: the file is of another format, cut short, changed, or holds no snapshot that this version can read.
        OSError: it can't be read; `FileNotFoundError` where there is none.
    """
    from agent_utilities.gateway.upstreams.snapshot import Snapshot

    with open_regular(path) as file:
        head, _, body = file.read().partition(b"\n")
    form, _, sums = head.decode("ascii", "replace").rpartition(" ")
    checksum, _, digest = sums.partition(":")
    if form != FORMAT:
        raise ValueError("it is of another version")
    if _checksum(body + digest.encode()) != checksum:
        raise ValueError("it was cut short or changed")
    snapshot = Snapshot.model_validate_json(body)
    snapshot.__dict__["digest"] = digest  # the value of its cached property, which the checksum vouches for
    return snapshot


def _checksum(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


logger = logging.getLogger(__name__)

N_CONFIGS = 8
"""How many configs of one upstream are remembered: gateways of several projects share a folder."""
LONGEST_S = 90 * 24 * 3600.0
"""Seconds after which a file that nobody renewed is removed."""
PARTIAL_LONGEST_S = 3600.0
"""Seconds after which a file that was never finished counts as a killed process's."""


class SnapshotStore:
    """One file for each upstream and config digest, shared by processes: each is swapped whole.

    What is saved has no secret of a config in it: whoever takes a snapshot leaves them out (`secrets.py`).
    An upstream whose file can't be read counts as never reached, with a warning; its next listing replaces the file.
    Where nothing can be written (a full disk, a folder of somebody else's) snapshots stay in memory: `problem` and one
    warning say so. They are kept in a folder `1` of their own (0700, files 0600).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "1"
        self.problem = ""
        """Why the last could not be kept on disk, so that it is in memory only; empty where it could."""
        self._in_memory: dict[str, Snapshot] = {}

    def load(self, config: UpstreamConfig) -> Snapshot | None:
        """Return what an upstream last listed with this config; None where that is not known."""
        in_memory = self._in_memory.get(config.name)
        if in_memory is not None and in_memory.config_digest == config.digest:
            return in_memory
        try:
            _check_owner(self.folder)
            snapshot = read(self.folder / file_name(config.name, config.digest))
            if (snapshot.upstream, snapshot.config_digest) == (config.name, config.digest):
                return snapshot
            why: object = "it is another upstream's"
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            why = error
        logger.warning("the snapshot of upstream %r can't be read: %s", config.name, why)
        return None

    def save(self, snapshot: Snapshot) -> None:
        """Keep a snapshot in place of the one before: a reader, or a kill, finds the old or the new one, whole.

        It waits for the disk: call it in a thread.
        """
        self._in_memory[snapshot.upstream] = snapshot
        own = snapshot.upstream, snapshot.config_digest

        def write() -> None:
            body = snapshot.model_dump_json(by_alias=True, exclude_unset=True).encode()
            digest = snapshot.digest
            head = f"{FORMAT} {_checksum(body + digest.encode())}:{digest}\n".encode()
            write_whole(self.folder / file_name(*own), head + body, partial_suffix=PARTIAL_SUFFIX)
            (self.folder / file_name(*own, LATE_SUFFIX)).unlink(missing_ok=True)

        self._keep(snapshot.upstream, write)

    def is_late(self, config: UpstreamConfig) -> bool:
        """Whether an upstream without a snapshot failed, or came late, when lists waited for it, and is not again."""
        return os.path.exists(self.folder / file_name(config.name, config.digest, LATE_SUFFIX))

    def note_late(self, config: UpstreamConfig) -> None:
        """Remember that an upstream failed, or came late, until it has a snapshot. Call it in a thread."""
        self._keep(config.name, (self.folder / file_name(config.name, config.digest, LATE_SUFFIX)).touch)

    def _keep(self, upstream: str, write: Callable[[], None]) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_owner(self.folder)
            self.folder.chmod(0o700)
            write()
        except (OSError, ValueError) as error:  # ValueError: what can't be written as JSON
            before, self.problem = self.problem, f"snapshots are kept in memory only: {error} ({self.folder})"
            if self.problem != before:
                logger.warning("%s", self.problem)
        else:
            self.problem = ""
            _remove_old(self.folder, upstream)


def _check_owner(folder: Path) -> None:
    """Raise where a folder is somebody else's, who could have a gateway list what they like."""
    user, owner = (os.geteuid(), folder.lstat().st_uid) if hasattr(os, "geteuid") else (0, 0)
    if user not in (0, owner):
        raise PermissionError(f"the folder belongs to user {owner}, not to {user}")


def _remove_old(folder: Path, upstream: str) -> None:
    """Remove what the bounds leave no room for; what another process removes meanwhile is left to it."""
    now = time.time()
    with suppress(OSError), os.scandir(folder) as entries:
        ages = {Path(entry.path): now - entry.stat().st_mtime for entry in entries}
        for suffix, longest_s in ((PARTIAL_SUFFIX, PARTIAL_LONGEST_S), (SUFFIX, LONGEST_S), (LATE_SUFFIX, LONGEST_S)):
            newest_first = sorted((path for path in ages if path.suffix == suffix), key=ages.__getitem__)
            own = [path for path in newest_first if path.name.startswith(stem_of(upstream))]
            for path in {*own[N_CONFIGS:], *(path for path in newest_first if ages[path] > longest_s)}:
                path.unlink(missing_ok=True)
