"""Questions, answers and tickets: in this process, or sealed in the Redis that replicas share.

Every change is one comparison and swap of a version, so of two answers one holds, and a yes is used once.
"""

from __future__ import annotations

import json
import time
from base64 import b32encode
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from agent_utilities.state.redis_state import RedisState

YES_S = 600
"""Seconds that a yes, or a question in a `requestState`, holds."""
WAIT_S = 3_600
"""Seconds that a question waits on the page."""
QUIET_S = 60
"""Seconds after a no in which the same is not asked again."""
N_WAITING, N_OF_CALLER = 1_000, 20
"""The most questions that wait on the page, of all callers and of each; then the oldest is given up."""
_N_HERE = 20_000
_KEY_BYTES, _NONCE_BYTES = 15, 5
_KEY_LETTERS = _KEY_BYTES * 8 // 5

Answer = Literal["waiting", "yes", "no", "given up", "used"]
Kind = Literal["ask", "go"]
"""What a ticket is for: the answer to a question, or the next round of a call that was agreed to."""


@dataclass(frozen=True, slots=True)
class Question:
    """One call that waits for somebody's yes, as it is shown and kept.

    Args:
        key: what the yes is for: caller, tool, arguments, definition and rule, hashed.
        owner: the caller, hashed.
        person: issuer and subject of the caller; empty texts for nobody in particular.
        tool, server: as its caller knows them.
        shown: its arguments, bounded and without secrets.
        digest: of all its arguments.
        by_other: whether somebody else than the caller is to answer.
        asks_client: whether the caller's own client may be asked.
        at: when it was first asked, in seconds since 1970.
        id: empty until it is kept.
        answer: what became of it.
        is_told: whether its caller was told so.
    """

    key: str
    owner: str
    person: tuple[str, str]
    tool: str
    server: str
    shown: str
    digest: str
    by_other: bool
    asks_client: bool
    at: float
    id: str = ""
    answer: Answer = "waiting"
    is_told: bool = False

    @property
    def who(self) -> str:
        """The caller, for people."""
        return f"{self.person[1]} ({self.person[0]})" if self.person[1] else "nobody in particular"


class _Here:
    """Versioned values in this process: as `RedisState` has them, and gone with it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._kept, self._index = clock, OrderedDict[str, tuple[int, bytes, float]](), dict[str, float]()
        self.secret = token_bytes(32)

    async def load(self, kind: str, one: str) -> tuple[dict[str, Any], int]:
        version, content, until = self._kept.get(f"{kind} {one}", (0, b"{}", 0.0))
        return (json.loads(content), version) if until > self._clock() else ({}, version)

    async def swap(self, kind: str, one: str, version: int, values: Mapping[str, Any], ttl_s: int) -> object:
        name = f"{kind} {one}"
        if (kept := self._kept.pop(name, None)) is not None and kept[0] > version:
            self._kept[name] = kept
            return kept
        self._kept[name] = version + 1, json.dumps(values, ensure_ascii=False).encode(), self._clock() + ttl_s
        while len(self._kept) > _N_HERE or self._kept[next(iter(self._kept))][2] <= self._clock():
            self._kept.popitem(last=False)
        return None

    async def add(self, member: str, at: float) -> None:
        self._index[member] = at

    async def members(self, since: float) -> list[str]:
        self._index = {member: at for member, at in self._index.items() if at > since}
        return list(self._index)

    async def remove(self, members: Sequence[str]) -> None:
        for member in members:
            self._index.pop(member, None)


class _Shared:
    """The same in Redis. The index holds names alone: what it leads to is sealed."""

    def __init__(self, state: RedisState) -> None:
        self._state, self.secret, self._index = state, state.derived("approvals"), state.name("approvals", "all")
        self.load, self.swap = state.load, state.swap

    async def add(self, member: str, at: float) -> None:
        pipeline = self._state.redis.pipeline(transaction=False)
        pipeline.zadd(self._index, {member: at})
        pipeline.expire(self._index, WAIT_S)
        await self._state.ask(pipeline.execute())

    async def members(self, since: float) -> list[str]:
        pipeline = self._state.redis.pipeline(transaction=False)
        pipeline.zremrangebyscore(self._index, "-inf", since)
        pipeline.zrange(self._index, 0, -1)
        return [member.decode() for member in (await self._state.ask(pipeline.execute()))[1]]

    async def remove(self, members: Sequence[str]) -> None:
        if members:
            await self._state.ask(cast(Awaitable[int], self._state.redis.zrem(self._index, *members)))


class Store:
    """The questions of one server; by a clock in seconds since 1970, which replicas share.

    Raises:
        OSError: by every method, where Redis does not answer: then nothing is asked, and nothing is called.
    """

    def __init__(self, state: RedisState | None = None, clock: Callable[[], float] = time.time) -> None:
        self._kept, self._clock = _Here(clock) if state is None else _Shared(state), clock

    def now(self) -> float:
        """Return the time, in seconds since 1970."""
        return self._clock()

    def hashed(self, *of: object) -> str:
        """Return a keyed hash that is the same at every replica."""
        text = json.dumps(of, sort_keys=True).encode()
        return _letters(blake2b(text, digest_size=_KEY_BYTES, key=self._kept.secret).digest())

    # -- tickets: what a caller brings back in a `requestState`, once --------------------------------------------------

    async def ticket(self, kind: Kind, key: str) -> str:
        """Return a name that is taken once, for one key."""
        name = _letters(token_bytes(_KEY_BYTES))
        await self._kept.swap("approval-ticket", name, 0, {"kind": kind, "key": key}, YES_S)
        return name

    async def spend(self, ticket: str, kind: Kind, key: str) -> bool:
        """Whether a ticket was made for this, and is taken now."""
        values, version = await self._kept.load("approval-ticket", ticket)
        if values != {"kind": kind, "key": key}:
            return False
        return await self._kept.swap("approval-ticket", ticket, version, {"kind": "used"}, YES_S) is None

    # -- questions -----------------------------------------------------------------------------------------------------

    async def find(self, key: str) -> Question | None:
        """Return the question for a key; None where none is open, or its answer is over."""
        question, _ = await self._load(key)
        return question

    async def by_id(self, question_id: str) -> Question | None:
        """Return a question; None where it is not there any more."""
        question = await self.find(question_id[:_KEY_LETTERS])
        return question if question is not None and question.id == question_id else None

    async def _load(self, key: str) -> tuple[Question | None, int]:
        values, version = await self._kept.load("approval", key)
        if not values:
            return None, version
        question = Question(**{**values, "person": tuple(values["person"])})
        is_over = question.answer == "used" or (question.answer == "yes" and self._clock() >= question.at + YES_S)
        return None if is_over else question, version

    async def _swap(self, question: Question, version: int, ttl_s: int) -> bool:
        return await self._kept.swap("approval", question.key, version, asdict(question), ttl_s) is None

    async def put(self, question: Question) -> tuple[Question, Sequence[Question]]:
        """Have a question wait, or return the one that waits already; and those that are given up for it."""
        for _ in range(3):
            there, version = await self._load(question.key)
            if there is not None and there.answer == "waiting":
                return there, ()
            made = replace(question, id=question.key + _letters(token_bytes(_NONCE_BYTES)))
            if await self._swap(made, version, WAIT_S):
                await self._kept.add(f"{made.owner}:{made.id}", self._clock())
                return made, await self._trim(made.owner)
        raise OSError("others ask the same at the same time")

    async def _trim(self, owner: str) -> Sequence[Question]:
        members = await self._kept.members(self._clock() - WAIT_S)
        own = [each for each in members if each.startswith(f"{owner}:")]
        over = [*own[: max(0, len(own) - N_OF_CALLER)]]
        over += [each for each in members if each not in over][: max(0, len(members) - len(over) - N_WAITING)]
        await self._kept.remove(over)
        given_up = [await self.answer(each.partition(":")[2], "given up") for each in over]
        return [each for each in given_up if each is not None]

    async def to_page(self, question_id: str) -> None:
        """Have a question wait on the page, since its caller's client can't be asked."""
        question, version = await self._load(question_id[:_KEY_LETTERS])
        if question is not None and question.id == question_id and question.asks_client:
            await self._swap(replace(question, asks_client=False), version, WAIT_S)

    async def answer(self, question_id: str, answer: Answer, *, is_told: bool = False) -> Question | None:
        """Answer a waiting question, and return it; None where it waits no more: of two answers the first holds."""
        question, version = await self._load(question_id[:_KEY_LETTERS])
        if question is None or question.id != question_id or question.answer != "waiting":
            return None
        answered = replace(question, answer=answer, at=self._clock(), is_told=is_told, shown="")
        if not await self._swap(answered, version, YES_S):
            return None
        await self._kept.remove([f"{question.owner}:{question.id}"])
        return question

    async def take(self, question: Question) -> bool:
        """Whether a yes is used now, by this call and no other."""
        there, version = await self._load(question.key)
        if there is None or there.id != question.id or there.answer != "yes":
            return False
        return await self._swap(replace(there, answer="used"), version, QUIET_S)

    async def refuse(self, question: Question) -> None:
        """Note a no that its caller is told at once, so that the same is not asked again for a minute."""
        _, version = await self._load(question.key)
        told = replace(question, answer="no", is_told=True, shown="", at=self._clock(), id=question.key)
        await self._swap(told, version, QUIET_S)

    async def told(self, question: Question) -> bool:
        """Whether a caller is to be told of a no, or of one given up: once, and within a minute of a no again."""
        there, version = await self._load(question.key)
        if there is None or there.id != question.id:
            return False
        if not there.is_told:
            await self._swap(replace(there, is_told=True), version, QUIET_S)
            return True
        return there.answer == "no" and self._clock() < there.at + QUIET_S

    async def waiting(self, most: int) -> tuple[list[Question], int]:
        """Return the questions that have waited longest on the page, and how many there are in all."""
        members = await self._kept.members(self._clock() - WAIT_S)
        there = [await self.by_id(each.partition(":")[2]) for each in members[:most]]
        on_page = (each for each in there if each is not None and each.answer == "waiting" and not each.asks_client)
        return list(on_page), len(members)


def _letters(content: bytes) -> str:
    return b32encode(content).decode().lower()
