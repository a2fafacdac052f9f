"""Names for callers that lead back to nobody who has only the log."""

from __future__ import annotations

import secrets
from hashlib import blake2b
from pathlib import Path

from agent_utilities.runtime.process_io import read_whole, write_whole
from agent_utilities.usage.errors import UsageError, usage_error

_SALT_BYTES = 32
_KEY_BYTES = 8


def subject_key(salt: bytes, subject: str) -> str:
    """Return the key of who calls, 16 hexadecimal digits: the same for all time.

    Without the salt, which nobody else has, it can't be made from a guessed subject.
    """
    encoded = subject.encode("utf-8", "surrogatepass")
    return blake2b(encoded, digest_size=_KEY_BYTES, key=salt, person=b"subject").hexdigest()


def read_salt(log: Path) -> bytes:
    """Return the 32 bytes of a log's salt, drawn once, in a file beside it that only its user can read."""
    path = log.with_name(f"{log.name}.salt")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            write_whole(path, secrets.token_bytes(_SALT_BYTES))
        salt = read_whole(path, 2 * _SALT_BYTES)
    except OSError as error:
        raise usage_error(error, path) from error
    if len(salt) != _SALT_BYTES:
        raise UsageError("corrupt", path, f"{len(salt)} bytes of salt, not {_SALT_BYTES}")
    return salt
