"""Which capability a user's words call for: triggers are made ready behind, and what is said is held against them."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from agent_utilities.capabilities.model import LEAST_CHARACTERS, Gate, Route, routed
from agent_utilities.capabilities.user_text import intent_text
from agent_utilities.errors import RankerError
from agent_utilities.ranking.embedding import Embedder, read_request
from agent_utilities.ranking.terms import STOPWORDS, is_content_word, words
from agent_utilities.ranking.triggers import TriggerIndex
from agent_utilities.resolution.catalog_ranker import RETRY_S
from agent_utilities.resolution.orchestrator import key_of
from agent_utilities.runtime.caches import BoundedCache
from agent_utilities.runtime.waiting import in_daemon_thread, start_in_daemon_thread

logger = logging.getLogger("agent_utilities.capabilities")

# What a capability must clear to be activated unasked: one gate for each way of comparing, and what each is worth. It
# holds for the model that it was measured with alone: cosines of another are on another scale. So a model that has none
# here compares nothing, and words route in its place, under their own gate.
BY_WORDS = Gate(threshold=0.27, margin=0.005, margin_of_one=0.4)
"""Words alone."""

BY_MODEL: Mapping[str, Gate] = {"minilm-l6-v2": Gate(threshold=0.225, margin=0.01, margin_of_one=0.6)}
"""Vectors and words, by the model's name. What both come to, also where they are chosen apart, is told by
`benchmarks/capability_routing.py` and docs/ranking.md."""

_VECTORS_S = 1.0
_N_REMEMBERED_CHARACTERS = 8_192
_ROUTES_BYTES = 2 << 20
_SCORE_BYTES = 200

Triggers = Mapping[str, tuple[str, ...]]
_Asked = tuple[bytes, frozenset[str]]


@dataclass(frozen=True, eq=False)
class _Ready:
    """Triggers that are ready.

    Args:
        embedder: what embeds messages to be held against them; None where words alone are compared.
        cause: why that is, where vectors were asked for.
    """

    index: TriggerIndex
    embedder: Embedder | None = None
    cause: str = ""
    routes: BoundedCache[_Asked, Route] = field(default_factory=lambda: BoundedCache(_ROUTES_BYTES, _weigh))


class CapabilityRouter:
    """Routes what users say to capabilities; by words alone as long as vectors can't be had.

    Nothing is made ready on the request path: `take` has it done in a thread. Scores are a matter of what a caller may
    use alone, so that they learn nothing of what they may not.

    Args:
        embedder: the ranker's own; None compares words alone.
        cause: why nothing is ever routed; empty where something is.
        retry_s: seconds between tries to have vectors.
        vectors_s: seconds after which words alone are compared, where a message is not embedded yet.
    """

    def __init__(
        self,
        embedder: Embedder | None = None,
        *,
        cause: str = "",
        retry_s: float = RETRY_S,
        vectors_s: float = _VECTORS_S,
    ) -> None:
        self._embedder = embedder
        self._off = cause
        self._retry_s, self._vectors_s = retry_s, vectors_s
        self._retry_at = float("inf")
        self._triggers: Triggers | None = None
        self._ready: _Ready | None = None
        self._lock = threading.Lock()
        self._preparing: Future[None] | None = None
        self._threads = ThreadPoolExecutor(2, "route")

    @property
    def is_ready(self) -> bool:
        """Whether what was taken last is compared as well as it can be for now."""
        return self._ready is not None and self._preparing is not None and self._preparing.done()

    @property
    def cause(self) -> str:
        """Why nothing is routed, or less well than it could be; empty where neither holds."""
        if self._off:
            return self._off
        return "the triggers are not read yet" if self._ready is None else self._ready.cause

    def use(self, triggers: Triggers) -> None:
        """Take what there is now; returns at once, and what changed is made ready behind."""
        given = {name: tuple(texts) for name, texts in triggers.items() if texts}
        if not self._off and given != self._triggers:
            self._triggers = given
            self._prepare_behind(given)

    async def wait_until_ready(self) -> None:
        """Wait until what was taken is ready, by words alone where vectors can't be had."""
        if self._preparing is not None:
            await asyncio.wrap_future(self._preparing)

    async def route(self, text: str, usable: frozenset[str]) -> Route:
        """Return where a user's words lead among the capabilities that they may use; never fails, blocks nothing."""
        ready = self._ready
        if ready is None:
            return Route(cause=self.cause)
        self._try_again()
        asked = (key_of(text), usable) if len(text) <= _N_REMEMBERED_CHARACTERS else None
        if asked is not None and (known := ready.routes.get(asked)) is not None:
            return known
        try:
            route = await self._in_time(ready, text, usable)
        except Exception:
            logger.exception("can't route to a capability")
            return Route(cause="routing failed; the log says why")
        if asked is not None and (ready.embedder is None or not route.by_words):
            ready.routes.keep(asked, route)
        return route

    async def _in_time(self, ready: _Ready, text: str, usable: frozenset[str]) -> Route:
        """Return a route by vectors, or by words where those can't be had in time."""
        loop = asyncio.get_running_loop()
        if ready.embedder is not None:
            by_meaning = loop.run_in_executor(self._threads, _by_meaning, ready.index, ready.embedder, text, usable)
            with suppress(TimeoutError, RankerError, UnicodeError):
                async with asyncio.timeout(self._vectors_s):
                    return await by_meaning
        return await in_daemon_thread(partial(_by_words, ready.index, text, usable))  # not behind a model that hangs

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    # -- in threads ----------------------------------------------------------------------------------------------

    def _try_again(self) -> None:
        """Have vectors made where they could not be had some time ago."""
        if self._triggers is not None and self.is_ready and time.monotonic() >= self._retry_at:
            self._prepare_behind(self._triggers)

    def _prepare_behind(self, triggers: Triggers) -> None:
        self._preparing = start_in_daemon_thread(partial(self._prepare, triggers))

    def _prepare(self, triggers: Triggers) -> None:
        """Make ready what was taken, unless something else was taken meanwhile."""
        with self._lock:
            if triggers is self._triggers:
                try:
                    self._make_ready(triggers)
                except Exception:
                    logger.exception("the triggers can't be read; what was read before is used on")

    def _make_ready(self, triggers: Triggers) -> None:
        """Have triggers compared: at the first time by words until their vectors are there."""
        self._retry_at = float("inf")
        by_words = TriggerIndex(triggers)
        if (embedder := self._embedder) is None or not triggers:
            self._ready = _Ready(by_words)
            return
        self._ready = self._ready or _Ready(by_words, cause="routed by words until vectors are there")
        try:
            if (model := embedder.provider.name) in BY_MODEL:
                self._ready = _Ready(TriggerIndex(triggers, partial(embedder.embed, role="query")), embedder)
            else:
                cause = f"routed by words alone: no gate was measured for the model {model!r}"
                self._ready = _Ready(by_words, cause=cause)
        except RankerError:
            self._retry_at = time.monotonic() + self._retry_s
            self._ready = _Ready(by_words, cause="routed by words alone")


def n_said(intent: str) -> int:
    """Return how many different words of what is said say something by themselves."""
    return sum(map(is_content_word, set(words(intent)) - STOPWORDS))


def _by_words(index: TriggerIndex, text: str, usable: frozenset[str]) -> Route:
    intent = intent_text(text)
    if len(intent.strip()) < LEAST_CHARACTERS:
        return Route(cause=f"fewer than {LEAST_CHARACTERS} characters were said")
    return routed(index.view(usable).by_words(intent), BY_WORDS, n_said(intent), by_words=True)


def _by_meaning(index: TriggerIndex, embedder: Embedder, text: str, usable: frozenset[str]) -> Route:
    """Return a route by vectors and words; `RankerError` where the message can't be embedded."""
    intent = intent_text(text)
    if len(intent.strip()) < LEAST_CHARACTERS:
        return _by_words(index, intent, usable)
    view = index.view(usable)
    texts = read_request(intent, view.evidence)
    vectors = texts.vectors(embedder.embed_request(texts.to_embed))
    return routed(view.by_meaning(texts.whole, vectors), BY_MODEL[embedder.provider.name], n_said(intent))


def _weigh(asked: _Asked, route: Route) -> int:
    return 1_000 + _SCORE_BYTES * len(route.scores)
