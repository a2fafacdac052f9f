"""Changed tools: what a gateway's replica learns of an upstream has the others list that upstream anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

from agent_utilities.features.fleet.news import News, Topic
from agent_utilities.state.redis_state import RedisState, StateError

if TYPE_CHECKING:
    from agent_utilities.upstream.snapshot import Snapshot
    from agent_utilities.upstream.supervision.upstreams import Upstreams

_EVERY_S = 5.0
"""Seconds between two listings of one upstream that others may cause."""
_N_DIGEST = 32


class Changes(Topic):
    """What upstreams list, by a digest of each: it says that there is something to ask for, and nothing of what.

    Whoever may write to Redis has an upstream listed a few times a minute, and no more.

    Args:
        upstreams: the gateway's.
        start: starts a task that lasts no longer than the gateway.
    """

    name = "changes"

    def __init__(
        self, state: RedisState, upstreams: Upstreams, start: Callable[[Coroutine[Any, Any, None]], object]
    ) -> None:
        super().__init__(state)
        self._upstreams, self._start = upstreams, start
        self._here: dict[str, str] | None = None
        """The digests of what upstreams listed here, as far as others need not be told; None before the first look."""
        self._told: dict[str, str] = {}
        """The last that others told."""
        self._listing: set[str] = set()

    async def renewed(self, news: News) -> None:
        """Tell others of upstreams that list something else by now."""
        snapshots = {each.config.name: each.snapshot for each in self._upstreams}
        now = {name: await _digest(snapshot) for name, snapshot in snapshots.items() if snapshot is not None}
        if self._here is None:  # of an earlier start, and maybe old
            self._here = now
        changed = {name: digest for name, digest in now.items() if self._here.get(name) != digest}
        self._here.update(changed)
        new = {name: digest for name, digest in changed.items() if self._told.get(name) != digest}
        if not new:
            return
        try:
            messages = [f"{digest}{name}".encode("utf-8", "surrogatepass") for name, digest in new.items()]
            await news.tell(self, lambda at_once: at_once.hset(self.key, mapping=cast(Any, new)), messages)
        except StateError:
            for name in new:  # told once it answers again: see `compare`
                self._here.pop(name, None)

    def heard(self, message: bytes) -> None:
        """Have an upstream listed anew of which another replica knows something else."""
        text = message.decode("utf-8", "replace")
        self._heard(text[_N_DIGEST:], text[:_N_DIGEST])

    async def compare(self, news: News) -> None:
        """Take what others told while it was not heard here, and tell them what they were not told.

        Raises:
            StateError: Redis did not answer.
        """
        if names := [each.config.name for each in self._upstreams]:
            kept = await self.ask(cast(Any, self.redis.hmget(self.key, names)))
            for name, digest in zip(names, kept, strict=True):
                if digest is not None:
                    self._heard(name, digest[:_N_DIGEST].decode("utf-8", "replace"))
        await self.renewed(news)

    def _heard(self, name: str, digest: str) -> None:
        upstream = self._upstreams.get(name)
        if upstream is not None and self._told.get(name) != digest:
            self._told[name] = digest
            if name not in self._listing:
                self._listing.add(name)
                self._start(self._list(name))

    async def _list(self, name: str) -> None:
        """Have an upstream listed until all was seen that was told of it meanwhile, now and then."""
        try:
            seen = None
            while (upstream := self._upstreams.get(name)) is not None and seen != self._told[name]:
                seen = self._told[name]
                if upstream.snapshot is None or await _digest(upstream.snapshot) != seen:
                    await upstream.renewed()
                    await asyncio.sleep(_EVERY_S)
        finally:
            self._listing.discard(name)


async def _digest(snapshot: Snapshot) -> str:
    """Return the digest of a snapshot, which takes long for a large one."""
    return await asyncio.to_thread(lambda: snapshot.digest)
