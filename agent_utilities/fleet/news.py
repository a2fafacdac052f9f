"""Notify replicas of changes, at once by a message or within seconds by a version; and share what upstreams list."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, cast
from zlib import compress, decompress

from redis.asyncio.client import Pipeline

from agent_utilities.runtime.waiting import is_set
from agent_utilities.state.redis_state import RedisState, StateError

if TYPE_CHECKING:
    from agent_utilities.gateway.upstreams.config import UpstreamConfig
    from agent_utilities.gateway.upstreams.snapshot import Snapshot
    from agent_utilities.gateway.upstreams.supervision.upstreams import Upstreams

COMPARE_S = 2.0
"""Seconds between two reads of the version: they make up for a lost message within five."""
_AGAIN_S = 0.5
"""Seconds after which Redis is tried again where it did not answer."""
_KEPT_S = 30 * 24 * 3600
"""Seconds for which a topic is kept after its last change."""
_UNKNOWN = b"unknown"
_BEGUN = "begun"
"""The key of a random value that the first replica sets; a new value shows that Redis lost its data."""


class Topic:
    """A subject of changes that replicas publish; a message may come from anybody who may write to Redis."""

    name = ""

    def __init__(self, state: RedisState) -> None:
        self.redis, self.ask = state.redis, state.ask
        self.key = state.name(self.name)

    def heard(self, message: bytes) -> None:
        """Take a message; returns at once."""

    async def compare(self, news: News) -> None:
        """Take what Redis has of the topic, and write what this replica knows and Redis lacks.

        Raises:
            StateError: Redis did not answer.
        """


async def begun_s_ago(state: RedisState) -> float:
    """Return how many seconds ago replicas began to share data in this Redis, or did so anew after it was emptied.

    Raises:
        StateError: Redis did not answer.
    """
    left_ms = await state.ask(state.redis.pttl(state.name(_BEGUN)))
    return _KEPT_S - left_ms / 1000 if left_ms > 0 else 0


class News:
    """Publishes and receives changes of topics while it runs.

    Args:
        write_back: called every few seconds, with whether Redis has lost its data.
    """

    def __init__(
        self, state: RedisState, topics: Iterable[Topic], write_back: Callable[[bool], Awaitable[None]]
    ) -> None:
        self._state, self._topics, self._write_back = state, tuple(topics), write_back
        self._key = state.name("news")
        self._version: bytes | None = _UNKNOWN
        self._begun = _UNKNOWN
        self._is_due, self._has_told = asyncio.Event(), False

    def compare(self) -> None:
        """Have every topic compared with Redis now."""
        self._version = _UNKNOWN
        self._is_due.set()

    async def tell(self, topic: Topic, keep: Callable[[Pipeline], Any], messages: Iterable[bytes]) -> None:
        """Write a change of a topic to Redis, and notify all replicas.

        Raises:
            StateError: Redis did not answer.
        """
        async with self._state.redis.pipeline(transaction=False) as at_once:
            keep(at_once)
            at_once.expire(topic.key, _KEPT_S)
            at_once.set(self._key, token_bytes(8), ex=_KEPT_S)
            for message in messages:
                at_once.publish(topic.key, message)
            self._version, self._has_told = _UNKNOWN, True
            await self._state.ask(at_once.execute())

    async def run(self) -> None:
        """Listen, and compare every few seconds, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            group.create_task(self._compare())

    async def _listen(self) -> None:
        topics, task = {each.key.encode(): each for each in self._topics}, asyncio.current_task()
        assert task is not None
        while not task.cancelling():  # redis-py loses a cancellation that comes while it connects
            try:
                async with self._state.redis.pubsub() as heard:
                    await heard.subscribe(*topics)
                    self.compare()  # for messages that were missed until now
                    while not task.cancelling():
                        message = await heard.get_message(ignore_subscribe_messages=True, timeout=COMPARE_S)
                        if message is not None:
                            topics[message["channel"]].heard(message["data"])
            except Exception:  # not RedisError alone; see `RedisState.ask`
                await asyncio.sleep(_AGAIN_S)

    async def _compare(self) -> None:
        while True:
            self._is_due.clear()
            wait_s = COMPARE_S
            before, self._version, self._has_told = self._version, _UNKNOWN, False
            try:
                latest, begun = await self._state.ask(self._look())
                await self._write_back(self._begun not in (_UNKNOWN, begun))
                self._begun = begun
                if latest != before:
                    for each in self._topics:
                        await each.compare(self)
            except StateError:  # once it answers all is compared: it may have lost what it had
                wait_s = _AGAIN_S
            else:
                if not (self._is_due.is_set() or self._has_told):  # else there is another by now
                    self._version = latest
            await is_set(self._is_due, within_s=wait_s)

    async def _look(self) -> tuple[bytes | None, bytes]:
        drawn = token_bytes(8)
        async with self._state.redis.pipeline(transaction=False) as at_once:
            at_once.get(self._key)
            at_once.set(self._state.name(_BEGUN), drawn, ex=_KEPT_S, nx=True, get=True)
            version, before = await at_once.execute()
        return version, before or drawn


_LARGE_S = 5.0
"""Seconds that Redis has for a snapshot, which no request waits for."""
_SNAPSHOT_S = 30 * 24 * 3600
_EVERY_S = 1.5
"""Seconds between two listings of one upstream that others may cause."""
_N_DIGEST = 32


class Changes(Topic):
    """Changes of upstreams' lists, published as digests: they say that a list changed, and nothing of what is in it.

    Whoever may write to Redis can have an upstream listed every other second, and do no more.

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
        # Snapshots that the files have from an earlier start may be old, so their digests are not published.
        seen = {each.config.name: each.snapshot for each in upstreams}
        self._here = {name: snapshot.digest for name, snapshot in seen.items() if snapshot is not None}
        """Digests of what upstreams listed here that need not be published."""
        self._published: dict[str, str] = {}
        """The last digests that others published."""
        self._listing: set[str] = set()

    async def renewed(self, news: News) -> None:
        """Publish the digests of upstreams whose lists have changed here."""
        snapshots = {each.config.name: each.snapshot for each in self._upstreams}
        now = {name: await _digest(snapshot) for name, snapshot in snapshots.items() if snapshot is not None}
        changed = {name: digest for name, digest in now.items() if self._here.get(name) != digest}
        self._here.update(changed)
        for name in changed:
            await self._snapshots.save(snapshots[name])
        new = {name: digest for name, digest in changed.items() if self._published.get(name) != digest}
        if not new:
            return
        try:
            messages = [f"{digest}{name}".encode("utf-8", "surrogatepass") for name, digest in new.items()]
            await news.tell(self, lambda at_once: at_once.hset(self.key, mapping=cast(Any, new)), messages)
        except StateError:
            for name in new:  # published once it answers again: see `compare`
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
        if upstream is not None and self._published.get(name) != digest:
            self._published[name] = digest
            if name not in self._listing:
                self._listing.add(name)
                self._start(self._list(name))

    async def _list(self, name: str) -> None:
        """List an upstream, at intervals, until its list is as others published it last."""
        try:
            seen = None
            while (upstream := self._upstreams.get(name)) is not None and seen != self._published[name]:
                seen = self._published[name]
                if upstream.snapshot is None or await _digest(upstream.snapshot) != seen:
                    await upstream.renewed()
                    await asyncio.sleep(_EVERY_S)
        finally:
            self._listing.discard(name)


class SharedSnapshots:
    """What upstreams list, sealed in Redis: models read these texts, so a snapshot that does not open is not used."""

    def __init__(self, state: RedisState) -> None:
        self._state, self._secret = state, state.derived("names of snapshots")

    def _name(self, upstream: str, config_digest: str) -> str:
        text = f"{config_digest} {upstream}".encode("utf-8", "surrogatepass")
        return self._state.name("snapshot", blake2b(text, digest_size=16, key=self._secret).hexdigest())

    async def lacking(self, snapshots: list[Snapshot]) -> list[Snapshot]:
        """Return the snapshots that Redis lacks, as after a flush.

        Raises:
            StateError: Redis did not answer.
        """
        async with self._state.redis.pipeline(transaction=False) as at_once:
            for each in snapshots:
                at_once.exists(self._name(each.upstream, each.config_digest))
            there = await self._state.ask(at_once.execute()) if snapshots else []
        return [each for each, is_there in zip(snapshots, there, strict=True) if not is_there]

    async def save(self, snapshot: Snapshot | None) -> None:
        """Write what an upstream listed to Redis; where that does not answer, this machine alone keeps it."""
        if snapshot is not None:
            name = self._name(snapshot.upstream, snapshot.config_digest)
            write = partial(snapshot.model_dump_json, by_alias=True, exclude_unset=True)
            sealed = await asyncio.to_thread(lambda: self._state.sealed(name, compress(write().encode())))
            with suppress(StateError):
                await self._state.ask(self._state.redis.set(name, sealed, ex=_SNAPSHOT_S), within_s=_LARGE_S)

    async def load(self, config: UpstreamConfig) -> Snapshot | None:
        """Return what an upstream with the same config listed to another replica; None where Redis has nothing.

        Raises:
            StateError: Redis did not answer.
        """
        from agent_utilities.gateway.upstreams.snapshot import Snapshot

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
    """Return the digest of a snapshot, computed in a thread since a large one takes long."""
    return await asyncio.to_thread(lambda: snapshot.digest)
