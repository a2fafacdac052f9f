"""One thread for what must stay in one, which the process need not wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

_T = TypeVar("_T")


class OneThread:
    """Makes calls one after another in a daemon thread: a disk that hangs holds no process back from ending.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def call(self, call: Callable[[], _T]) -> asyncio.Future[_T]:
        """Return the future of a call's result, on the event loop that runs."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_T] = loop.create_future()

        def settle(give: Callable[[], None]) -> None:
            if not done.done():
                give()

        def work() -> None:
            give: Callable[[], None]
            try:
                give = partial(done.set_result, call())
            except Exception as error:
                give = partial(done.set_exception, error)
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(settle, give)

        self._calls.put(work)
        return done

    def end(self, last: Callable[[], None]) -> None:
        """Let the thread end once it has made the calls it was given, and a last one."""
        self._calls.put(last)
        self._calls.put(None)

    def _work(self) -> None:
        while (work := self._calls.get()) is not None:
            work()
