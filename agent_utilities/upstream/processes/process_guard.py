"""Nothing of a gateway's outlives it: a small watcher process ends what bears its marker once the gateway is gone."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Self

from agent_utilities.upstream.processes import marked_processes
from agent_utilities.upstream.processes.marked_processes import MARKER

logger = logging.getLogger("agent_utilities.upstream")

PARENT_CHECK_S = 1.0
"""Seconds between two looks at who our parent is."""


class ProcessGuard:
    """Ends every process of this gateway once the gateway is gone, by whatever means, SIGKILL too.

    The watcher is a process of its own, in a session of its own, that sees the gateway's end of a pipe close. It is
    started before the first upstream, once for all, and ends with the gateway: `async with ProcessGuard() as guard`.
    """

    def __init__(self) -> None:
        self._gateway = f"{secrets.token_hex(8)}."
        self._n_markers = 0
        self._watcher: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._starting = threading.Lock()

    def next_marker(self) -> str:
        """Return the word by which the next process, and all that it starts, is known."""
        self._n_markers += 1
        return f"{self._gateway}{self._n_markers}."

    def variables(self, marker: str, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Return the variable that a process must be started with to bear a marker.

        Args:
            marker: the marker.
            environ: the gateway's own environment: where it runs behind another gateway, its processes are that one's
                too.
        """
        return {MARKER: f"{environ.get(MARKER, '')} {marker}".strip()}

    @property
    def pid(self) -> int | None:
        """The watcher's process id; None where none runs."""
        return self._watcher.pid if self._watcher and self._watcher.poll() is None else None

    def start(self) -> None:
        """Start the watcher, unless it runs or there is nothing to watch any more. May be called from any thread."""
        with self._starting:
            if self.pid is not None or self._is_closed:  # a thread may come here after who waited for it has gone
                return
            _close(self._watcher)  # one that somebody has ended
            arguments = [sys.executable, "-I", "-S", marked_processes.__file__, self._gateway, *_paths_elsewhere()]
            # It must not bear the marker of a gateway that we run behind: that one ends us first, then it.
            env = {name: value for name, value in os.environ.items() if name != MARKER}
            none = subprocess.DEVNULL
            try:
                self._watcher = subprocess.Popen(
                    arguments, stdin=subprocess.PIPE, stdout=none, stderr=none, start_new_session=True, env=env, cwd="/"
                )
            except OSError as error:
                logger.warning("no guard: processes of upstreams would outlive a gateway that is killed: %s", error)

    def close(self) -> None:
        """Have the watcher end whatever is left, and itself, and wait for that."""
        with self._starting:
            watcher, self._watcher = self._watcher, None
            self._is_closed = True
        if watcher is None:
            return
        _close(watcher)
        limit_s = marked_processes.EXIT_S + marked_processes.TERM_S + marked_processes.KILL_S
        with suppress(subprocess.TimeoutExpired):
            watcher.wait(limit_s + 1)

    async def __aenter__(self) -> Self:
        self._is_closed = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        from agent_utilities.runtime.threads import in_daemon_thread

        await in_daemon_thread(self.close)


def _close(watcher: subprocess.Popen[bytes] | None) -> None:
    if watcher is not None and watcher.stdin is not None:
        with suppress(OSError):
            watcher.stdin.close()


def _paths_elsewhere() -> list[str]:
    """Return where psutil is found, which the watcher needs where there is no /proc."""
    if marked_processes.HAS_PROC:
        return []
    import psutil

    return [os.path.dirname(os.path.dirname(psutil.__file__))]


async def watch_parent(on_gone: Callable[[], None], parent: int | None = None) -> None:
    """Call back once our parent is gone, for a gateway whose host may disappear without closing our stdin.

    Ends then, or when cancelled.

    Args:
        on_gone: called once.
        parent: what `os.getppid()` was when we started: it may be gone before this is called; else asked now.
    """
    parent = os.getppid() if parent is None else parent
    loop = asyncio.get_running_loop()
    with ExitStack() as stack, suppress(AttributeError, OSError):  # where the system has no such descriptors
        descriptor = os.pidfd_open(parent)
        stack.callback(os.close, descriptor)
        if os.getppid() == parent:  # and so it was when the descriptor was opened
            gone = asyncio.Event()
            loop.add_reader(descriptor, gone.set)
            stack.callback(loop.remove_reader, descriptor)
            await gone.wait()
    while os.getppid() == parent:  # noqa: ASYNC110 (there is nothing to wait for)
        await asyncio.sleep(PARENT_CHECK_S)
    on_gone()
