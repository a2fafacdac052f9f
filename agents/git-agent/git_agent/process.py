"""One child process: bounded in time and in what it may say."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from anyio import from_thread

GRACE_S = 2.0
MAX_ERROR_BYTES = 64 * 1024


@dataclass(frozen=True)
class Finished:
    """What a child process left behind."""

    code: int
    out: bytes
    err: bytes
    truncated: bool
    """Whether it had more to say on stdout than was kept."""


class _Intake(threading.Thread):
    """Reads a pipe to its end, keeps at most `max_bytes` of it."""

    def __init__(self, pipe: IO[bytes], max_bytes: int) -> None:
        super().__init__(daemon=True)
        self.data = bytearray()
        self.full = threading.Event()
        self._pipe = pipe
        self._max_bytes = max_bytes

    def run(self) -> None:
        try:
            while chunk := os.read(self._pipe.fileno(), 65536):
                room = self._max_bytes - len(self.data)
                self.data += chunk[:room]
                if len(chunk) > room:
                    self.full.set()
        except (OSError, ValueError):
            return  # the pipe was closed under a process that outlived its group


def run_bounded(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    max_bytes: int,
    stdin: bytes = b"",
    stop_when_full: bool = False,
    ends_with_caller: bool = False,
) -> Finished:
    """Run `argv`, wait for its end and return what it wrote.

    The child leads a session of its own, so that what it started ends with it. It never sees the
    server's stdin, which carries the protocol.

    Args:
        argv: program and arguments; no shell reads them.
        cwd: its working folder.
        env: its whole environment.
        timeout_s: seconds until it is asked to stop, then killed.
        max_bytes: how much of stdout is kept.
        stdin: what it may read.
        stop_when_full: end it once stdout is full; only for commands that change nothing.
        ends_with_caller: end it when the caller of the tool has left; not for commands that change a working tree.

    Raises:
        TimeoutError: the time was up.
        BaseException: the event loop's own for a cancelled task, where the caller has left.
        OSError: the program could not be started.
    """
    deadline_s = time.monotonic() + timeout_s
    with tempfile.TemporaryFile() as source, _started(argv, cwd, env, _filled(source, stdin)) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        out, err = _Intake(child.stdout, max_bytes), _Intake(child.stderr, MAX_ERROR_BYTES)
        out.start()
        err.start()
        try:
            _drain(child, (out, err), deadline_s, stop_when_full, ends_with_caller)
            code = child.wait(max(0.01, deadline_s - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired):
            raise TimeoutError from None
        finally:
            if out.is_alive() or err.is_alive() or child.poll() is None:
                _stop(child)
                out.join(GRACE_S)
                err.join(GRACE_S)
    return Finished(code, bytes(out.data), bytes(err.data), out.full.is_set())


def _started(argv: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        cwd=cwd,
        env=dict(env),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _drain(
    child: subprocess.Popen[bytes],
    intakes: tuple[_Intake, _Intake],
    deadline_s: float,
    stop_when_full: bool,
    ends_with_caller: bool,
) -> None:
    """Wait until the child has closed both pipes; end it before that once stdout is full, where that is asked.

    Raises:
        TimeoutError: the monotonic clock passed `deadline_s`.
        BaseException: the caller has left, where the child ends with it.
    """
    out, err = intakes
    while out.is_alive() or err.is_alive():
        if stop_when_full and out.full.is_set():
            _stop(child)
        if time.monotonic() > deadline_s:
            raise TimeoutError
        if ends_with_caller:
            with suppress(RuntimeError):  # no server runs the tool
                from_thread.check_cancelled()
        (out if out.is_alive() else err).join(0.05 if stop_when_full or ends_with_caller else 0.5)


def _filled(file: IO[bytes], data: bytes) -> IO[bytes]:
    file.write(data)
    file.seek(0)
    return file


def _stop(child: subprocess.Popen[bytes]) -> None:
    """End the child's whole group: asked first, so that git removes its lock files."""
    _signal(child, signal.SIGTERM)
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        pass
    _signal(child, signal.SIGKILL)
    child.wait()


def _signal(child: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(child.pid, number)
    except (ProcessLookupError, PermissionError):
        pass
