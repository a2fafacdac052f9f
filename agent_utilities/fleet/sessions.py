"""Share sessions of the handshake era between replicas: their values, and the record that opens them elsewhere."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from hashlib import blake2b
from typing import Any
from weakref import WeakKeyDictionary

from cachetools import TTLCache
from pydantic import TypeAdapter, ValidationError

from agent_utilities.fleet.news import begun_s_ago
from agent_utilities.seam.session import ENDED, Session, SessionRecord, Share
from agent_utilities.state.redis_state import RedisState, StateError

logger = logging.getLogger("agent_utilities.state")

KIND = "session"
TTL_S = 24 * 3600
"""Seconds after its last change for which a session can be continued."""
_ENDED_S, _LAST = 600, 10**12
"""Seconds for which an ended session's entry is kept, and its version, which exceeds that of any change."""
_MOST_ENDED, _MOST_LOOKED = 10_000, 1_000
"""How many ended sessions a replica remembers, should Redis lose them; how many are looked up together."""
_LOOK_S = 5.0
"""Seconds that Redis has for such a lookup, which no request waits for."""
_LOST, _LOST_S = "redis had nothing until a moment ago, and sessions are being written back", 10
"""The cause that is reported then, for so many seconds: replicas notice within two, and write their sessions back."""
_N_TRIES, _N_OPENING = 8, 1_000
_NEVER = -math.inf
_PATIENCE = 8
"""How much longer a write may take than a read: the next request may come to another replica."""


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


class SharedSessions(Share):
    """Sessions whose values are loaded before a request, and swapped after it where it changed any.

    Args:
        state: the Redis that keeps them.
    """

    def __init__(self, state: RedisState) -> None:
        self._state, self._key = state, state.derived("sessions")
        self._ended: TTLCache[str, bool] = TTLCache(_MOST_ENDED, _ENDED_S)
        """Sessions that clients ended here, and whether Redis has that."""
        self._to_look: list[str] = []
        """Open sessions that are still to be looked up in this turn, as they may have ended elsewhere."""
        self._known: WeakKeyDictionary[Session, tuple[dict[str, Any], int, float]] = WeakKeyDictionary()
        """The entry of each session as last read or written, its version, and when that was written."""
        self._apart: WeakKeyDictionary[Session, str] = WeakKeyDictionary()
        self._lost_until_s = 0.0
        self._loaded: dict[str, tuple[dict[str, Any], int]] = {}
        """Entries that were loaded for requests about to begin, by the session's name."""

    def name_of(self, protocol_id: str) -> str:
        return blake2b(protocol_id.encode("utf-8", "replace"), key=self._key, digest_size=8).hexdigest()

    async def fetch(self, session: Session) -> None:
        known, known_version, _ = self._known.get(session, ({}, 0, 0.0))
        raw, version = self._loaded.pop(session.id, ({}, -1))
        try:
            if version < known_version:
                raw, version = await self._state.load(KIND, session.id)
        except StateError as error:
            self._apart[session] = str(error)
            return
        self._apart.pop(session, None)
        if version > known_version:
            self._take(session, raw, version)
        elif version < known_version:
            self._known[session] = known, known_version, _NEVER
            self._lost()

    def cause_of(self, session: Session | None) -> str:
        """Return why this process's copy of a session may be stale; empty where it is the shared one."""
        if self._state.cause or session is None:
            return self._state.cause
        return self._apart.get(session, "") or (_LOST if time.monotonic() < self._lost_until_s else "")

    def _lost(self) -> None:
        """Note that Redis lost its data: another replica may have a newer copy of a session."""
        self._lost_until_s = time.monotonic() + _LOST_S

    def _take(self, session: Session, raw: dict[str, Any], version: int) -> None:
        if "ended" in raw:
            return
        self._known[session] = raw, version, time.monotonic()
        others = {name: value for name, value in session.values.items() if name not in self.kinds}
        session.renew({**others, **self._decoded(raw)})

    async def put(self, session: Session, about: SessionRecord) -> None:
        """Write a session's changes to Redis.

        Where another replica wrote first, the request's steps are applied to its result. Where Redis does not answer,
        the steps are kept, and applied to what it has once it does.
        """
        for number in range(_N_TRIES):
            raw, version, written_s = self._known.get(session, ({}, 0, 0.0))
            steps = list(session.steps or ())
            if not steps and "record" in raw and time.monotonic() < written_s + TTL_S / 2:
                return
            record = {**raw.get("record", {}), **asdict(about)}
            values = {"v": 1, **raw, **self._encoded(session.values, raw), "record": record}
            try:
                within_s = self._state.wait_s * _PATIENCE
                other = await self._state.swap(KIND, session.id, version, values, TTL_S, within_s)
            except StateError:
                self._known[session] = {**raw, "record": asdict(about)}, version, _NEVER
                return
            if other is None:
                self._known[session] = values, version + 1, time.monotonic()
                if session.steps is not None:
                    del session.steps[: len(steps)]
                return
            if "ended" in other[0]:
                return
            self._take(session, *other)
            await asyncio.sleep(random.uniform(0, 0.002 * 2**number))
        logger.warning("a session changes too often on other replicas; it is handed on with its next request")

    async def write_back(self, is_lost: bool) -> None:
        """Write sessions that could not be written; where Redis has lost its data, all that are open here.

        Raises:
            StateError: it does not answer.
        """
        if is_lost:
            self._lost()
        for protocol_id in [each for each, is_kept in self._ended.items() if is_lost or not is_kept]:
            await self._tell_ended(protocol_id)
        for session in list(self._known):
            raw, version, written_s = self._known[session]
            # An entry that a stranger wrote has no record.
            if session.is_over or "record" not in raw or not (is_lost or written_s == _NEVER):
                continue
            self._known[session] = raw, version, _NEVER
            await self.put(session, _read(raw["record"]))
            if self._state.cause:
                raise StateError(self._state.cause)
        if is_lost:  # others may take as long as this one did
            self._lost()
        await self._end_those_over()

    async def record_of(self, protocol_id: str, *, is_known: bool) -> SessionRecord | None:
        self._loaded.pop(name := self.name_of(protocol_id), None)
        try:
            raw, version = await self._state.load(KIND, name)
        except StateError:
            if is_known:
                return None
            raise
        if "ended" in raw:
            return ENDED
        if not is_known and await begun_s_ago(self._state) < _LOST_S:
            self._lost()
        if "record" in raw:
            self._loaded[name] = raw, version
        elif not is_known and time.monotonic() < self._lost_until_s:  # who has it may still be writing back
            raise StateError(_LOST)
        if len(self._loaded) > _N_OPENING:  # nobody went on with the first
            self._loaded.pop(next(iter(self._loaded)))
        return None if is_known or "record" not in raw else _read(raw["record"])

    async def forget(self, protocol_id: str) -> None:
        self._ended[protocol_id] = False
        with suppress(StateError):  # else it is written once Redis answers
            await self._tell_ended(protocol_id)

    async def _tell_ended(self, protocol_id: str) -> None:
        await self._state.swap(KIND, self.name_of(protocol_id), _LAST, {"ended": True}, _ENDED_S)
        self._ended[protocol_id] = True

    async def _end_those_over(self) -> None:
        """End sessions that ended elsewhere, whose streams here would go on; thousands are looked up in turns."""
        turn = self._to_look or list(self.here)
        some, self._to_look = turn[:_MOST_LOOKED], turn[_MOST_LOOKED:]
        async with self._state.redis.pipeline(transaction=False) as at_once:
            for each in some:
                at_once.hget(self._state.name(KIND, self.name_of(each)), "version")
            versions = await self._state.ask(at_once.execute(), within_s=_LOOK_S) if some else []
        for each in [each for each, version in zip(some, versions, strict=True) if version == b"%d" % (_LAST + 1)]:
            if await self.record_of(each, is_known=True) is ENDED and each in self.here:
                await self.here[each].terminate()

    def _encoded(self, values: Mapping[str, Any], raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return values as Redis keeps them; a newer release's fields, which are unknown here, stay as they are."""
        return {
            name: {**raw.get(name, {}), **_adapter(kind).dump_python(values[name], mode="json")}
            for name, kind in self.kinds.items()
            if name in values
        }

    def _decoded(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return values from an entry, without those that another release wrote in another shape."""
        values = {}
        for name, kind in self.kinds.items():
            if name in raw:
                try:
                    values[name] = _adapter(kind).validate_python(raw[name])
                except ValidationError:
                    logger.warning("%s of a session is of another version, and begins anew", name)
        return values


def _read(record: dict[str, Any]) -> SessionRecord:
    return SessionRecord(tuple(record["owner"]), record["version"], record["params"])
