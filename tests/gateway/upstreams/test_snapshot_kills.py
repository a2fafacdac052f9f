"""Processes that share a folder of snapshots, killed while they write: a reader finds whole snapshots, always."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from tests.gateway.upstreams.snapshot_writers import GIT, WHOLE

pytestmark = [
    pytest.mark.outside,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="writers are forked"),
]
ROOT = Path(__file__).parents[3]
N_KILLS = 30


@pytest.fixture
def writers(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.gateway.upstreams.snapshot_writers", str(tmp_path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        yield process


def test_two_writers_killed_at_any_moment_leave_whole_snapshots(
    tmp_path: Path, writers: subprocess.Popen[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert writers.stdin is not None
    assert writers.stdout is not None
    chance, seen, killed = random.Random(11), set(), set[int]()
    writers.stdin.write("start\n")
    writers.stdout.readline(), writers.stdout.readline()  # one has saved once
    for _ in range(N_KILLS):
        writers.stdin.write("start\n")
        n_lines = chance.randrange(2, 6)
        while n_lines:
            pid = int(writers.stdout.readline())
            n_lines -= pid not in killed  # what one told before it was killed may be read after
        os.kill(pid, signal.SIGKILL)
        killed.add(pid)
        loaded = SnapshotStore(tmp_path).load(GIT)
        assert loaded in WHOLE.values()
        assert loaded is not None
        seen.add(loaded.digest)
    assert seen == {value.digest for value in WHOLE.values()}
    assert caplog.records == []
