"""The file of one snapshot: its name, its text, and reading and writing it so that no reader sees half of it."""

from __future__ import annotations

import re
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from agent_utilities.runtime.whole_file import write_whole

if TYPE_CHECKING:
    from agent_utilities.upstream.snapshot import Snapshot

FORMAT = "agent-utilities snapshot 1"
"""The first words of a file. Files of another format are for another version of this package."""
SUFFIX = ".snapshot"
LATE_SUFFIX = ".late"
"""Of an empty file in place of a snapshot: its upstream failed, or came late, when lists waited for it."""
PARTIAL_SUFFIX = ".partial"
DAMAGED_SUFFIX = ".damaged"


class DamagedSnapshotError(ValueError):
    """A file that holds no snapshot that this version can read."""


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
        DamagedSnapshotError: the file is of another format, cut short, changed, or holds no snapshot.
        OSError: it can't be read; `FileNotFoundError` where there is none.
    """
    from agent_utilities.upstream.snapshot import Snapshot

    head, _, body = path.read_bytes().partition(b"\n")
    form, _, sums = head.decode("ascii", "replace").rpartition(" ")
    checksum, _, digest = sums.partition(":")
    if form != FORMAT:
        raise DamagedSnapshotError("it is of another version")
    if _checksum(body + digest.encode()) != checksum:
        raise DamagedSnapshotError("it was cut short or changed")
    try:
        snapshot = Snapshot.model_validate_json(body)
    except ValueError as error:
        raise DamagedSnapshotError("it holds no snapshot that this version can read") from error
    snapshot.__dict__["digest"] = digest  # the value of its cached property, which the checksum vouches for
    return snapshot


def write(path: Path, snapshot: Snapshot) -> None:
    """Put a snapshot in place of what a file held: a reader, or a kill, finds the old or the new one, whole.

    Raises:
        OSError: it can't be written; the file is as it was.
    """
    body = snapshot.model_dump_json(by_alias=True, exclude_unset=True).encode()
    digest = snapshot.digest
    head = f"{FORMAT} {_checksum(body + digest.encode())}:{digest}\n".encode()
    write_whole(path, head + body, partial_suffix=PARTIAL_SUFFIX)


def _checksum(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
