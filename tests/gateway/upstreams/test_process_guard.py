"""Nothing of a gateway's outlives it, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from agent_utilities.gateway.upstreams.processes import marked_processes
from agent_utilities.gateway.upstreams.processes.marked_processes import MARKER
from agent_utilities.gateway.upstreams.processes.process import ProcessGuard
from tests.gateway.upstreams.processes import PATIENCE_S, is_alive, wait_until_gone

pytestmark = pytest.mark.outside

GATEWAY = Path(__file__).parent / "guarded_gateway.py"
OUTER = f"outer-{os.getpid()}."
"""How the marker begins of whatever a test starts, as if its gateway ran behind another."""


@contextmanager
def gateway(*upstreams: str, under: tuple[str, ...] = ()) -> Iterator[tuple[subprocess.Popen[str], dict[str, int]]]:
    """Give a gateway whose upstreams are up, and what it has told; it is killed in the end, with all of it."""
    command = [*under, sys.executable, str(GATEWAY), *upstreams]
    env = {**os.environ, MARKER: f"{OUTER}1."}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, start_new_session=True, env=env
    )
    try:
        assert process.stdout
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        marked_processes.end(lambda: marked_processes.find(OUTER), 0)  # or what holds its stdout would be waited for
        process.communicate()


def memory_kib(pid: int, field: str) -> int:
    """Return a line of a process's memory, such as what it has for itself alone."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(field))


class TestAGatewayThatEnds:
    def test_by_sigkill_leaves_no_process_and_its_guard_is_there_till_then(self, tmp_path: Path):
        pids = tmp_path / "pids"
        upstreams = (f"pids={pids}", f"wrapper+lingers+pids={pids}", f"detached-child+ignores-eof+pids={pids}")
        # The marker of a gateway in front is passed on, so that the guard of each finds what the inner one started.
        with gateway(*upstreams) as (process, told):
            servers, guard = [*map(int, pids.read_text().split())], told["guard"]
            assert len(servers) == 5
            assert {found.pid for found in marked_processes.find(OUTER)} == {*servers, process.pid, guard}
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(guard, number)
            assert os.getsid(guard) != os.getsid(process.pid)
            assert all(map(is_alive, (*servers, guard)))
            process.kill()
            for pid in (*servers, guard):
                wait_until_gone(pid)

    def test_by_ctrl_c_to_its_group_leaves_none(self, tmp_path: Path):
        pids = tmp_path / "pids"
        with gateway(f"ignores-eof+pids={pids}") as (process, told):
            os.killpg(process.pid, signal.SIGINT)
            for pid in [*map(int, pids.read_text().split()), told["guard"]]:
                wait_until_gone(pid)


class TestAGuard:
    def test_is_one_process_that_takes_little_memory(self):
        guard = ProcessGuard()
        guard.start()
        pid = guard.pid
        guard.start()
        assert pid
        assert guard.pid == pid
        assert memory_kib(pid, "Pss:") < 12_000
        guard.close()
        assert not is_alive(pid)

    def test_is_started_again_where_it_was_ended(self):
        guard = ProcessGuard()
        guard.start()
        first = guard.pid
        assert first
        os.kill(first, signal.SIGKILL)
        wait_until_gone(first)
        guard.start()
        assert guard.pid not in (None, first)
        guard.close()

    def test_gives_markers_of_which_none_begins_another(self):
        guard, other = ProcessGuard(), ProcessGuard()
        markers = [each.next_marker() for _ in range(12) for each in (guard, other)]
        assert [sum(each.startswith(marker) for each in markers) for marker in markers] == [1] * len(markers)

    def test_whose_start_comes_after_its_end_starts_nothing(self):
        guard = ProcessGuard()
        guard.close()
        guard.start()
        assert guard.pid is None


class TestProcesses:
    """What is found, and what is signalled."""

    @contextmanager
    def sleeper(self, marker: str) -> Iterator[psutil.Process]:
        process = subprocess.Popen(["sleep", "3600"], env={"PATH": os.environ["PATH"], MARKER: marker})
        try:
            # While a program is being loaded its environment can't be read.
            deadline = time.monotonic() + PATIENCE_S
            while not marked_processes.find(marker.split()[0]):
                assert time.monotonic() < deadline
            yield psutil.Process(process.pid)
        finally:
            process.kill()
            process.wait()

    def test_one_is_found_by_its_marker_or_how_that_begins(self):
        with self.sleeper("outer.3. mine.12.") as process:
            for marker in ("outer.3.", "mine.", "mine.12."):
                assert [found.pid for found in marked_processes.find(marker)] == [process.pid]

    def test_another_whose_marker_begins_alike_is_not_found(self):
        with self.sleeper("mine.12."):
            assert marked_processes.find("mine.1.") == []

    def test_one_that_has_got_an_id_of_ours_later_is_not_signalled(self):
        with self.sleeper("mine.1.") as now:
            earlier = psutil.Process(now.pid)
            earlier._ident = (now.pid, now.create_time() - 1)  # as if it had been seen before its id was another's
            assert marked_processes.end(lambda: [earlier], term_s=0) == []
            assert marked_processes.is_alive(now)

    def test_one_without_a_marker_is_ended_though_it_outlives_its_parent(self):
        deaf = "trap : TERM; echo $$; while :; do sleep 0.1; done"
        parent = subprocess.Popen(
            ["/bin/sh", "-c", 'env -i /bin/sh -c "$1" & wait', "sh", deaf],
            env={"PATH": os.environ["PATH"], MARKER: "mine.1."},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert parent.stdout
        child = int(parent.stdout.readline())
        try:
            assert marked_processes.end(lambda: marked_processes.find("mine."), term_s=0.2) == []
            assert not is_alive(child)
        finally:
            for pid in (parent.pid, child):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            parent.communicate()


class TestAParentThatIsGone:
    def test_is_told_though_stdin_stays_open(self):
        with gateway("watch-parent", under=("/bin/sh", "-c", '"$@"; true', "sh")) as (parent, told):
            assert told["pid"] != parent.pid
            os.kill(parent.pid, signal.SIGKILL)
            assert parent.stdout
            assert parent.stdout.readline() == "gone\n"
            wait_until_gone(told["pid"])
