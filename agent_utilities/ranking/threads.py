"""Threads: one at a time for BLAS, and one that the process need not wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, TypeVar

_T = TypeVar("_T")

_TURN = threading.Lock()


@lru_cache(maxsize=1)
def _controller() -> Any:
    try:
        return import_module("threadpoolctl").ThreadpoolController()
    except ImportError:
        return None


@contextmanager
def one_thread() -> Iterator[None]:
    """Let BLAS use one thread within, and one caller at a time.

    A second thread gains nothing on a request's matrices, and two that wait for each other on busy cores take ten
    times as long. The limit is the process's, so callers take turns: none may restore what another has set.
    """
    with _TURN:
        controller = _controller()
        if controller is None:
            yield
        else:
            with controller.limit(limits=1, user_api="blas"):
                yield


async def in_background(call: Callable[[], _T]) -> _T:
    """Run a call in a thread that does not keep the process from ending: a model may take long to answer."""
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
