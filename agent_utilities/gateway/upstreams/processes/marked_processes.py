"""Finds and ends processes with a marker in their environment. As a script, the watcher of `ProcessGuard`.

The script imports psutil only once the gateway is gone, to stay small.
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
"""The variable with the markers of a process, separated by spaces, the innermost gateway's last."""
EXIT_S, TERM_S, KILL_S = 0.5, 2.0, 3.0
"""Seconds that processes get to end by themselves, by SIGTERM, and by SIGKILL."""
LATE_S = 0.02
"""Seconds until a search that found no process is repeated."""


def find(marker: str, session: int = 0) -> list[Process]:
    """Return the living processes with a marker or in a session, and all their descendants.

    Args:
        session: a session whose leader has not been reaped, so that its id is not reused; 0 for none.
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
    """End processes by SIGTERM, then by SIGKILL, and new ones that appear meanwhile; return the survivors.

    Our own children among them are reaped: as a container's first process we inherit orphans.
    """
    import psutil

    alive: list[Process] = []
    seen: set[Process] = set()

    def look() -> list[Process]:
        """Keep those that could be found only by parents that have ended since."""
        seen.update(find_them())
        return [process for process in seen if is_alive(process)]

    def look_again() -> list[Process]:
        """Search again: a process is invisible for a moment while it starts, or executes another program."""
        time.sleep(LATE_S)
        return look()

    for signal_number, seconds in ((signal.SIGTERM, term_s), (signal.SIGKILL, kill_s)):
        deadline, signalled = time.monotonic() + seconds, set["Process"]()
        while alive := look() or look_again():
            for process in set(alive) - signalled:
                with suppress(psutil.Error):  # raised also where the id was reused
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
    """Whether a process has not ended, and its id was not reused."""
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
    """Wait until the parent has closed our stdin or is gone, then end every process with a marker."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a signal for the gateway must not end its guard first
    parent = os.getppid()
    while os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], 2.0)
        if readable and not os.read(0, 4096):
            break
    _wait(find(marker), time.monotonic() + EXIT_S)
    end(lambda: find(marker), TERM_S)


if __name__ == "__main__":
    watch(sys.argv[1])
