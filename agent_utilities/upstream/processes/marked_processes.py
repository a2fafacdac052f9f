"""The processes that bear a marker in their environment: found, and ended. As a script, the watcher of `ProcessGuard`.

The script runs by `python -I -S`, so that it is small: this file imports nothing but a little of the standard library.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

MARKER = "AGENT_UTILITIES_UPSTREAM"
"""The variable that holds the markers of a process: words, the innermost gateway's last."""
HAS_PROC = sys.platform == "linux"
"""Whether processes are read from /proc, and not by psutil."""
EXIT_S, TERM_S, KILL_S = 0.5, 2.0, 3.0
"""Seconds that processes get to end by themselves, by SIGTERM, and by SIGKILL."""
LATE_S = 0.02
"""Seconds between two looks that both find nothing, before there is taken to be nothing."""


class Entry:
    """One process, as it was when the table was read.

    Args:
        pid: its id.
        started: when it started, in the system's own measure: a later process of this id has another.
        parent: the id of its parent.
        session: the id of its session, 0 where that isn't known.
        markers: the words of `MARKER`.
        is_over: whether it has ended and only waits to be reaped.
    """

    __slots__ = ("is_over", "markers", "parent", "pid", "session", "started")

    def __init__(
        self, pid: int, started: float, parent: int, session: int = 0, markers: str = "", is_over: bool = False
    ) -> None:
        self.pid, self.started, self.parent, self.session = pid, started, parent, session
        self.markers, self.is_over = markers.split(), is_over

    def bears(self, marker: str) -> bool:
        """Whether it bears a marker, or one that begins so."""
        return any(word.startswith(marker) for word in self.markers)


def find(marker: str, session: int = 0) -> list[Entry]:
    """Return the living processes that bear a marker or are in a session, and all that descend from one of them.

    Args:
        marker: the marker, or how it begins.
        session: the id of a session whose leader has not been reaped, so that its id is nobody else's; or 0.
    """
    entries = [entry for entry in table() if not entry.is_over and entry.pid not in (1, os.getpid())]
    ours = {entry.pid for entry in entries if entry.bears(marker) or (session and entry.session == session)}
    n_before = -1
    while len(ours) != n_before:
        n_before = len(ours)
        ours |= {entry.pid for entry in entries if entry.parent in ours}
    return [entry for entry in entries if entry.pid in ours]


def end(find_them: Callable[[], list[Entry]], term_s: float, kill_s: float = KILL_S) -> list[Entry]:
    """End processes by SIGTERM, then by SIGKILL, those too that come while others end; return who lives on.

    Args:
        find_them: returns who lives.
        term_s: seconds that they get to end themselves.
        kill_s: seconds that the kernel gets to end them.
    """
    alive: list[Entry] = []
    seen: dict[int, Entry] = {}

    def look() -> list[Entry]:
        """Find those too that were seen by their parents alone, which have ended since."""
        seen.update((entry.pid, entry) for entry in find_them())
        return [entry for entry in seen.values() if _is_alive(entry)]

    for signal_number, seconds in ((signal.SIGTERM, term_s), (signal.SIGKILL, kill_s)):
        deadline, told = time.monotonic() + seconds, set[int]()
        while alive := look() or _late(look):
            for entry in alive:
                if entry.pid not in told:
                    send(entry, signal_number)
                    told.add(entry.pid)
            if not _wait(alive, deadline):
                break
        if not alive:
            break
    return alive


def _late(look: Callable[[], list[Entry]]) -> list[Entry]:
    """Look again: one that was just being started, or started another program, can't be seen for a moment."""
    time.sleep(LATE_S)
    return look()


def _wait(entries: list[Entry], deadline: float) -> bool:
    """Wait until all of these have ended; False at the deadline."""
    pause_s = 0.005
    while any(_is_alive(entry) for entry in entries):
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.05)
    return True


def send(entry: Entry, signal_number: int) -> None:
    """Send a signal to a process, and never to another that has got its id."""
    with suppress(OSError):
        if not hasattr(os, "pidfd_open"):
            if _is_alive(entry):
                os.kill(entry.pid, signal_number)
            return
        # What is checked while the descriptor is open holds for what is signalled by it.
        descriptor = os.pidfd_open(entry.pid)
        try:
            if _is_alive(entry):
                signal.pidfd_send_signal(descriptor, signal_number)
        finally:
            os.close(descriptor)


def _is_alive(entry: Entry) -> bool:
    now = read(entry.pid)
    return now is not None and now.started == entry.started and not now.is_over


def reap(entries: list[Entry]) -> None:
    """Reap those that have ended and whose parent we are: orphans are ours where we are a container's first process."""
    for entry in entries:
        now = read(entry.pid)
        if now and now.is_over and now.started == entry.started and now.parent == os.getpid():
            with suppress(ChildProcessError):
                os.waitpid(entry.pid, os.WNOHANG)


def table() -> Iterator[Entry]:
    """Yield every process, with the markers of those whose environment we may read."""
    if HAS_PROC:
        for name in os.listdir("/proc"):
            if name.isdigit() and (entry := read(int(name), with_markers=True)) is not None:
                yield entry
    else:
        import psutil

        for process in psutil.process_iter():
            if (entry := _read_elsewhere(process, with_markers=True)) is not None:
                yield entry


def read(pid: int, with_markers: bool = False) -> Entry | None:
    """Return one process, or None where there is none of this id."""
    if not HAS_PROC:
        import psutil

        try:
            return _read_elsewhere(psutil.Process(pid), with_markers)
        except psutil.Error:
            return None
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # the name before may hold anything
    except OSError:
        return None
    markers = _markers(pid) if with_markers else ""
    return Entry(pid, int(fields[19]), int(fields[1]), int(fields[3]), markers, fields[0] in (b"Z", b"X"))


def _markers(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = b"\0" + file.read()
    except OSError:  # another user's, or gone
        return ""
    found = variables.partition(f"\0{MARKER}=".encode())[2]
    return found.partition(b"\0")[0].decode(errors="replace")


def _read_elsewhere(process: object, with_markers: bool) -> Entry | None:
    """Return a process of psutil's."""
    import psutil

    assert isinstance(process, psutil.Process)
    markers = ""
    try:
        with process.oneshot():
            pid, started, parent = process.pid, process.create_time(), process.ppid()
            is_over = process.status() == psutil.STATUS_ZOMBIE
            with suppress(psutil.Error, OSError):
                markers = process.environ().get(MARKER, "") if with_markers else ""
            with suppress(OSError):
                return Entry(pid, started, parent, os.getsid(pid), markers, is_over)
            return Entry(pid, started, parent, 0, markers, is_over)
    except psutil.Error:
        return None


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
    sys.path.extend(sys.argv[2:])
    watch(sys.argv[1])
