"""Usage of all replicas in each one's log, so that every replica learns from all, and any tells of all."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, cast

from agent_utilities.features.usage.feature import Usage
from agent_utilities.runtime.process_io import read_whole, write_whole
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.state.redis_state import RedisState, StateError
from agent_utilities.usage.model import Call, Event, Listed, Search
from agent_utilities.usage.redaction import without_secrets

logger = logging.getLogger("agent_utilities.state")

_EVERY_S = 0.5
"""Seconds in which events wait to be sent together, and between two looks at what others sent."""
_MOST_WAITING = 2_000
_MOST_ENTRIES = 20_000
"""Of the stream, each of as many events as came together: the oldest go first."""
_MOST_READ = 100
_KINDS: dict[str, type[Call | Search | Listed]] = {kind.__name__: kind for kind in (Call, Search, Listed)}


class SharedUsage:
    """Sends what is logged here, and logs here what others send, each once; a new replica begins with what there is.

    Args:
        state: where the stream is.
        usage: logs it.
    """

    def __init__(self, state: RedisState, usage: Usage) -> None:
        self._state, self._usage, self._key = state, usage, state.name("usage")
        self._waiting: deque[Event] = deque(maxlen=_MOST_WAITING)
        self._own = token_hex(8)
        usage.on_event = self._waiting.append

    async def run(self) -> None:
        """Send and read until cancelled; while Redis does not answer, what is logged here waits, up to a bound."""
        place = self._usage.path.with_name(f"{self._usage.path.name}.shared")
        last = await in_daemon_thread(partial(_read, place))
        while True:
            with suppress(StateError):
                await self._send()
                last = await self._take(last, place)
            await asyncio.sleep(_EVERY_S)

    async def _send(self) -> None:
        if not self._waiting:
            return
        events = list(self._waiting)
        content = await in_daemon_thread(partial(_written, events))
        fields = {"by": self._own, "events": self._state.sealed(self._key, content)}
        sending = self._state.redis.xadd(self._key, cast(Any, fields), maxlen=_MOST_ENTRIES, approximate=True)
        await self._state.ask(sending)
        for _ in events:  # what came meanwhile waits on
            self._waiting.popleft()

    async def _take(self, last: str, place: Path) -> str:
        """Log what others sent after an entry of the stream; return the last one, which is remembered."""
        log = self._usage.log
        if log is None:
            return last
        # Where nothing is asked redis-py's own `xread` leaves a coroutine behind that nobody awaits.
        reading = cast(Any, self._state.redis).execute_command("XREAD", "COUNT", _MOST_READ, "STREAMS", self._key, last)
        found = await self._state.ask(reading)
        entries = found[0][1] if found else []
        for _, fields in entries:
            if fields.get(b"by") != self._own.encode():
                opened = self._state.opened(self._key, fields.get(b"events"))
                for event in _events(opened or b"[]"):
                    log.record(event)
        if entries:
            last = entries[-1][0].decode()
            with suppress(OSError):
                await in_daemon_thread(partial(write_whole, place, last.encode()))
        return last


def _written(events: list[Event]) -> bytes:
    """Return events as they are sent: without what looks like a secret, as the log has them."""
    told = []
    for event in events:
        if not isinstance(event, Listed) and event.request:
            event = replace(event, request=without_secrets(event.request))
        told.append({"kind": type(event).__name__, **asdict(event)})
    return json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")


def _events(content: bytes) -> list[Event]:
    """Return events as they were sent; those of a kind or with fields that are not known here are left out."""
    events: list[Event] = []
    for told in json.loads(content):
        with suppress(KeyError, TypeError):
            events.append(_KINDS[told.pop("kind")](**told))
    return events


def _read(place: Path) -> str:
    try:
        text = read_whole(place, 100).decode("ascii").strip()
    except (OSError, ValueError):
        return "0"
    return text if text.replace("-", "").isdigit() else "0"
