"""Sessions of the handshake era, the same on every replica: their values, and what opens them elsewhere."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from pydantic import TypeAdapter, ValidationError

from agent_utilities.features.fleet.news import begun_s_ago
from agent_utilities.mcp.sessions import Session, SessionRecord, Share
from agent_utilities.state.redis_state import RedisState, StateError

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer

logger = logging.getLogger("agent_utilities.state")

KIND = "session"
TTL_S = 24 * 3600
"""Seconds after its last change in which a session can be gone on with."""
_LOST, _LOST_S = "redis had nothing until a moment ago, and sessions are being written back", 10
"""What is told then, and for how many seconds: replicas notice within two, and write back what they hold."""
_N_TRIES, _N_OPENING = 8, 1_000
_NEVER = -math.inf
_PATIENCE = 8
"""How many times as long is waited for a writing as for a reading: the next request may come to another replica."""


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


class SharedSessions(Share):
    """Sessions whose values are loaded before a request, and swapped after it where it changed any.

    Args:
        state: where they are kept.
        host: whose features say what of a session is shared; what others keep of it stays with their process.
    """

    def __init__(self, state: RedisState, host: AgentServer) -> None:
        self._state, self._host, self._key = state, host, state.derived("sessions")
        self._known: WeakKeyDictionary[Session, tuple[dict[str, Any], int, float]] = WeakKeyDictionary()
        """What was last read or written of each: as it is kept, its version, and when that was written."""
        self._apart: WeakKeyDictionary[Session, str] = WeakKeyDictionary()
        self._unwritten: WeakSet[Session] = WeakSet()
        """Those that could not be handed on."""
        self._lost_until_s = 0.0
        self._opening: dict[str, tuple[dict[str, Any], int]] = {}
        """What those that are being opened here begin with, by name, should Redis fail at that moment."""

    def name_of(self, protocol_id: str) -> str:
        """Return the name of a session: it tells nothing of the id that its client has."""
        return blake2b(protocol_id.encode("utf-8", "replace"), key=self._key, digest_size=8).hexdigest()

    async def fetch(self, session: Session) -> None:
        """Bring in what other replicas have made of a session; what is here stays where Redis does not answer."""
        if (begins_with := self._opening.pop(session.id, None)) is not None and session not in self._known:
            self._take(session, *begins_with)
        try:
            raw, version = await self._state.load(KIND, session.id)
        except StateError as error:
            self._apart[session] = str(error)
            return
        self._apart.pop(session, None)
        known, known_version, _ = self._known.get(session, ({}, 0, 0.0))
        if version > known_version:
            self._take(session, raw, version)
        elif version < known_version:
            self._known[session] = known, known_version, _NEVER
            self._lost()

    def cause_of(self, session: Session | None) -> str:
        """Return why a session is as this process knows it; empty where it is as all replicas know it."""
        if self._state.cause or session is None:
            return self._state.cause
        return self._apart.get(session, "") or (_LOST if time.monotonic() < self._lost_until_s else "")

    def _lost(self) -> None:
        """Take note that Redis lost what it had: another replica may know more of a session than this one."""
        self._lost_until_s = time.monotonic() + _LOST_S

    def _take(self, session: Session, raw: dict[str, Any], version: int) -> None:
        self._known[session] = raw, version, time.monotonic()
        others = {name: value for name, value in session.values.items() if name not in self._kinds}
        session.renew({**others, **self._decoded(raw)})

    async def put(self, session: Session, about: SessionRecord) -> None:
        """Hand on what a request has made of a session.

        Where another replica was faster the request's steps are applied to what that made of it. Where Redis does not
        answer the steps stay, and are applied to what it has when it does.
        """
        for number in range(_N_TRIES):
            raw, version, written_s = self._known.get(session, ({}, 0, 0.0))
            steps = list(session.steps or ())
            if not steps and "record" in raw and time.monotonic() < written_s + TTL_S / 2:
                return
            record = {**raw.get("record", {}), **_record(about)}
            values = {"v": 1, **raw, **self._encoded(session.values, raw), "record": record}
            try:
                within_s = self._state.wait_s * _PATIENCE
                other = await self._state.swap(KIND, session.id, version, values, TTL_S, within_s)
            except StateError:
                self._known[session] = {**raw, "record": _record(about)}, version, _NEVER
                self._unwritten.add(session)
                return
            if other is None:
                self._known[session] = values, version + 1, time.monotonic()
                self._unwritten.discard(session)
                if session.steps is not None:
                    del session.steps[: len(steps)]
                return
            self._take(session, *other)
            await asyncio.sleep(random.uniform(0, 0.002 * 2**number))
        logger.warning("a session changes too often on other replicas; it is handed on with its next request")

    async def write_back(self, is_lost: bool) -> None:
        """Hand on what could not be: all sessions that are open here, where Redis has lost what it had.

        Raises:
            StateError: it does not answer.
        """
        if is_lost:
            self._lost()
        for session in list(self._known if is_lost else self._unwritten):
            raw, version, _ = self._known[session]
            if session.is_over or "record" not in raw:  # what a stranger wrote has none
                continue
            self._known[session] = raw, version, _NEVER
            await self.put(session, _read(raw["record"]))
            if self._state.cause:
                raise StateError(self._state.cause)

    async def record_of(self, protocol_id: str) -> SessionRecord | None:
        """Return by what a session is opened that is unknown here; None where nothing is known of it.

        Raises:
            StateError: Redis gave no answer, or may be told of it in a moment.
        """
        raw, version = await self._state.load(KIND, name := self.name_of(protocol_id))
        if await begun_s_ago(self._state) < _LOST_S:
            self._lost()
            if "record" not in raw:
                raise StateError(_LOST)
        if "record" not in raw:
            return None
        self._opening[name] = raw, version
        if len(self._opening) > _N_OPENING:  # nobody went on with the first
            self._opening.pop(next(iter(self._opening)))
        return _read(raw["record"])

    async def forget(self, protocol_id: str) -> None:
        """Forget a session that its client has ended."""
        try:
            await self._state.remove(KIND, self.name_of(protocol_id))
        except StateError:
            return  # it expires

    @property
    def _kinds(self) -> dict[str, type]:
        return {each.name: each.keeps for each in self._host.features if each.keeps is not None}

    def _encoded(self, values: Mapping[str, Any], raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return values as they are kept; fields of a newer release, which are unknown here, stay as they are."""
        return {
            name: {**raw.get(name, {}), **_adapter(kind).dump_python(values[name], mode="json")}
            for name, kind in self._kinds.items()
            if name in values
        }

    def _decoded(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return values as they are used; what another release has in another shape is as if it were not there."""
        found = {}
        for name, kind in self._kinds.items():
            if name in raw:
                try:
                    found[name] = _adapter(kind).validate_python(raw[name])
                except ValidationError:
                    logger.warning("%s of a session is of another version, and begins anew", name)
        return found


def _read(record: dict[str, Any]) -> SessionRecord:
    return SessionRecord(tuple(record["owner"]), record["version"], record["params"])


def _record(about: SessionRecord) -> dict[str, Any]:
    return {"owner": list(about.owner), "version": about.version, "params": dict(about.params)}
