"""Forks processes that save snapshots without end, to be killed; argument: a folder. Each line read starts one more.

A child tells its process id and then a line for each snapshot that it saved.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import cycle
from pathlib import Path

from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from tests.gateway.upstreams.snapshots import config, snapshot, tool

GIT = config()
WHOLE = {
    name: snapshot(GIT, *(tool(f"{name}_{i}", f"{name} {i} " * 40) for i in range(200))) for name in ("old", "new")
}


def save_without_end(folder: Path) -> None:
    """Save one and the other snapshot, until killed."""
    store = SnapshotStore(folder)
    store.load(GIT)
    os.write(1, f"{os.getpid()}\n".encode())
    for value in cycle(WHOLE.values()):
        store.save(value)
        os.write(1, f"{os.getpid()}\n".encode())


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    children = []
    for _ in sys.stdin:
        if not (child := os.fork()):
            save_without_end(Path(sys.argv[1]))
        children.append(child)
    for child in children:
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            continue
