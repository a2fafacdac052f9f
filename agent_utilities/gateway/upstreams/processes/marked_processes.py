"""The processes that bear a marker in their environment: found, and ended. As a script, the watcher of `ProcessGuard`.

The script imports psutil only once the gateway is gone, so that it is small.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from psutil import Process

MARKER = "AGENT_UTILITIES_UPSTREAM"
"""The variable that holds the markers of a process: words, the innermost gateway's last."""
EXIT_S, TERM_S, KILL_S = 0.5, 2.0, 3.0
"""Seconds that processes get to end by themselves, by SIGTERM, and by SIGKILL."""
LATE_S = 0.02
"""Seconds between two looks that both find nothing, before there is taken to be nothing."""


def find(marker: str, session: int = 0) -> list[Process]:
    """Return the living processes that bear a marker or are in a session, and all that descend from one of them.

    The session's leader has not been reaped, so that its id is nobody else's; 0 is none.
    """
    import psutil

    parents: dict[Process, int] = {}
    ours: set[int] = set()
    for pid in psutil.pids():
        with suppress(psutil.Error, OSError):
            if pid in (1, os.getpid()):
                continue
            process = psutil.Process(pid)
            parents[process] = process.ppid()
            if _bears(process, marker) or (session and os.getsid(pid) == session):
                ours.add(pid)
    n_before = -1
    while len(ours) != n_before:
        n_before = len(ours)
        ours |= {process.pid for process, parent in parents.items() if parent in ours}
    return [process for process in parents if process.pid in ours and is_alive(process)]


def end(find_them: Callable[[], list[Process]], term_s: float, kill_s: float = KILL_S) -> list[Process]:
    """End processes by SIGTERM, then by SIGKILL, those too that come while others end; return who lives on.

    Those whose parent we are are reaped: orphans are ours where we are a container's first process.
    """
    import psutil

    alive: list[Process] = []
    seen: set[Process] = set()

    def look() -> list[Process]:
        """Find those too that were seen by their parents alone, which have ended since."""
        seen.update(find_them())
        return [process for process in seen if is_alive(process)]

    def look_again() -> list[Process]:
        """One that was just being started, or started another program, can't be seen for a moment."""
        time.sleep(LATE_S)
        return look()

    for signal_number, seconds in ((signal.SIGTERM, term_s), (signal.SIGKILL, kill_s)):
        deadline, signalled = time.monotonic() + seconds, set["Process"]()
        while alive := look() or look_again():
            for process in set(alive) - signalled:
                with suppress(psutil.Error):  # which it raises, too, where another process has got the id
                    process.send_signal(signal_number)
                signalled.add(process)
            if not _wait(alive, deadline):
                break
        if not alive:
            break
    for process in seen.difference(alive):
        with suppress(psutil.Error, ChildProcessError):
            if process.ppid() == os.getpid():
                os.waitpid(process.pid, os.WNOHANG)
    return alive


def is_alive(process: Process) -> bool:
    """Whether a process lives: it has not ended, and its id is not another's now."""
    import psutil

    try:
        return process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


def _bears(process: Process, marker: str) -> bool:
    import psutil

    try:
        words = process.environ().get(MARKER, "").split()
    except (psutil.Error, OSError):  # another user's, or gone
        return False
    return any(word.startswith(marker) for word in words)


def _wait(processes: list[Process], deadline: float) -> bool:
    pause_s = 0.005
    while any(map(is_alive, processes)):
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.05)
    return True


def watch(marker: str) -> None:
    """Wait until the parent has closed our stdin or is gone, then end every process that bears a marker."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # what ends the gateway must not end its guard before
    parent = os.getppid()
    while os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], 2.0)
        if readable and not os.read(0, 4096):
            break
    _wait(find(marker), time.monotonic() + EXIT_S)
    end(lambda: find(marker), TERM_S)


if __name__ == "__main__":
    watch(sys.argv[1])
