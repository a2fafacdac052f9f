"""Secrets at rest: entries encrypted by the operator's key, each bound to its name, in files with opaque names."""

from __future__ import annotations

import json
import logging
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import BaseModel, ValidationError

from agent_utilities.errors import SettingsError
from agent_utilities.runtime.process_io import expanded, open_regular, read_whole, write_whole

logger = logging.getLogger(__name__)

FORMAT = b"agent-utilities sealed 1\n"
"""The first bytes of a file, which are also authenticated."""
_KEY_BYTES = 32
_NONCE_BYTES = 12
_HINT = "make one by `agent-utilities key new`, and keep it: what was sealed by another key is lost"
_M = TypeVar("_M", bound=BaseModel)


def new_key() -> str:
    """Return a key drawn at random: 32 bytes in URL-safe base64."""
    return urlsafe_b64encode(os.urandom(_KEY_BYTES)).decode()


def read_key(text: str, file: str) -> bytes:
    """Return the operator's key from a setting's text, or else a file; `SettingsError`, without the key, if invalid."""
    source = "env MCP_SECRET_KEY"
    if not text and file:
        source = "env MCP_SECRET_KEY_FILE"
        try:
            text = read_whole(expanded(file), 1024).decode("ascii")
        except (OSError, ValueError) as error:
            why = (getattr(error, "strerror", None) or type(error).__name__).lower()
            raise SettingsError(f"the secret key can't be read ({why})", file, source, _HINT) from None
    text = text.strip()
    if not text:
        raise SettingsError("no secret key to seal logins and shared state with", "", source, _HINT)
    try:
        key = urlsafe_b64decode(text.encode("ascii"))
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise SettingsError(f"the secret key is no {_KEY_BYTES} bytes in URL-safe base64", "[hidden]", source, _HINT)
    return key


class SealedStore:
    """Entries by their names, AES-GCM under one key, with a fresh nonce for each write.

    An entry's name is its associated data: it does not decrypt under another name, so that write access to the folder
    can't swap entries between people. An entry that does not decrypt counts as missing, and is logged. An earlier
    version of the same entry does decrypt: replay is not detected.

    Its methods wait for the disk: call them in a thread.

    Args:
        folder: the folder of the entries (0700, files 0600).
        key: 32 bytes.
    """

    def __init__(self, folder: Path, key: bytes) -> None:
        self._folder, self._aead, self._key = folder, AESGCM(key), key

    def load(self, kind: type[_M], *name: str) -> _M | None:
        """Return an entry; None where there is none, or it can't be decrypted."""
        bound_to = _as_bytes(name)
        try:
            with open_regular(self._file(bound_to)) as file:
                content = file.read()
            nonce, sealed = content[len(FORMAT) :][:_NONCE_BYTES], content[len(FORMAT) + _NONCE_BYTES :]
            return kind.model_validate_json(self._aead.decrypt(nonce, sealed, bound_to))
        except FileNotFoundError:
            return None
        except (InvalidTag, ValidationError, ValueError):
            why = "it was sealed by another key or version, or changed"
        except OSError as error:
            why = error.strerror or type(error).__name__
        logger.warning("an entry of %s can't be opened, and counts as none: %s", self._folder, why)
        return None

    def save(self, entry: BaseModel, *name: str) -> None:
        """Replace an entry atomically; `OSError` where it can't be written."""
        bound_to, nonce = _as_bytes(name), os.urandom(_NONCE_BYTES)
        content = entry.model_dump_json(by_alias=True, exclude_unset=True).encode()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        write_whole(self._file(bound_to), FORMAT + nonce + self._aead.encrypt(nonce, content, bound_to))

    def remove(self, *name: str) -> None:
        self._file(_as_bytes(name)).unlink(missing_ok=True)

    def _file(self, bound_to: bytes) -> Path:
        """Return an entry's file, whose name is a keyed hash, so that no guess can be checked against it."""
        digest = blake2b(bound_to, digest_size=16, key=self._key, person=b"file name").hexdigest()
        return self._folder / f"{digest}.sealed"


def _as_bytes(name: tuple[str, ...]) -> bytes:
    """Return an unambiguous encoding of a name."""
    return FORMAT + json.dumps(name).encode()
