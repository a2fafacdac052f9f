"""State in one Redis for all replicas: values replaced as a whole, locks, and FastMCP's store, sealed by one key.

No bound is kept in it: who may write to it widens nothing, and reaches models with no text that was not sealed here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from hashlib import blake2b
from typing import Any, SupportsFloat, TypeVar, cast
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from key_value.aio.stores.memory import MemoryStore
from redis.asyncio import Redis
from redis.asyncio.lock import Lock
from redis.exceptions import LockError

logger = logging.getLogger("agent_utilities.state")

WAIT_S = 0.25
"""Seconds that a request waits for Redis; after that it goes on with this process's state."""
_REST_S = 1.0
"""Seconds after a failure in which Redis is not asked."""
_WARN_AGAIN_S = 60.0
"""Seconds between two warnings that it does not answer."""
_N_TURNS = 10
"""Turns of the loop in which an answer that has arrived is read, however long others take in each."""
ALONE_S = 25.0
"""Seconds for which one process may hold a lock."""
_LOOK_S = 0.05
"""Seconds between two attempts to take a lock."""
_NONCE_BYTES = 12
_SWAP = """
local version = redis.call('HGET', KEYS[1], 'version') or ''
version = #version <= 15 and string.match(version, '^%d+$') and tonumber(version) or 0
if version > tonumber(ARGV[1]) then return {version, redis.call('HGET', KEYS[1], 'values') or ''} end
redis.call('HSET', KEYS[1], 'version', ARGV[1] + 1, 'values', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return {ARGV[1] + 1}
"""
"""Replaces the values of a version, or of an earlier one, which Redis has after a loss of data; returns a later version
and its values.
"""
_T = TypeVar("_T")


class StateError(OSError):
    """Redis failed, or did not answer in time."""


async def _end(limit: asyncio.Timeout, wait_s: float) -> None:
    """End a timeout after some seconds; where this process was late itself, an answer that is there is read first."""
    await asyncio.sleep(wait_s)
    for _ in range(_N_TURNS):
        await asyncio.sleep(0)
    limit.reschedule(0)


class RedisState:
    """The state that a server's replicas share.

    Args:
        url: of Redis, such as `rediss://user:password@host:6379/0?ssl_ca_certs=/ca.pem`.
        prefix: the first part of every key.
        server: the server's name, the second part.
        key: the operator's, 32 bytes, from which keys for sealing and hashing are derived.

    Raises:
        ValueError: the URL is invalid; the error reveals no part of a password.
    """

    wait_s = WAIT_S

    def __init__(self, url: str, prefix: str, server: str, key: bytes) -> None:
        _check(url)
        # Also the limit of connecting: `ask` limits how long anybody waits, as it knows when this process is late.
        self.redis: Redis = Redis.from_url(url, socket_timeout=5.0, health_check_interval=30)
        try:
            cast(Any, self.redis.connection_pool).make_connection()
        except TypeError:
            raise ValueError("it has an option after its ? that redis-py does not know") from None
        self._prefix, self._server, self._key = prefix, server, key
        self.cause = ""
        """Why Redis is not used now, in words; empty while it is."""
        self.is_revoked: Callable[[str], bool] = lambda _: False
        """Whether a token of this SHA-256 was revoked at any replica."""
        self._rests_until_s, self._is_tampered = 0.0, False
        self._warned_s, self._has_warned = -math.inf, False
        self._swap = self.redis.register_script(_SWAP)
        self._aead = AESGCM(self.derived("seal"))

    def name(self, kind: str, one: str = "") -> str:
        """Return a key; its hash tag keeps all keys of one thing on one node of a cluster."""
        return f"{self._prefix}:{self._server}:{kind}" + (f":{{{one}}}" if one else "")

    def derived(self, what: str) -> bytes:
        """Derive a secret for one use, 32 bytes: the same on every replica."""
        about = f"agent-utilities {what}".encode()
        return HKDF(hashes.SHA256(), 32, salt=None, info=about).derive(self._key)

    # -- asking, never for long ------------------------------------------------------------------------------------

    async def ask(self, question: Awaitable[_T], within_s: float | None = None) -> _T:
        """Return Redis' answer, by default within the seconds that a request waits.

        A failure, or a late answer, raises `StateError`, and so does every call in the next second.
        """
        if time.monotonic() < self._rests_until_s:
            if asyncio.iscoroutine(question):
                question.close()
            raise StateError(self.cause)
        wait_s = self.wait_s if within_s is None else within_s
        task = asyncio.current_task()
        n_cancelled = task.cancelling() if task is not None else 0
        try:
            async with asyncio.timeout(None) as limit:
                timer = asyncio.create_task(_end(limit, wait_s))
                try:
                    answer = await question
                finally:
                    timer.cancel()
            if task is not None and task.cancelling() > n_cancelled:  # redis-py loses one that comes while it connects
                raise asyncio.CancelledError
        except TimeoutError:
            self._failed(f"redis did not answer within {wait_s:g} s")
            raise StateError(self.cause) from None
        except Exception as error:  # not RedisError alone: event loops raise others when a lost connection is written
            self._failed(f"redis failed: {type(error).__name__}")
            raise StateError(self.cause) from None
        if self.cause and time.monotonic() >= self._rests_until_s:
            logger.log(logging.INFO if self._has_warned else logging.DEBUG, "redis answers again")
            self.cause = ""
        return answer

    def _failed(self, cause: str) -> None:
        now_s = time.monotonic()
        if not self.cause:  # one that is full answers in between
            self._has_warned = now_s >= self._warned_s + _WARN_AGAIN_S
            level = logging.WARNING if self._has_warned else logging.DEBUG
            logger.log(level, "%s; requests go on with this process's state", cause)
            self._warned_s = now_s if self._has_warned else self._warned_s
        self.cause, self._rests_until_s = cause, now_s + _REST_S

    # -- values that are swapped whole -----------------------------------------------------------------------------

    async def load(self, kind: str, one: str) -> tuple[dict[str, Any], int]:
        """Return the values of one thing and their version, `{}` and 0 where there are none; raises `StateError`."""
        reading = cast(Awaitable[list[Any]], self.redis.hmget(self.name(kind, one), ["version", "values"]))
        version, values = await self.ask(reading)
        number = int(version) if version and version.isdigit() and len(version) <= 15 else 0  # as the script reads it
        return self._read(kind, one, values), number

    async def swap(
        self, kind: str, one: str, version: int, values: Mapping[str, Any], ttl_s: int, within_s: float | None = None
    ) -> tuple[dict[str, Any], int] | None:
        """Replace the values of a version, for `ttl_s`.

        Returns:
            None where they were replaced; the later values and their version where somebody was faster.

        Raises:
            StateError: Redis did not answer: it may have stored them.
        """
        key = self.name(kind, one)
        content = self.sealed(key, json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode())
        answer = await self.ask(self._swap([key], [version, content, ttl_s]), within_s)
        return (self._read(kind, one, answer[1]), int(answer[0])) if len(answer) > 1 else None

    # -- one at a time ---------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def alone(self, kind: str, one: str) -> AsyncIterator[None]:
        """Hold a lock of all replicas for a block of `ALONE_S` at most.

        Another holder may have done the work before. A killed holder's lock expires, and where Redis does not answer,
        or the lock is not free in time, the block runs without it.
        """
        lock = Lock(self.redis, self.name(kind, one), timeout=ALONE_S, thread_local=False)
        is_alone = False
        with suppress(StateError, TimeoutError):
            async with asyncio.timeout(ALONE_S + WAIT_S):
                while True:
                    if is_alone := await self.ask(lock.acquire(blocking=False)):
                        break
                    await asyncio.sleep(_LOOK_S)
        try:
            yield
        finally:
            if is_alone:
                with suppress(StateError):
                    await self.ask(_released(lock))

    # -- what is sealed --------------------------------------------------------------------------------------------

    def sealed(self, name: str, content: bytes) -> bytes:
        """Encrypt content; `opened` takes it under the same name alone."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, content, name.encode())

    def opened(self, name: str, sealed: bytes | None) -> bytes | None:
        """Decrypt what was sealed under a name; None for what another key sealed, or under another name."""
        if not sealed:
            return None
        try:
            return self._aead.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], name.encode())
        except (InvalidTag, ValueError):
            self.distrust(name)
            return None

    def distrust(self, name: str) -> None:
        """Log that an entry can't be decrypted, the first of them as a warning."""
        level = logging.DEBUG if self._is_tampered else logging.WARNING
        logger.log(level, "an entry of the shared state can't be opened, and counts as none: %s", name)
        self._is_tampered = True

    def _read(self, kind: str, one: str, content: bytes | None) -> dict[str, Any]:
        opened = self.opened(self.name(kind, one), content)
        values = json.loads(opened) if opened else {}
        return values if isinstance(values, dict) else {}

    async def close(self) -> None:
        await self.redis.aclose()


def _check(url: str) -> None:
    """Raise `ValueError` where a URL's password may end elsewhere than it seems, or its database is no number."""
    how = "a / ? # @ or : of a user or a password is written %2F %3F %23 %40 or %3A"
    try:
        place = urlsplit(url)
        path = "" if place.scheme == "unix" else place.path.strip("/")
        is_sure = place.port != 0 and not ("@" in path + place.query.partition("=")[0] or place.fragment)
    except ValueError:
        raise ValueError(f"Port could not be read, or the host before it; {how}") from None
    if not is_sure:
        raise ValueError(f"its parts can't be told apart; {how}")
    if path and not path.isdigit():  # without one it is 0
        raise ValueError("its database is no number" + (f": {place.path!r}" if "@" in place.netloc else ""))


async def _released(lock: Lock) -> None:
    with suppress(LockError):  # it is somebody else's by now
        await lock.release()


_N_HERE = 10_000
"""The most entries of a collection that this process keeps too."""


class SharedValues(MemoryStore):
    """A key-value store in Redis, and in this process while Redis does not answer.

    Values are sealed, and keys hashed, since ids of sessions and tokens are in them; `RedisStore` seals nothing. Only
    what FastMCP calls is shared by replicas: get, put and delete of one value.
    """

    def __init__(self, state: RedisState, kind: str) -> None:
        super().__init__(max_entries_per_collection=_N_HERE)
        self._state, self._kind, self._secret = state, kind, state.derived(f"names of {kind}")

    def _name(self, collection: str | None, key: str) -> str:
        text = json.dumps([collection, key]).encode()
        return self._state.name(self._kind, blake2b(text, digest_size=16, key=self._secret).hexdigest())

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        """Return a value, or None."""
        name = self._name(collection, key)
        try:
            content = self._state.opened(name, await self._state.ask(self._state.redis.get(name)))
        except StateError:
            kept: dict[str, Any] | None = await super().get(key, collection=collection)
            return kept
        try:
            value = json.loads(content)["value"] if content is not None else None
        except (ValueError, LookupError, TypeError):  # of another version
            return None
        return value if isinstance(value, dict) else None

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        """Store a value, in this process too."""
        await super().put(key, value, collection=collection, ttl=ttl)
        name, content = self._name(collection, key), json.dumps({"value": dict(value)}).encode()
        expiry_s = max(1, int(float(ttl))) if ttl is not None else None
        try:
            await self._state.ask(self._state.redis.set(name, self._state.sealed(name, content), ex=expiry_s))
        except StateError:
            return

    async def delete(self, key: str, *, collection: str | None = None) -> bool:
        """Remove a value; return whether there was one."""
        was_here: bool = await super().delete(key, collection=collection)
        try:
            return bool(await self._state.ask(self._state.redis.delete(self._name(collection, key)))) or was_here
        except StateError:
            return was_here
