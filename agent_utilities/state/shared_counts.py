"""Counts in windows of time that all replicas of a server add to."""

from __future__ import annotations

from collections.abc import Awaitable
from hashlib import blake2b
from typing import Any

from limits.aio.storage import MemoryStorage, RedisStorage

from agent_utilities.state.redis_state import RedisState, StateError


def counting(state: RedisState) -> RedisStorage:
    """Return what counts in the Redis that replicas share, on its connections."""
    pool: dict[str, Any] = {"connection_pool": state.redis.connection_pool}
    return RedisStorage("async+redis://", implementation="redispy", key_prefix=state.name("counts"), **pool)


class SharedCounts:
    """Counts for one: this process's own, and those of all replicas, of which the larger holds.

    So whoever may write to Redis lets nobody have more than where each replica counts by itself, and the same holds
    while Redis does not answer, and after it was flushed. No name is in a key: their hashes take the operator's key.
    """

    def __init__(self, state: RedisState, shared: RedisStorage, name: str) -> None:
        self._state, self._shared, self._own = state, shared, MemoryStorage()
        text = name.encode("utf-8", "surrogatepass")
        self._name = blake2b(text, digest_size=16, key=state.derived("counts")).hexdigest()

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Add to a count, which ends so many seconds after it began, and return it."""
        own = await self._own.incr(key, expiry, amount)
        return int(max(own, await self._asked(self._shared.incr(f"{self._name}:{key}", expiry, amount))))

    async def get(self, key: str) -> int:
        """Return a count."""
        return int(max(await self._own.get(key), await self._asked(self._shared.get(f"{self._name}:{key}"))))

    async def get_expiry(self, key: str) -> float:
        """Return when the larger count ends, in seconds since 1970."""
        own = await self._own.get(key), await self._own.get_expiry(key)
        shared = f"{self._name}:{key}"
        return max(
            own, (await self._asked(self._shared.get(shared)), await self._asked(self._shared.get_expiry(shared)))
        )[1]

    async def _asked(self, question: Awaitable[float]) -> float:
        try:
            return await self._state.ask(question)
        except StateError:
            return 0
