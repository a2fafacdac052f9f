"""A process with three pipes whose whole tree is ended: by the gateway, or by its guard once the gateway is gone."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Self

from agent_utilities.gateway.upstreams.processes import marked_processes
from agent_utilities.gateway.upstreams.processes.marked_processes import MARKER, TERM_S, end, find
from agent_utilities.runtime.waiting import beside, in_daemon_thread, is_set, start_in_daemon_thread

logger = logging.getLogger(__name__)

STDIN_CLOSED_S = 1.0
"""Seconds that a process gets to end by itself once its stdin is closed."""
CLOSED_S = 0.3
"""Seconds that a process which closed a pipe gets to exit, so that its exit status is known."""
MAX_QUEUED_BYTES = 1024 * 1024
"""Bytes queued for a process's stdin above which senders wait."""
FLOOD_BYTES, FLOOD_REST_S = 1024 * 1024, 0.002
"""Bytes of stderr in a second above which each read is followed by a rest of so many seconds."""
PARENT_CHECK_S = 1.0
"""Seconds between two checks of our parent."""
READ_BYTES = 16 * 1024
"""Bytes of a read. Little is read ahead, so that garbage is counted while the process still writes it, and a process
that floods waits for us."""
STDERR_READ_BYTES = 64 * 1024
"""Bytes of a read of stderr, where no answer is waited for: less would slow a process that writes much."""
_PIPE_BYTES = 1024 * 1024
"""The most bytes that a pipe holds: more was not written before its process exited."""


class UpstreamProcess:
    """One process that runs, and its tree: processes with its marker or in its session, and their descendants.

    It is not reaped before its tree has ended, so that its id, which is also its session's, is not reused.
    """

    stdin: asyncio.StreamWriter
    """Its stdin; draining waits while over `MAX_QUEUED_BYTES` are unread."""
    stdout: asyncio.StreamReader
    """Its stdout, which ends when it has exited, even if another process holds the pipe."""

    def __init__(self, process: subprocess.Popen[bytes], marker: str) -> None:
        self.pid = process.pid
        self.exited = asyncio.Event()
        """Set when the process has exited, even if its children live on."""
        self.exit_text = ""
        """How it exited, such as `exited with status 3`; empty while it lives."""
        self.exit_status: int | None = None
        """Its exit status, negative for a signal; None while it lives, and where that is unknown."""
        self._process, self._marker = process, marker
        self._outputs: dict[asyncio.StreamReader, tuple[asyncio.ReadTransport, IO[bytes]]] = {}
        self._watching: asyncio.Task[None] | None = None
        self._taking_stderr: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        program: str,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        folder: Path,
        guard: ProcessGuard,
        on_stderr: Callable[[bytes], None],
    ) -> Self:
        """Start a program in a session of its own.

        Args:
            guard: ends its tree if the gateway is killed.
            on_stderr: takes the output on stderr as it comes, with rests in a flood.

        Raises:
            OSError: it can't be run.
            ValueError: an argument or variable has a zero byte.
        """
        marker = guard.next_marker()
        words = f"{os.environ.get(MARKER, '')} {marker}".strip()

        def launch() -> subprocess.Popen[bytes]:
            guard.start()
            pipe = subprocess.PIPE
            return subprocess.Popen(
                [program, *arguments],
                bufsize=0,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env={**env, MARKER: words},
                cwd=folder,
                start_new_session=True,
            )

        launched = start_in_daemon_thread(launch)  # on a file system that hangs it may take long
        try:
            process = await asyncio.wrap_future(launched)
        except asyncio.CancelledError:
            launched.add_done_callback(lambda done: done.exception() or cls(done.result(), marker).close())
            raise
        started = cls(process, marker)
        try:
            await started._connect(on_stderr)
        except BaseException:
            started.close()
            raise
        return started

    async def _connect(self, on_stderr: Callable[[bytes], None]) -> None:
        loop, process = asyncio.get_running_loop(), self._process
        assert process.stdin
        assert process.stdout
        assert process.stderr
        taken = _for_a_transport(process.stdin)
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), taken
        )
        if taken is not process.stdin:  # uvloop does not notice that the process has closed it
            loop.add_reader(process.stdin, self._close_stdin)
        transport.set_write_buffer_limits(MAX_QUEUED_BYTES)
        self.stdin = asyncio.StreamWriter(transport, protocol, None, loop)
        self.stdout = await self._reader(process.stdout)
        stderr = await self._reader(process.stderr, STDERR_READ_BYTES)
        self._taking_stderr = asyncio.create_task(_take(stderr, on_stderr))
        self._watching = asyncio.create_task(self._watch())

    async def _reader(self, pipe: IO[bytes], n_bytes: int = READ_BYTES) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=n_bytes // 2)
        taken = _for_a_transport(pipe)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), taken
        )
        if hasattr(transport, "max_size"):  # of asyncio's, which would take 256 KiB at once
            transport.max_size = n_bytes
        self._outputs[reader] = transport, taken
        return reader

    def _wait(self) -> int | None:
        """Wait for the exit status, negative for a signal, None where it is lost; leave it to be reaped if possible."""
        if not hasattr(os, "waitid"):
            return self._process.wait()
        with suppress(ChildProcessError):
            if (ended := os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)) is not None:
                return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        return None

    async def _watch(self) -> None:
        self.exit_status = await in_daemon_thread(self._wait)
        self.exit_text = exit_text(self.exit_status)
        self.exited.set()
        for output in self._outputs:
            self.end_reading(output)

    def end_reading(self, output: asyncio.StreamReader) -> None:
        """Have an output end after what is in the pipe: another process may hold it, and write on."""
        transport, pipe = self._outputs[output]
        if transport.is_closing():
            return
        n_bytes = 0
        with suppress(OSError):  # the pipe is empty
            while n_bytes < _PIPE_BYTES and (data := os.read(pipe.fileno(), READ_BYTES)):
                output.feed_data(data)
                n_bytes += len(data)
        transport.close()

    async def take_last_words(self) -> None:
        """Wait for the last output on stderr of a process that has exited, or of one that is quiet for now."""
        if self._taking_stderr is not None:
            await asyncio.wait([self._taking_stderr], timeout=CLOSED_S)

    async def end(self) -> None:
        """Close its stdin, give it a moment, end its whole tree, reap it, and take its last words."""
        self._close_stdin()
        # A process that is blocked in a write can't see that its stdin is closed.
        async with beside(self._discard()):
            await is_set(self.exited, within_s=STDIN_CLOSED_S)
            await in_daemon_thread(self._end_tree)
        await self.take_last_words()

    async def _discard(self) -> None:
        with suppress(OSError):
            while await self.stdout.read(READ_BYTES):
                pass

    def close(self) -> None:
        """Close our ends of its pipes; where it was not ended, end it in a daemon thread."""
        self._close_stdin()
        for task in (self._watching, self._taking_stderr):
            if task is not None:
                task.cancel()
        for transport, _ in self._outputs.values():
            transport.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()
        if self._process.returncode is None:
            start_in_daemon_thread(self._end_tree)

    def _close_stdin(self) -> None:
        if not hasattr(self, "stdin"):
            return
        if not self.stdin.is_closing():
            self.stdin.transport.abort()  # what it has not read is dropped
        if (pipe := self._process.stdin) and not pipe.closed:
            asyncio.get_running_loop().remove_reader(pipe)
            pipe.close()

    def _end_tree(self) -> None:
        session = 0 if self._process.returncode is not None else self.pid
        for survivor in end(partial(find, self._marker, session), TERM_S):
            logger.warning("process %d of %r could not be ended", survivor.pid, self._process.args)
        self._process.poll()


def _for_a_transport(pipe: IO[bytes]) -> IO[bytes]:
    """Return the pipe, or for uvloop a copy, since it closes the descriptor twice, the second time maybe another's."""
    if isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
        return pipe
    return open(os.dup(pipe.fileno()), pipe.mode, 0, closefd=False)


def exit_text(status: int | None) -> str:
    """Return a text on how a process exited, by its status, negative for a signal; None if unknown."""
    if status is None:
        return "exited"
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


async def _take(stderr: asyncio.StreamReader, take: Callable[[bytes], None]) -> None:
    loop = asyncio.get_running_loop()
    n_read = second = 0
    with suppress(OSError):
        while data := await stderr.read(STDERR_READ_BYTES):
            take(data)
            if (now := int(loop.time())) != second:
                n_read, second = 0, now
            n_read += len(data)
            await asyncio.sleep(FLOOD_REST_S if n_read > FLOOD_BYTES else 0)


class ProcessGuard:
    """Ends every process of this gateway once the gateway is gone, even by SIGKILL.

    Its watcher is a process in a session of its own that sees the gateway's end of a pipe close. It starts before the
    first upstream, and ends with the gateway: `async with ProcessGuard() as guard`.
    """

    def __init__(self) -> None:
        self._gateway = f"{secrets.token_hex(8)}."
        self._n_markers = 0
        self._watcher: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._starting = threading.Lock()

    def next_marker(self) -> str:
        """Return the marker of the next process and its tree."""
        self._n_markers += 1
        return f"{self._gateway}{self._n_markers}."

    @property
    def pid(self) -> int | None:
        """The watcher's process id; None where none runs."""
        return self._watcher.pid if self._watcher and self._watcher.poll() is None else None

    def start(self) -> None:
        """Start the watcher, unless it runs or the guard is closed; from any thread."""
        with self._starting:
            if self.pid is not None or self._is_closed:  # a thread may be late
                return
            _close_pipe(self._watcher)  # of a watcher that was killed
            arguments = [sys.executable, "-I", marked_processes.__file__, self._gateway]
            # Without the marker of a gateway that we run behind: that one ends us first, then the watcher acts.
            env = {name: value for name, value in os.environ.items() if name != MARKER}
            none = subprocess.DEVNULL
            try:
                self._watcher = subprocess.Popen(
                    arguments, stdin=subprocess.PIPE, stdout=none, stderr=none, start_new_session=True, env=env, cwd="/"
                )
            except OSError as error:
                logger.warning("no guard: processes of upstreams would outlive a gateway that is killed: %s", error)

    def close(self) -> None:
        """Have the watcher end the remaining processes and itself, and wait for that."""
        with self._starting:
            watcher, self._watcher = self._watcher, None
            self._is_closed = True
        if watcher is None:
            return
        _close_pipe(watcher)
        limit_s = marked_processes.EXIT_S + marked_processes.TERM_S + marked_processes.KILL_S
        with suppress(subprocess.TimeoutExpired):
            watcher.wait(limit_s + 1)

    async def __aenter__(self) -> Self:
        self._is_closed = False
        return self

    async def __aexit__(self, *raised: object) -> None:
        await in_daemon_thread(self.close)


def _close_pipe(watcher: subprocess.Popen[bytes] | None) -> None:
    if watcher is not None and watcher.stdin is not None:
        with suppress(OSError):
            watcher.stdin.close()


async def watch_parent(on_gone: Callable[[], None], parent: int) -> None:
    """Call back once our parent is gone: a host may disappear without closing our stdin.

    Args:
        parent: `os.getppid()` at the start of the program, since it may be gone before this call.
    """
    while os.getppid() == parent:  # noqa: ASYNC110 (there is nothing to wait for)
        await asyncio.sleep(PARENT_CHECK_S)
    on_gone()
