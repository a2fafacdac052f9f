"""Whole results, kept for the callers they were made for: in memory, or sealed in the Redis that replicas share.

A result is kept for 30 minutes after it was put or last read, never on a disk; the least recently read goes first.
"""

from __future__ import annotations

import json
import time
from base64 import b32encode
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from mmap import PAGESIZE, mmap
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

from agent_utilities.runtime.waiting import in_daemon_thread

if TYPE_CHECKING:
    from agent_utilities.state.redis_state import RedisState

_T = TypeVar("_T")
LIFE_S = 1_800
"""Seconds that a result is kept after it was put or last read."""
ALL_BYTES, EACH_BYTES = 64 << 20, 16 << 20
"""The most that is kept of all owners together, and of each."""
_LEAST_BYTES = 32 << 10
"""What a result counts for at least, some 8,000 tokens: so there are 2,048 at most, which a script looks through."""
_PIECE_BYTES = 512 << 10
"""What is copied, sealed or sent at a time: each may hold the event loop for milliseconds a MiB, in a thread too."""


class Owner(NamedTuple):
    """Who may read a result: what they are known by, and as whom; by `handle` it is whoever has that."""

    by: Literal["subject", "session", "token", "handle"]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """One result, as it was put; whether its reader may still use the tool that made it is not checked here."""

    content: bytes
    tool: str


class Kept:
    """A server's results, in the state that its replicas share, or in this process; by a clock in seconds."""

    def __init__(self, state: RedisState | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._shared, self._clock = None if state is None else _Shared(state), clock
        # Whole pages of the system's: an allocator that keeps what is freed held half as much again as was bounded.
        self._held: OrderedDict[tuple[Owner, str], tuple[float, int, mmap]] = OrderedDict()
        """The least recently read first, each with when it expires, which has the same order, and its bytes."""
        self._n_bytes, self._cause = 0, ""

    @property
    def n_bytes(self) -> int:
        """The bytes that are kept in this process; what has expired is dropped."""
        while self._held and self._held[key := next(iter(self._held))][0] <= self._clock():
            self._drop(key)
        return self._n_bytes

    @property
    def cause(self) -> str:
        """Why results are kept in this process alone, in words; empty where other replicas can read them all."""
        return self._cause if self.n_bytes else ""

    async def put(self, owner: Owner, tool: str, content: bytes) -> str | None:
        """Keep a result, and return its handle; None where it is larger than all that its owner may keep."""
        head = json.dumps(tool).encode() + b"\n"
        n_bytes = max(_LEAST_BYTES, -(-(len(head) + len(content)) // PAGESIZE) * PAGESIZE)
        if n_bytes > EACH_BYTES:
            return None
        handle = "r_" + b32encode(token_bytes(16)).decode().rstrip("=").lower()
        if self._shared is not None:
            if not (cause := await self._shared.put(owner, handle, n_bytes, head, content)):
                return handle
            self._cause = cause
        own = [key for key in self._held if key[0] == owner]
        n_own = sum(self._held[key][1] for key in own) + n_bytes
        for key in own:
            n_own -= self._drop(key) if n_own > EACH_BYTES else 0
        while self.n_bytes + n_bytes > ALL_BYTES:
            self._drop(next(iter(self._held)))
        pages = mmap(-1, len(head) + len(content))
        self._held[owner, handle] = self._clock() + LIFE_S, n_bytes, pages
        self._n_bytes += n_bytes
        await _beside(n_bytes, partial(_fill, pages, head, content))  # who might read it has no handle yet
        return handle

    async def get(self, handle: str, owner: Owner) -> Entry | None:
        """Return what an owner has under a handle; None where that never was, has expired, or is another owner's."""
        if self.n_bytes and (held := self._held.pop((owner, handle), None)) is not None:
            self._held[owner, handle] = self._clock() + LIFE_S, *held[1:]
            return await _beside(held[1], partial(_entry, held[2]))
        return None if self._shared is None else await self._shared.get(owner, handle)

    async def take(self, handle: str, owner: Owner) -> Entry | None:
        """Return what an owner has under a handle and forget it: of several that ask at one time, one gets it."""
        if self.n_bytes and (owner, handle) in self._held:
            pages = self._held[owner, handle][2]
            self._drop((owner, handle))
            return _entry(pages)
        return None if self._shared is None else await self._shared.get(owner, handle, takes=True)

    def close(self) -> None:
        """Forget what is kept in this process; what replicas share stays for the others."""
        self._held.clear()
        self._n_bytes = 0

    def _drop(self, key: tuple[Owner, str]) -> int:
        n_bytes = self._held.pop(key)[1]
        self._n_bytes -= n_bytes
        return n_bytes


def _entry(pages: mmap) -> Entry:
    at = pages.find(b"\n", 0) + 1
    return Entry(pages[at:], json.loads(pages[:at]))


def _fill(pages: mmap, head: bytes, content: bytes) -> None:
    pages.write(head)
    for at in range(0, len(content), _PIECE_BYTES):
        pages.write(memoryview(content)[at : at + _PIECE_BYTES])


async def _beside(n_bytes: int, work: Callable[[], _T]) -> _T:
    return work() if n_bytes <= _PIECE_BYTES else await in_daemon_thread(work)


_TRIM = """
local names, sizes, is_own, own, all = redis.call('ZRANGE', KEYS[1], 0, -1), {}, {}, 0, 0
local function drop(i)
  redis.call('UNLINK', names[i])
  redis.call('ZREM', KEYS[1], names[i])
  all, own, sizes[i] = all - sizes[i], own - (is_own[i] and sizes[i] or 0), 0
end
for i, name in ipairs(names) do
  local n = redis.pcall('HGET', name, 'n')
  sizes[i], is_own[i] = type(n) == 'string' and tonumber(n) or 0, string.sub(name, 1, #ARGV[1]) == ARGV[1]
  all, own = all + sizes[i], own + (is_own[i] and sizes[i] or 0)
  if sizes[i] == 0 then drop(i) end
end
for i = 1, #names do if is_own[i] and own > tonumber(ARGV[2]) then drop(i) end end
for i = 1, #names do if all > tonumber(ARGV[3]) then drop(i) end end
"""
"""Evicts from one owner, then from all, until they are within their bounds. Sizes are read from the results themselves:
Redis may have expired or evicted some."""


class _Shared:
    """Results in Redis: a hash each, of sealed pieces, and an index of all by when they were last read.

    Names are keyed hashes of owner and handle. A piece is sealed under its own, with how many there are: who may write
    to Redis can neither shorten a result nor pass it off as another's.
    """

    def __init__(self, state: RedisState) -> None:
        self._state, self._secret, self._index = state, state.derived("results"), state.name("results", "all")

    async def put(self, owner: Owner, handle: str, n_bytes: int, head: bytes, content: bytes) -> str:
        """Share a result; return why that failed, empty where it did not."""
        key = self._key(owner, handle)
        try:
            for i, piece in enumerate(await _beside(n_bytes, partial(self._sealed, key, head, content))):
                pipeline = self._state.redis.pipeline(transaction=False)
                pipeline.hset(key, mapping={str(i): piece, "n": n_bytes})
                self._touch(pipeline, key)
                if i == 0:  # room is made for the whole, as its first piece brings its size along
                    pipeline.eval(_TRIM, 1, self._index, key.rpartition(":")[0], EACH_BYTES, ALL_BYTES)
                # Where it refuses what is large, it answers all the same, and nobody else need do without it.
                answers = await self._state.ask(pipeline.execute(raise_on_error=False))
                if refusals := [answer for answer in answers if isinstance(answer, Exception)]:
                    return f"redis refused a result: {type(refusals[0]).__name__}"
                if i > 0 and answers[0] != 1:  # its size was new too: it was evicted meanwhile
                    await self._state.ask(cast(Awaitable[int], self._state.redis.unlink(key)))
                    break
        except OSError as error:
            return str(error)
        return ""

    async def get(self, owner: Owner, handle: str, *, takes: bool = False) -> Entry | None:
        """Return a result; None where there is none, it was tampered with, or Redis does not answer.

        Args:
            takes: whether it is forgotten at the same moment.
        """
        key = self._key(owner, handle)
        pipeline = self._state.redis.pipeline(transaction=takes)
        pipeline.hgetall(key)
        if takes:
            pipeline.unlink(key)
            pipeline.zrem(self._index, key)
        else:
            self._touch(pipeline, key, xx=True)
        try:  # eight times as long as for others: what is read may be long
            answers = await self._state.ask(pipeline.execute(raise_on_error=False), 8 * self._state.wait_s)
        except OSError:
            return None
        pieces = answers[0] if isinstance(answers[0], dict) else {}
        return await _beside(len(pieces) * _PIECE_BYTES // 2, partial(self._opened, key, pieces))

    def _touch(self, pipeline: Any, key: str, *, xx: bool = False) -> None:
        """Have a result, or with `xx` one that is there, be kept from now on, as the last one that was read."""
        pipeline.zadd(self._index, {key: time.time()}, xx=xx)
        for each in (self._index, key):
            pipeline.expire(each, LIFE_S)

    def _key(self, *of: object) -> str:
        """Return the key of an owner's handle, which begins with the owner's."""
        texts = (json.dumps(each).encode() for each in of)
        return ":".join([self._index, *(blake2b(each, digest_size=16, key=self._secret).hexdigest() for each in texts)])

    def _sealed(self, key: str, head: bytes, content: bytes) -> list[bytes]:
        pieces = [content[at : at + _PIECE_BYTES] for at in range(0, max(1, len(content)), _PIECE_BYTES)]
        pieces[0] = head + pieces[0]
        return [self._state.sealed(f"{key} {i} of {len(pieces)}", piece) for i, piece in enumerate(pieces)]

    def _opened(self, key: str, sealed: Mapping[bytes, bytes]) -> Entry | None:
        n = len(sealed) - 1  # its size is beside the pieces
        pieces = [self._state.opened(f"{key} {i} of {n}", sealed.get(b"%d" % i)) or b"" for i in range(n)]
        if not (pieces and all(pieces)):
            return None
        head, _, pieces[0] = pieces[0].partition(b"\n")
        return Entry(b"".join(pieces), json.loads(head))
