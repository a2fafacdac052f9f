"""The file of a log as its thread sees it: opened when it is first needed, and anew after a failure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from agent_utilities.usage.bounds import UsageBounds
from agent_utilities.usage.errors import UsageError, usage_error
from agent_utilities.usage.events import Event, Listed
from agent_utilities.usage.redaction import without_secrets

if TYPE_CHECKING:  # SQLite is loaded by the thread, and by no server that logs nothing
    from agent_utilities.usage.store import UsageStore

PRUNE_S = 3600.0
"""The most seconds between two looks at what is too old."""


class LogFile:
    """A log's file, for one thread.

    Args:
        path: the file.
        bounds: what it may keep.
    """

    def __init__(self, path: Path, bounds: UsageBounds) -> None:
        self.path = path
        self._bounds = bounds
        self._store: UsageStore | None = None
        self._prune_at_s = 0.0
        # Most calls of a turn have its words; each takes some 100 µs to look through.
        self._without_secrets = lru_cache(maxsize=128)(without_secrets)

    def write(self, events: Sequence[Event]) -> bool:
        """Add events, all or none, their words without what looks like a secret; return True.

        Raises:
            UsageError: they can't be written.
        """
        try:
            self._opened().write([self._redacted(event) for event in events])
        except Exception as error:
            self.close()
            raise usage_error(error, self.path) from error
        with suppress(UsageError):  # the events are written; the next ones fail where this is worth telling
            self.prune()
        return True

    def _redacted(self, event: Event) -> Event:
        if isinstance(event, Listed) or not event.request:
            return event
        return replace(event, request=self._without_secrets(event.request))

    def prune(self) -> bool:
        """Delete what is too old or too much, where that is due, and say whether there is a file.

        Raises:
            UsageError: it can't be done.
        """
        if self._store is None and not self.path.exists():
            return False
        try:
            store = self._opened()
            if store.is_due or time.monotonic() >= self._prune_at_s:
                self._prune(store)
        except Exception as error:
            self.close()
            raise usage_error(error, self.path) from error
        return True

    def close(self) -> None:
        """Close the file where it is open."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _opened(self) -> UsageStore:
        if self._store is None:
            from agent_utilities.usage.store import UsageStore

            self._store = UsageStore(self.path, self._bounds)
            self._prune(self._store)  # one that was too full to write may have room again
        return self._store

    def _prune(self, store: UsageStore) -> None:
        store.prune(int(time.time() * 1000))
        self._prune_at_s = time.monotonic() + PRUNE_S
