"""Values that FastMCP and authors keep, where all replicas find them: sealed, each under its own name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, SupportsFloat

from key_value.aio.stores.memory import MemoryStore

from agent_utilities.state.redis_state import RedisState, StateError

_N_HERE = 10_000
"""The most of a collection that are kept in this process too."""


class SharedValues(MemoryStore):
    """A key-value store in Redis, and in this process for while Redis does not answer.

    What was sealed under another name, or by nobody who has the operator's key, counts as none. Names are hashed: ids
    of sessions and of tokens are in them. It is no `RedisStore`, which takes a client of text alone, and seals nothing.
    Only what FastMCP asks of a store is of all replicas: to get, put and delete one value.
    """

    def __init__(self, state: RedisState, kind: str) -> None:
        super().__init__(max_entries_per_collection=_N_HERE)
        self._state, self._kind, self._secret = state, kind, state.derived(f"names of {kind}")

    def _name(self, collection: str | None, key: str) -> str:
        text = json.dumps([collection, key]).encode()
        return self._state.name(self._kind, blake2b(text, digest_size=16, key=self._secret).hexdigest())

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        """Return a value, or None."""
        name = self._name(collection, key)
        try:
            content = self._state.opened(name, await self._state.ask(self._state.redis.get(name)))
        except StateError:
            kept: dict[str, Any] | None = await super().get(key, collection=collection)
            return kept
        try:
            value = json.loads(content)["value"] if content is not None else None
        except (ValueError, LookupError, TypeError):  # of another version
            return None
        return value if isinstance(value, dict) else None

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        """Keep a value, for some seconds where it is said; while Redis does not answer it is kept here."""
        await super().put(key, value, collection=collection, ttl=ttl)
        name, content = self._name(collection, key), json.dumps({"value": dict(value)}).encode()
        expiry_s = max(1, int(float(ttl))) if ttl is not None else None
        try:
            await self._state.ask(self._state.redis.set(name, self._state.sealed(name, content), ex=expiry_s))
        except StateError:
            return

    async def delete(self, key: str, *, collection: str | None = None) -> bool:
        """Remove a value; return whether there was one."""
        was_here: bool = await super().delete(key, collection=collection)
        try:
            return bool(await self._state.ask(self._state.redis.delete(self._name(collection, key)))) or was_here
        except StateError:
            return was_here
