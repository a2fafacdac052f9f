"""Snapshots on disk, from which a gateway lists every tool before any upstream runs."""

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
"""The first words of a file; files of another format are of another version of this package."""
SUFFIX = ".snapshot"
LATE_SUFFIX = ".late"
"""The suffix of an empty file in place of a snapshot: its upstream failed, or came late, when lists waited for it."""
PARTIAL_SUFFIX = ".partial"


def stem_of(upstream: str) -> str:
    """Return the beginning of the names of an upstream's files: readable and unique."""
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", upstream)[:60]
    return f"{readable}-{blake2b(upstream.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}."


def file_name(upstream: str, config_digest: str, suffix: str = SUFFIX) -> str:
    return f"{stem_of(upstream)}{config_digest}{suffix}"


def read(path: Path) -> Snapshot:
    """Return the snapshot in a file.

    Its digest comes from the file too, so that a start hashes nothing but the file's bytes.

    Raises:
        ValueError: the file is of another format, cut short, changed, or invalid for this version.
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
"""The most configs of one upstream with files: gateways of several projects share a folder."""
LONGEST_S = 90 * 24 * 3600.0
"""Seconds after which a file that nobody renewed is removed."""
PARTIAL_LONGEST_S = 3600.0
"""Seconds after which an unfinished file counts as left behind by a killed process."""


class SnapshotStore:
    """One file for each upstream and config digest, shared by processes, and replaced atomically.

    Snapshots have no secret of a config in them (`secrets.py`). An upstream whose file can't be read counts as never
    reached, with a warning; its next listing replaces the file. Where nothing can be written (a full disk, another
    user's folder) snapshots stay in memory: `problem` and one warning say so. Files are in a folder `1` of their own
    (0700, files 0600).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "1"
        self.problem = ""
        """Why the last one could not be written; empty where it could."""
        self._in_memory: dict[str, Snapshot] = {}

    def load(self, config: UpstreamConfig) -> Snapshot | None:
        """Return the last snapshot of an upstream with this config, if any."""
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
        """Replace a snapshot atomically; call it in a thread."""
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
        """Whether an upstream without a snapshot failed, or came late, when lists waited for it; they wait no more."""
        return os.path.exists(self.folder / file_name(config.name, config.digest, LATE_SUFFIX))

    def note_late(self, config: UpstreamConfig) -> None:
        """Store that an upstream failed, or came late, until it has a snapshot; call it in a thread."""
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
    """Raise where a folder is another user's, who could forge what the gateway lists."""
    user, owner = (os.geteuid(), folder.lstat().st_uid) if hasattr(os, "geteuid") else (0, 0)
    if user not in (0, owner):
        raise PermissionError(f"the folder belongs to user {owner}, not to {user}")


def _remove_old(folder: Path, upstream: str) -> None:
    now = time.time()
    with suppress(OSError), os.scandir(folder) as entries:
        ages = {Path(entry.path): now - entry.stat().st_mtime for entry in entries}
        for suffix, longest_s in ((PARTIAL_SUFFIX, PARTIAL_LONGEST_S), (SUFFIX, LONGEST_S), (LATE_SUFFIX, LONGEST_S)):
            newest_first = sorted((path for path in ages if path.suffix == suffix), key=ages.__getitem__)
            own = [path for path in newest_first if path.name.startswith(stem_of(upstream))]
            for path in {*own[N_CONFIGS:], *(path for path in newest_first if ages[path] > longest_s)}:
                path.unlink(missing_ok=True)
