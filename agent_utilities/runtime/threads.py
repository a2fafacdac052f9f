"""Threads that the process need not wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
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
