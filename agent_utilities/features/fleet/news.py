"""What replicas tell one another: heard at once where the message comes, else within seconds by a version."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from secrets import token_bytes
from typing import Any

from redis.asyncio.client import Pipeline

from agent_utilities.runtime.waiting import is_set
from agent_utilities.state.redis_state import RedisState, StateError

COMPARE_S = 2.0
"""Seconds after which the version is looked at again: a message that was lost is made up for within five."""
_AGAIN_S = 0.5
"""Seconds after which Redis is asked again that did not answer."""
_KEPT_S = 30 * 24 * 3600
"""Seconds for which what was told is kept after the last of it."""
_UNKNOWN = b"unknown"
_BEGUN = "begun"
"""Names a value that the first replica draws which finds none; there is another where Redis has lost what it had."""


class Topic:
    """Something that replicas tell one another of; anybody may have written what they hear."""

    name = ""

    def __init__(self, state: RedisState) -> None:
        self.redis, self.ask = state.redis, state.ask
        self.key = state.name(self.name)

    def heard(self, message: bytes) -> None:
        """Take what was told; returns at once."""

    async def compare(self, news: News) -> None:
        """Take what is kept, and keep what is known here and is not there.

        Raises:
            StateError: Redis did not answer.
        """


async def begun_s_ago(state: RedisState) -> float:
    """Return for how many seconds Redis has had what replicas share: no longer than since it was emptied.

    Raises:
        StateError: Redis did not answer.
    """
    left_ms = await state.ask(state.redis.pttl(state.name(_BEGUN)))
    return _KEPT_S - left_ms / 1000 if left_ms > 0 else 0


class News:
    """Tells and hears topics, while it runs.

    Args:
        write_back: called with whether Redis has lost what it had, every few seconds.
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
        """Have what is kept compared with what is known here, now."""
        self._version = _UNKNOWN
        self._is_due.set()

    async def tell(self, topic: Topic, keep: Callable[[Pipeline], Any], messages: Iterable[bytes]) -> None:
        """Keep something for a topic, and tell all replicas that are there.

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
                    self.compare()  # with what was told while nobody listened here
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
