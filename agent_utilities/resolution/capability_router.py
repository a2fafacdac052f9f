"""Which capability a user's words call for: triggers are made ready behind, and what is said is held against them."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from agent_utilities.capabilities.intent import intent_text
from agent_utilities.capabilities.routing import LEAST_CHARACTERS, Route, routed
from agent_utilities.ranking.base import RankerError
from agent_utilities.ranking.embedding import Embedder
from agent_utilities.ranking.fallback_notice import FallbackNotice
from agent_utilities.ranking.request_texts import read_request
from agent_utilities.ranking.trigger_index import TriggerIndex, distinct_triggers
from agent_utilities.ranking.unanswerable import UNANSWERABLE
from agent_utilities.resolution.capability_gates import BY_MEANING, BY_WORDS
from agent_utilities.runtime.threads import start_in_daemon_thread

logger = logging.getLogger("agent_utilities.capabilities")

_RETRY_S = 60.0
_N_THREADS = 2

Triggers = Mapping[str, tuple[str, ...]]


class CapabilityRouter:
    """Routes what users say to capabilities; by words alone as long as vectors can't be had.

    Nothing is made ready on the request path: `take` has it done in a thread. Scores are a matter of what a caller may
    use alone, so that he learns nothing of what he may not.

    Args:
        open_embedder: returns what embeds, the ranker's own; None compares words alone.
        cause: why nothing is ever routed; empty where something is.
        retry_s: seconds between tries to have vectors.
    """

    def __init__(
        self, open_embedder: Callable[[], Embedder] | None = None, *, cause: str = "", retry_s: float = _RETRY_S
    ) -> None:
        self._open_embedder = None if cause else open_embedder
        self._off = cause
        self._retry_s = retry_s
        self._retry_at = 0.0
        self._triggers: Triggers = {}
        self._index: TriggerIndex | None = None
        self._lock = threading.Lock()
        self._preparing: Future[None] | None = None
        self._threads = ThreadPoolExecutor(_N_THREADS, "route")
        self._notice = FallbackNotice("capabilities are routed by words alone")

    @property
    def is_ready(self) -> bool:
        """Whether what there is now is compared as well as it can be for now."""
        return self._index is not None and self._preparing is None

    @property
    def cause(self) -> str:
        """Why nothing is routed, or less well than it could be; empty where neither holds."""
        if self._off:
            return self._off
        if self._index is None:
            return "the triggers are being read"
        if self._open_embedder is not None and not self._index.has_vectors and self._index.names:
            return "routed by words alone"
        return ""

    def take(self, triggers: Triggers) -> None:
        """Take what there is now; returns at once, and what changed is made ready behind.

        Args:
            triggers: by capability, the sentences that call for it.
        """
        given = {name: tuple(texts) for name, texts in triggers.items() if texts}
        with self._lock:
            if self._off or (self._index is not None and given == self._triggers):
                return
            self._triggers = given
            self._prepare_behind()

    async def wait_until_ready(self) -> None:
        """Wait until what was taken is ready, by words alone where vectors can't be had."""
        while (preparing := self._preparing) is not None:
            await asyncio.wrap_future(preparing)

    async def route(self, text: str, usable: frozenset[str]) -> Route:
        """Return where a user's words lead; never fails, and blocks nothing.

        Args:
            text: what he says.
            usable: the capabilities that he may use and that are not active yet.
        """
        index = self._index
        if self._off or index is None:
            return Route(cause=self.cause)
        self._try_again(index)
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, partial(self._route, index, text, usable)
            )
        except Exception:
            logger.exception("can't route to a capability")
            return Route(cause="it could not be routed")

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    # -- in a thread ---------------------------------------------------------------------------------------------

    def _route(self, index: TriggerIndex, text: str, usable: frozenset[str]) -> Route:
        intent = intent_text(text)
        if len(intent.strip()) < LEAST_CHARACTERS:
            return Route(cause=f"fewer than {LEAST_CHARACTERS} characters were said")
        view = index.view(usable)
        if index.has_vectors and self._open_embedder is not None:
            try:
                texts = read_request(intent, view.evidence)
                vectors = texts.vectors(self._open_embedder().embed_request(texts.to_embed))
                self._notice.worked()
                return routed(view.by_meaning(texts.whole, vectors), BY_MEANING)
            except RankerError as error:
                self._notice.failed(str(error))
        return routed(view.by_words(intent), BY_WORDS, by_words=True)

    def _try_again(self, index: TriggerIndex) -> None:
        """Have vectors made where they could not be had some time ago."""
        lacks_vectors = self._open_embedder is not None and index.names and not index.has_vectors
        if lacks_vectors and self._preparing is None and time.monotonic() >= self._retry_at:
            with self._lock:
                self._prepare_behind()

    def _prepare_behind(self) -> None:
        """Start making ready what was taken last, unless that is under way; the lock is held."""
        if self._preparing is None:
            self._preparing = Future()
            start_in_daemon_thread(partial(self._prepare, self._preparing))

    def _prepare(self, done: Future[None]) -> None:
        """Make ready what was taken last, until nothing newer was taken meanwhile."""
        triggers: Triggers | None = None
        while True:
            with self._lock:
                if triggers is self._triggers:
                    self._preparing = None
                    break
                triggers = self._triggers
            try:
                self._make_ready(triggers)
            except Exception:
                logger.exception("the triggers can't be read")
        done.set_result(None)

    def _make_ready(self, triggers: Triggers) -> None:
        if self._index is None:
            self._index = TriggerIndex(triggers)
        if not triggers or self._open_embedder is None:
            self._index = TriggerIndex(triggers)
            return
        try:
            embedder = self._open_embedder()
            vectors = embedder.embed(distinct_triggers(triggers), "query")
            unanswerable = embedder.embed(UNANSWERABLE, "query")
        except RankerError as error:
            self._retry_at = time.monotonic() + self._retry_s
            self._notice.failed(str(error))
            self._index = TriggerIndex(triggers)
        else:
            self._index = TriggerIndex(triggers, vectors, unanswerable)
            self._notice.worked()
