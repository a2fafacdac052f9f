"""Rate-limit counters that all replicas of a server share."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping
from hashlib import blake2b
from typing import cast

from agent_utilities.state.counts import Counts, Wanted
from agent_utilities.state.redis_state import RedisState, StateError

_TAKE = """
local window_ms, counts, is_full = tonumber(ARGV[1]), {}, false
for i, key in ipairs(KEYS) do
  local own, own_left_ms, limit = tonumber(ARGV[4 * i - 1]), tonumber(ARGV[4 * i]), tonumber(ARGV[4 * i + 1])
  local text, left_ms = redis.pcall('GET', key), redis.call('PTTL', key)
  local is_count = type(text) == 'string' and #text <= 15 and string.match(text, '^%d+$')
    and left_ms > 0 and left_ms <= window_ms
  local n = is_count and tonumber(text) or 0
  if not is_count then left_ms = own_left_ms > 0 and own_left_ms or window_ms end
  counts[i] = {math.max(n, own), left_ms, text and not is_count and 1 or 0}
  is_full = is_full or limit and counts[i][1] >= limit
end
for i, key in ipairs(KEYS) do
  local n = tonumber(ARGV[4 * i - 2])
  if n > 0 and not is_full then
    counts[i][1] = counts[i][1] + n
    redis.call('SET', key, string.format('%.0f', counts[i][1]), 'PX', counts[i][2])
  end
end
return {is_full and 1 or 0, counts}
"""
"""Counts all, or nothing where any is full. Arguments for each key: the amount, this process's own count and the
milliseconds left of it, and the limit. A value that is no expiring count counts as 0, and is reported as strange.
"""


class SharedCounts(Counts):
    """Counters whose value is the larger of this process's own and all replicas'.

    So who may write to Redis, or flush it, gains no more than where each replica counts by itself; the same holds while
    Redis does not answer. Keys have names as hashes, keyed by the operator's key.
    """

    def __init__(self, state: RedisState, window_s: int, most: int) -> None:
        super().__init__(window_s, most)
        self._state, self._secret = state, state.derived("counts")
        self._take = state.redis.register_script(_TAKE)

    async def take(self, wanted: Collection[Wanted]) -> Mapping[Wanted, float]:
        """Count all at every replica, or nothing where any is full; see `Counts.take`."""
        if full := self.full(wanted):
            return full
        keys = [self._key(one) for one in wanted]
        arguments: list[int | str] = [1000 * self.window_s]
        for one in wanted:
            own, left_s = self._count(one)
            arguments += [one.n, own, int(1000 * left_s), "" if one.limit is None else one.limit]
        try:
            taking = cast(Awaitable[tuple[int, list[tuple[int, int, int]]]], self._take(keys, arguments))
            is_full, counts = await self._state.ask(taking)
        except StateError:
            return await super().take(wanted)
        full = {}
        for one, key, (n, left_ms, is_strange) in zip(wanted, keys, counts, strict=True):
            own, own_left_s = self._count(one)
            self._keep(one, max(n, own), left_s := max(left_ms / 1000, own_left_s))
            if is_strange:
                self._state.distrust(key)
            if is_full and one.limit is not None and n >= one.limit:
                full[one] = left_s
        return full

    def _key(self, one: Wanted) -> str:
        name = blake2b(one.of.encode("utf-8", "surrogatepass"), digest_size=16, key=self._secret).hexdigest()
        return f"{self._state.name('counts', 'all')}:{name}:{one.what}"  # one tag, since one script counts them all
