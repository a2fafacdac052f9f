"""Threads that the process need not wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TypeVar

_T = TypeVar("_T")


async def in_daemon_thread(call: Callable[[], _T]) -> _T:
    """Return what a call gives, made in a thread that does not keep the process from ending: a model may take long."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def settle(give: Callable[[], None]) -> None:
        if not done.done():
            give()

    def work() -> None:
        give: Callable[[], None]
        try:
            give = partial(done.set_result, call())
        except BaseException as error:
            give = partial(done.set_exception, error)
        with suppress(RuntimeError):  # the server has stopped meanwhile
            loop.call_soon_threadsafe(settle, give)

    threading.Thread(target=work, name="index", daemon=True).start()
    return await done


def start_in_daemon_thread(call: Callable[[], _T]) -> Future[_T]:
    """Return the future of a call made in such a thread; it can't be cancelled, and belongs to no event loop."""
    done: Future[_T] = Future()
    done.set_running_or_notify_cancel()

    def work() -> None:
        try:
            done.set_result(call())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=work, name="open", daemon=True).start()
    return done
