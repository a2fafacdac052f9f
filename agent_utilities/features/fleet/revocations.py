"""Revoked tokens: one that is taken out of the file of one replica is refused by all, whatever their files say."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from hmac import compare_digest
from typing import Any, cast

from agent_utilities.features.fleet.news import News, Topic
from agent_utilities.state.redis_state import RedisState

_BYTES = 16
_N_MOST = 10_000
"""How many are read of what is kept, at most."""


class Revocations(Topic):
    """The tokens that any replica told to be revoked: there are only ever more.

    Kept and told is a hash that takes the operator's key, with a seal that takes it too: nothing can be learned of a
    token by it, and nobody else can have one refused.
    """

    name = "revocations"

    def __init__(self, state: RedisState) -> None:
        super().__init__(state)
        self._secret = state.derived("revocations")
        self._known: set[bytes] = set()
        state.is_revoked = self.is_revoked

    def is_revoked(self, sha256: str) -> bool:
        """Return whether a token with this hash was revoked."""
        return bool(self._known) and self._sealed(sha256) in self._known

    def add(self, hashes: Iterable[str]) -> bool:
        """Take note that tokens were revoked here; return whether that was not known."""
        new = {self._sealed(each) for each in hashes} - self._known
        self._known |= new
        return bool(new)

    def heard(self, message: bytes) -> None:
        """Take one that was revoked elsewhere."""
        if compare_digest(self._seal(message[:_BYTES]), message[_BYTES:]):
            self._known.add(message)

    async def compare(self, news: News) -> None:
        """Take those that are kept, and tell those that are not.

        Raises:
            StateError: Redis did not answer.
        """
        kept = set(await self.ask(cast(Any, self.redis.srandmember(self.key, _N_MOST))))
        for each in kept - self._known:
            self.heard(each)
        if lacking := self._known - kept:
            await news.tell(self, lambda at_once: at_once.sadd(self.key, *lacking), lacking)

    def _sealed(self, sha256: str) -> bytes:
        name = blake2b(sha256.encode(), digest_size=_BYTES, key=self._secret).digest()
        return name + self._seal(name)

    def _seal(self, name: bytes) -> bytes:
        return blake2b(name, digest_size=_BYTES, key=self._secret, person=b"seal").digest()
