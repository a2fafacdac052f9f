"""A cache of vectors on disk, by the hash of their texts; without it answers take longer, and are the same."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from agent_utilities.query.ranking.arrays import NDArray, np

R = TypeVar("R")
logger = logging.getLogger(__name__)

_CHECKSUM_BYTES = 8
_TIMEOUT_S = 2
_TABLE = "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"


class VectorStore:
    """A file of vectors, shared by processes and threads.

    Each vector has a checksum; a damaged one counts as absent. A file that is no database is replaced. After an I/O
    error the store is not used any more, which is logged once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cause = ""

    def get(self, model: str, role: str, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Return the stored vectors, by text."""

        def read(connection: sqlite3.Connection) -> dict[str, NDArray[np.float32]]:
            vectors = {}
            for text in texts:
                key = (_key(model, role, text),)
                blob = next(connection.execute("SELECT vector FROM vectors WHERE key = ?", key), (None,))[0]
                content = blob[_CHECKSUM_BYTES:] if isinstance(blob, bytes) else b""
                if content and _checked(content) == blob:
                    vectors[text] = np.frombuffer(content, dtype="<f4")
            return vectors

        return self._run(read) or {}

    def put(self, model: str, role: str, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Store vectors, by text."""
        rows = [(_key(model, role, text), _checked(each.astype("<f4").tobytes())) for text, each in vectors.items()]
        self._run(lambda connection: connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows))

    def _run(self, action: Callable[[sqlite3.Connection], R]) -> R | None:
        """Run an action on the file; None where the file can't be used."""
        if self.cause:
            return None
        try:
            try:
                return self._run_once(action)
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError as error:
                logger.warning("the store of vectors is damaged and made anew: %s (%s)", error, self.path)
                self.path.unlink(missing_ok=True)
                return self._run_once(action)
        except (sqlite3.Error, OSError) as error:
            self.cause = f"vectors are not kept: {error}"
            logger.warning("%s (%s)", self.cause, self.path)
            return None

    def _run_once(self, action: Callable[[sqlite3.Connection], R]) -> R:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=_TIMEOUT_S)) as connection, connection:
            connection.execute(_TABLE)
            return action(connection)


def _key(model: str, role: str, text: str) -> bytes:
    return blake2b(f"{model}\0{role}\0{text}".encode("utf-8", "surrogatepass"), digest_size=20).digest()


def _checked(content: bytes) -> bytes:
    """Prefix a vector's bytes with their checksum."""
    return blake2b(content, digest_size=_CHECKSUM_BYTES).digest() + content
