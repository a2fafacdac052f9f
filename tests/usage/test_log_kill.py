"""kill -9 while eight processes log to one file: the file stays whole, and at most the last second is lost."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import cast

import pytest

from agent_utilities.usage.store import UsageStore
from tests.every import every
from tests.usage.logs import BOUNDS, rows

ROOT = Path(__file__).parents[2]
N_PROCESSES = 8
CALLS_PER_S = 500
LOST_S = 1.0
N_KILLS = [3, pytest.param(20, marks=[pytest.mark.nightly, pytest.mark.timeout(900)])]

pytestmark = [pytest.mark.outside, pytest.mark.timeout(180)]


@dataclass
class Victim:
    """A process that logs.

    Args:
        session: what its calls bear.
        output: the file of what it recorded.
        process: it is killed in the end.
    """

    session: str
    output: Path
    process: subprocess.Popen[bytes]

    def recorded(self) -> list[tuple[int, float, float]]:
        """Return each call's number, when it was recorded, and how late the event loop was."""
        lines = self.output.read_text().splitlines(keepends=True)
        fields = [line.split() for line in lines if line.endswith("\n")]
        return [(int(number), float(at_s), float(late_s)) for number, at_s, late_s in fields]

    def kill(self) -> float:
        """Kill it, and return when."""
        at_s = time.monotonic()
        self.process.kill()
        self.process.wait()
        return at_s

    def lost_s(self, path: Path, until_s: float) -> float:
        """Return how many seconds' calls are not in the file, beside those for which the machine had it wait."""
        written = {turn for (turn,) in rows(path, f"SELECT turn FROM calls WHERE session = '{self.session}'")}
        recorded = self.recorded()
        lost = [at_s for number, at_s, _ in recorded if at_s < until_s and number not in written]
        lateness = [late_s for _, at_s, late_s in recorded if at_s > until_s - 3 * LOST_S]
        starved_s = max([*lateness, until_s - recorded[-1][1] - N_PROCESSES / CALLS_PER_S, 0.0])
        return until_s - min(lost) - 2 * starved_s if lost else 0.0


@contextmanager
def victims(folder: Path) -> Iterator[Callable[[], Victim]]:
    """Start processes that log to one file; all end with this."""
    with ExitStack() as stack:
        n_started = 0

        def start() -> Victim:
            nonlocal n_started
            session, n_started = f"process {n_started}", n_started + 1
            output = folder / f"{session}.txt"
            command = [sys.executable, "-m", "tests.usage.log_victim", str(folder / "usage.db"), session]
            with open(output, "wb") as file:
                process = subprocess.Popen([*command, str(CALLS_PER_S / N_PROCESSES)], cwd=ROOT, stdout=file)
            victim = Victim(session, output, process)
            stack.callback(victim.kill)
            return victim

        yield start


def wait_for(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    give_up_at_s = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < give_up_at_s
        time.sleep(0.02)


def has_logged(victim: Victim, seconds: float) -> bool:
    """Whether a process has logged for some seconds."""
    recorded = victim.recorded()
    return bool(recorded) and recorded[-1][1] - recorded[0][1] > seconds


@pytest.mark.parametrize("n_kills", N_KILLS)
def test_the_file_stays_whole_and_only_the_last_second_is_lost(tmp_path: Path, n_kills: int) -> None:
    path, random, lost_s = tmp_path / "usage.db", Random(n_kills), []
    with victims(tmp_path) as start:
        running = [start() for _ in range(N_PROCESSES)]
        for number in range(n_kills):
            is_last = number == n_kills - 1
            killed = running if is_last else random.sample(running, 1)
            for victim in killed:
                wait_for(partial(has_logged, victim, random.uniform(1.2, 1.6)))
            ended_s = [(victim, victim.kill()) for victim in killed]
            assert rows(path, "PRAGMA integrity_check") == [("ok",)]
            lost_s += [victim.lost_s(path, at_s) for victim, at_s in ended_s]
            running = [each for each in running if each not in killed]
            running += [] if is_last else [start()]
    print(f"{n_kills} kills: at most {max(lost_s):.2f} s lost")
    assert max(lost_s) <= LOST_S


@every(("late_s", "lost_s"), [(0.0, 1.9), (0.25, 1.4)])
def test_calls_that_are_not_in_the_file_are_told_of(tmp_path: Path, late_s: float, lost_s: float) -> None:
    path, output = tmp_path / "usage.db", tmp_path / "recorded.txt"
    output.write_text("".join(f"{number} {number / 10} {late_s}\n" for number in range(20)))
    UsageStore(path, BOUNDS).close()
    victim = Victim("process 0", output, cast("subprocess.Popen[bytes]", None))
    assert victim.lost_s(path, until_s=1.9) == pytest.approx(lost_s)
