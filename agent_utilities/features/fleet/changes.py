"""Changed tools: what a gateway's replica learns of an upstream has the others list that upstream anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast
from zlib import compress, decompress

from agent_utilities.features.fleet.news import News, Topic
from agent_utilities.state.redis_state import RedisState, StateError

if TYPE_CHECKING:
    from agent_utilities.upstream.config import UpstreamConfig
    from agent_utilities.upstream.snapshot import Snapshot
    from agent_utilities.upstream.supervision.upstreams import Upstreams

_LARGE_S = 5.0
"""Seconds that Redis has for a snapshot, which no request waits for."""
_SNAPSHOT_S = 30 * 24 * 3600
_EVERY_S = 1.5
"""Seconds between two listings of one upstream that others may cause."""
_N_DIGEST = 32


class Changes(Topic):
    """What upstreams list, by a digest of each: it says that there is something to ask for, and nothing of what.

    Whoever may write to Redis has an upstream listed every other second, and no more.

    Args:
        upstreams: the gateway's.
        start: starts a task that lasts no longer than the gateway.
    """

    name = "changes"

    def __init__(
        self, state: RedisState, upstreams: Upstreams, start: Callable[[Coroutine[Any, Any, None]], object]
    ) -> None:
        super().__init__(state)
        self._upstreams, self._start, self._snapshots = upstreams, start, SharedSnapshots(state)
        # What an earlier start saw, and its files keep with their digests, may be old: nobody is told of it.
        seen = {each.config.name: each.snapshot for each in upstreams}
        self._here = {name: snapshot.digest for name, snapshot in seen.items() if snapshot is not None}
        """The digests of what upstreams listed here, as far as others need not be told."""
        self._told: dict[str, str] = {}
        """The last that others told."""
        self._listing: set[str] = set()

    async def renewed(self, news: News) -> None:
        """Tell others of upstreams that list something else by now."""
        snapshots = {each.config.name: each.snapshot for each in self._upstreams}
        now = {name: await _digest(snapshot) for name, snapshot in snapshots.items() if snapshot is not None}
        changed = {name: digest for name, digest in now.items() if self._here.get(name) != digest}
        self._here.update(changed)
        for name in changed:
            await self._snapshots.save(snapshots[name])
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
        text = message.decode("utf-8", "replace")
        self._heard(text[_N_DIGEST:], text[:_N_DIGEST])

    async def compare(self, news: News) -> None:
        if names := [each.config.name for each in self._upstreams]:
            kept = await self.ask(cast(Any, self.redis.hmget(self.key, names)))
            for name, digest in zip(names, kept, strict=True):
                if digest is not None:
                    self._heard(name, digest[:_N_DIGEST].decode("utf-8", "replace"))
        for upstream in self._upstreams:
            if upstream.snapshot is None and (seen := await self._snapshots.load(upstream.config)) is not None:
                upstream.learn(seen)
        for snapshot in await self._snapshots.lacking([each.snapshot for each in self._upstreams if each.snapshot]):
            await self._snapshots.save(snapshot)
            await news.tell(self, lambda at_once: at_once.ping(), ())  # so that a flush is noticed
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


class SharedSnapshots:
    """What upstreams list, sealed: models read these texts, so that one which does not open is not used."""

    def __init__(self, state: RedisState) -> None:
        self._state, self._secret = state, state.derived("names of snapshots")

    def _name(self, upstream: str, config_digest: str) -> str:
        text = f"{config_digest} {upstream}".encode("utf-8", "surrogatepass")
        return self._state.name("snapshot", blake2b(text, digest_size=16, key=self._secret).hexdigest())

    async def lacking(self, snapshots: list[Snapshot]) -> list[Snapshot]:
        """Return those of which Redis has none, as after a flush.

        Raises:
            StateError: Redis did not answer.
        """
        async with self._state.redis.pipeline(transaction=False) as at_once:
            for each in snapshots:
                at_once.exists(self._name(each.upstream, each.config_digest))
            there = await self._state.ask(at_once.execute()) if snapshots else []
        return [each for each, is_there in zip(snapshots, there, strict=True) if not is_there]

    async def save(self, snapshot: Snapshot | None) -> None:
        """Keep what an upstream listed; where Redis does not answer it is kept by this machine alone."""
        if snapshot is not None:
            name = self._name(snapshot.upstream, snapshot.config_digest)
            write = partial(snapshot.model_dump_json, by_alias=True, exclude_unset=True)
            sealed = await asyncio.to_thread(lambda: self._state.sealed(name, compress(write().encode())))
            with suppress(StateError):
                await self._state.ask(self._state.redis.set(name, sealed, ex=_SNAPSHOT_S), within_s=_LARGE_S)

    async def load(self, config: UpstreamConfig) -> Snapshot | None:
        """Return what another replica saw of an upstream with the same config; None where none did.

        Raises:
            StateError: Redis did not answer.
        """
        from agent_utilities.upstream.snapshot import Snapshot

        name = self._name(config.name, config.digest)
        sealed = await self._state.ask(self._state.redis.get(name), within_s=_LARGE_S)

        def opened() -> Snapshot | None:
            content = self._state.opened(name, sealed)
            try:
                return Snapshot.model_validate_json(decompress(content)) if content is not None else None
            except ValueError:  # of another version
                return None

        return await asyncio.to_thread(opened)


async def _digest(snapshot: Snapshot) -> str:
    """Return the digest of a snapshot, which takes long for a large one."""
    return await asyncio.to_thread(lambda: snapshot.digest)
