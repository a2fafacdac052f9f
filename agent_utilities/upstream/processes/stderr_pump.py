"""A process's stderr, read as it comes and given to a log."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from agent_utilities.upstream.processes.process import UpstreamProcess

FLOOD_BYTES, FLOOD_REST_S = 1024 * 1024, 0.002
"""Bytes in a second, after which each read is followed by a rest, so that a flood holds up no one."""
_READ_BYTES = 64 * 1024


class StderrPump:
    """Gives what a process writes to its stderr to a log, at a pace that holds up no one."""

    def __init__(self, process: UpstreamProcess, take: Callable[[bytes], None]) -> None:
        self._descriptor, self._take = process.stderr, take
        self._loop = asyncio.get_running_loop()
        self._n_read, self._second = 0, 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False
        self._loop.add_reader(self._descriptor, self._read)

    def _read(self) -> None:
        if not self._read_once():
            self._loop.remove_reader(self._descriptor)
            return
        if (second := int(self._loop.time())) != self._second:
            self._n_read, self._second = 0, second
        if self._n_read > FLOOD_BYTES:
            self._loop.remove_reader(self._descriptor)
            self._timer = self._loop.call_later(FLOOD_REST_S, self._go_on)

    def _go_on(self) -> None:
        self._timer = None
        self._loop.add_reader(self._descriptor, self._read)

    def _read_once(self) -> bool:
        """Read what is there, one buffer at most; False where nothing more comes."""
        if self._is_over:
            return False
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        self._take(data) if data else None
        self._n_read += len(data)
        self._is_over = not data
        return bool(data)

    def catch_up(self) -> None:
        """Read what is there now: the last words of a process that has exited."""
        for _ in range(FLOOD_BYTES // _READ_BYTES):
            n_before = self._n_read
            if not self._read_once() or self._n_read == n_before:
                return

    def close(self) -> None:
        """Read no more."""
        self._is_over = True
        if self._timer:
            self._timer.cancel()
        self._loop.remove_reader(self._descriptor)
