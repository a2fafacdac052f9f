"""Values that FastMCP and authors keep, where all replicas find them: sealed, each under its own name."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING

from key_value.aio.errors import DeserializationError
from key_value.aio.stores.memory import MemoryStore

from agent_utilities.state.redis_state import RedisState, StateError

if TYPE_CHECKING:
    from key_value.aio._utils.managed_entry import ManagedEntry

_N_HERE = 10_000
"""The most of a collection that are kept in this process too."""


class SharedValues(MemoryStore):
    """A key-value store in Redis, and in this process for while Redis does not answer.

    What was sealed under another name, or by nobody who has the operator's key, counts as none. Names are hashed: ids
    of sessions and of tokens are in them. It is no `RedisStore`, which takes a client of text alone, and seals nothing.

    Args:
        kind: what they are.
    """

    def __init__(self, state: RedisState, kind: str) -> None:
        super().__init__(max_entries_per_collection=_N_HERE)
        self._state, self._kind, self._secret = state, kind, state.derived(f"names of {kind}")

    def _name(self, collection: str, key: str) -> str:
        text = json.dumps([collection, key]).encode()
        return self._state.name(self._kind, blake2b(text, digest_size=16, key=self._secret).hexdigest())

    async def _get_managed_entry(self, *, key: str, collection: str) -> ManagedEntry | None:
        name = self._name(collection, key)
        try:
            content = self._state.opened(name, await self._state.ask(self._state.redis.get(name)))
        except StateError:
            return await super()._get_managed_entry(key=key, collection=collection)
        try:
            return self._serialization_adapter.load_json(json_str=content.decode()) if content is not None else None
        except DeserializationError:  # of another version
            return None

    async def _put_managed_entry(self, *, key: str, collection: str, managed_entry: ManagedEntry) -> None:
        await super()._put_managed_entry(key=key, collection=collection, managed_entry=managed_entry)
        name = self._name(collection, key)
        text = self._serialization_adapter.dump_json(entry=managed_entry, key=key, collection=collection)
        ttl_s = max(1, int(managed_entry.ttl)) if managed_entry.ttl is not None else None
        try:
            await self._state.ask(self._state.redis.set(name, self._state.sealed(name, text.encode()), ex=ttl_s))
        except StateError:  # it is kept here
            return

    async def _delete_managed_entry(self, *, key: str, collection: str) -> bool:
        was_here = await super()._delete_managed_entry(key=key, collection=collection)
        try:
            return bool(await self._state.ask(self._state.redis.delete(self._name(collection, key)))) or was_here
        except StateError:
            return was_here
