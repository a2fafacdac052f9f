"""What logins gave, on disk: tokens that only the user can read, for every gateway of his."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, SupportsFloat

from agent_utilities.runtime.whole_file import write_whole


class TokenFiles:
    """Keeps values by key, each in a file of its own with mode 0600, swapped in whole.

    It is the `AsyncKeyValue` that FastMCP's OAuth keeps its tokens in. Nothing is encrypted: a key beside the files
    would keep nobody out whom the mode does not.

    Args:
        folder: where the files are; it is made where it is not there, for the user alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        """Return a value; None where there is none, its time is over, or its file is damaged."""
        return (await self.ttl(key, collection=collection))[0]

    async def ttl(self, key: str, *, collection: str | None = None) -> tuple[dict[str, Any] | None, float | None]:
        """Return a value and the seconds that it has left; None for no end."""
        return self.read(key, collection)

    def read(self, key: str, collection: str | None = None) -> tuple[dict[str, Any] | None, float | None]:
        """Return what `ttl` does, at once."""
        try:
            kept = json.loads(self._path(key, collection).read_bytes())
            value, ends_at_s = kept["value"], kept["ends_at_s"]
            left_s = None if ends_at_s is None else ends_at_s - time.time()
        except (OSError, ValueError, KeyError, TypeError):
            return None, None
        if not isinstance(value, dict) or (left_s is not None and left_s <= 0):
            return None, None
        return value, left_s

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        """Keep a value, for `ttl` seconds."""
        ends_at_s = None if ttl is None else time.time() + float(ttl)
        _write(self._path(key, collection), json.dumps({"value": dict(value), "ends_at_s": ends_at_s}))

    async def delete(self, key: str, *, collection: str | None = None) -> bool:
        """Forget a value, and return whether there was one."""
        try:
            self._path(key, collection).unlink()
        except FileNotFoundError:
            return False
        return True

    async def get_many(self, keys: Sequence[str], *, collection: str | None = None) -> list[dict[str, Any] | None]:
        """Return the values of keys, in their order."""
        return [await self.get(key, collection=collection) for key in keys]

    async def ttl_many(
        self, keys: Sequence[str], *, collection: str | None = None
    ) -> list[tuple[dict[str, Any] | None, float | None]]:
        """Return the values of keys, and the seconds that each has left."""
        return [await self.ttl(key, collection=collection) for key in keys]

    async def put_many(
        self,
        keys: Sequence[str],
        values: Sequence[Mapping[str, Any]],
        *,
        collection: str | None = None,
        ttl: SupportsFloat | None = None,
    ) -> None:
        """Keep values, each under its key."""
        for key, value in zip(keys, values, strict=True):
            await self.put(key, value, collection=collection, ttl=ttl)

    async def delete_many(self, keys: Sequence[str], *, collection: str | None = None) -> int:
        """Forget values, and return how many there were."""
        return sum([await self.delete(key, collection=collection) for key in keys])

    def clear(self) -> None:
        """Forget everything."""
        for path in self._folder.glob("*.json"):
            path.unlink(missing_ok=True)

    def _path(self, key: str, collection: str | None) -> Path:
        return self._folder / f"{blake2b(json.dumps([collection, key]).encode(), digest_size=16).hexdigest()}.json"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, text.encode())
