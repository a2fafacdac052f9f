"""A process with three pipes, whose end is told at once, and which is ended with all that it started."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Self

from agent_utilities.runtime.threads import in_daemon_thread, start_in_daemon_thread
from agent_utilities.upstream.processes.marked_processes import TERM_S, Entry, end, find, reap

STDIN_CLOSED_S = 1.0
"""Seconds that a process gets to end by itself once its stdin is closed."""


class UpstreamProcess:
    """One process that runs, and its tree: what bears its marker, is in its session, or descends from either.

    It is not reaped before its tree has ended, so that its id, which is its session's too, is nobody else's.
    """

    def __init__(self, process: subprocess.Popen[bytes], marker: str) -> None:
        self.pid = process.pid
        self.exited = asyncio.Event()
        """Set at once when the process has exited, whatever lives on of what it started."""
        self.exit_text = ""
        """How it exited, such as `exited with status 3`; empty while it lives."""
        self.exit_status: int | None = None
        """With which status, negative for a signal; None while it lives, and where that is not known."""
        self._process, self._marker = process, marker
        self._on_exit: list[Callable[[], None]] = []
        self._pipes = [pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe]
        self.stdin, self.stdout, self.stderr = (pipe.fileno() for pipe in self._pipes)
        for descriptor in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(descriptor, False)
        self._watch()

    @classmethod
    async def start(
        cls, program: str, arguments: Sequence[str], *, env: Mapping[str, str], folder: Path | None, marker: str
    ) -> Self:
        """Start a program, in a session of its own.

        Args:
            program: the path of what is run.
            arguments: what follows it.
            env: its whole environment, which bears the marker.
            folder: where it runs; None for where we do.
            marker: tells it, and what it starts, from other processes.

        Raises:
            OSError: it can't be run.
            ValueError: an argument or variable holds a zero byte.
        """

        def launch() -> subprocess.Popen[bytes]:
            pipe = subprocess.PIPE
            return subprocess.Popen(
                [program, *arguments],
                bufsize=0,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=env,
                cwd=folder,
                start_new_session=True,
            )

        launched = start_in_daemon_thread(launch)  # on a file system that hangs it may take long
        try:
            process = await asyncio.wrap_future(launched)
        except asyncio.CancelledError:
            launched.add_done_callback(lambda done: _end_unused(done, marker))
            raise
        return cls(process, marker)

    def on_exit(self, call: Callable[[], None]) -> Callable[[], None]:
        """Have something called, once, when the process exits; return what takes that back."""
        self._on_exit.append(call)

        def take_back() -> None:
            with suppress(ValueError):
                self._on_exit.remove(call)

        return take_back

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            descriptor = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            waited = start_in_daemon_thread(self._process.wait)
            waited.add_done_callback(lambda done: loop.call_soon_threadsafe(self._has_exited, done.result()))
            return

        def look() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            self._has_exited(self._status())

        loop.add_reader(descriptor, look)

    def _status(self) -> int | None:
        """Return the exit status, negative for a signal, and leave the process to be reaped; None where it is lost."""
        try:
            ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            return None
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def _has_exited(self, status: int | None) -> None:
        self.exit_text, self.exit_status = exit_text(status), status
        self.exited.set()
        calls, self._on_exit = self._on_exit, []
        for call in calls:
            call()

    async def end(self) -> list[Entry]:
        """Close its stdin, give it a moment, end its whole tree, and reap it; return who lives on."""
        loop = asyncio.get_running_loop()
        for descriptor in (self.stdin, self.stdout):
            loop.remove_reader(descriptor)
            loop.remove_writer(descriptor)
        with suppress(OSError):
            self._pipes[0].close()
        loop.add_reader(self.stdout, self._drain)  # what is blocked in a write can't see that its stdin is closed
        with suppress(TimeoutError):
            await asyncio.wait_for(self.exited.wait(), STDIN_CLOSED_S)
        return await in_daemon_thread(self._end_tree)

    def close(self) -> None:
        """Close our ends of its pipes; where it was not ended it is, in a thread that nobody waits for."""
        loop = asyncio.get_running_loop()
        for pipe in self._pipes:
            if not pipe.closed:
                loop.remove_reader(pipe)
                loop.remove_writer(pipe)
                pipe.close()
        if self._process.returncode is None:
            start_in_daemon_thread(self._end_tree)

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            if not os.read(self.stdout, 65536):
                asyncio.get_running_loop().remove_reader(self.stdout)

    def _end_tree(self) -> list[Entry]:
        return _end_tree(self._process, self._marker)


def _end_tree(process: subprocess.Popen[bytes], marker: str) -> list[Entry]:
    """End what lives of a tree and reap its first process; return who lives on."""
    session = 0 if process.returncode is not None else process.pid
    seen: dict[int, Entry] = {}

    def living() -> list[Entry]:
        found = find(marker, session)
        seen.update((entry.pid, entry) for entry in found)
        return found

    survivors = end(living, TERM_S)
    reap([entry for entry in seen.values() if entry.pid != process.pid])
    if not any(entry.pid == process.pid for entry in survivors):
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
    return survivors


def _end_unused(launched: Future[subprocess.Popen[bytes]], marker: str) -> None:
    """End a process that nobody waits for any more."""
    if launched.exception() is not None:
        return
    process = launched.result()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()
    start_in_daemon_thread(lambda: _end_tree(process, marker))


def exit_text(status: int | None) -> str:
    """Return how a process exited, for a person.

    Args:
        status: its exit status; the negative number of the signal that ended it; None where it is not known.
    """
    if status is None:
        return "exited"
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
