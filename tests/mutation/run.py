"""Break the code room by room, a sample by seed, and see whether a test notices: `python -m tests.mutation.run`.

It works on a copy of the tree. The fast tests run once, to learn which of them run each line; so do those of a room
that start processes and open sockets, once a mutant there is noticed by no fast one. A mutant's own tests are asked,
the quickest first; where none runs its line in this process, the tests of its room. A runner of our own, since mutmut
and cosmic-ray run one command for every mutant and sample neither by seed nor by room.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

from rapidfuzz import fuzz

from tests.mutation.operators import Mutant, mutants

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "agent_utilities"
GOAL = 0.85
ROOMS: Mapping[str, tuple[str, ...]] = {
    "query": ("query",),
    "results": ("results",),
    "programs, approvals": ("programs", "approvals"),
    "usage": ("usage",),
    "access, state": ("access", "state"),
    "gateway": ("gateway", "protocol"),
    "server": ("server", "seam", "compat", "server_factory.py"),
    "selection, policy": ("selection", "policy"),
    "catalog, search": ("catalog", "search"),
    "page, fleet, context": ("page", "fleet", "context"),
    "cli": ("cli",),
    "runtime": ("runtime", ""),
}
"""Folders and files of each room, by which houses of different times can be compared; the blank one is every other."""
TESTS = {"server": ("server", "compat", "laws", "wire"), "runtime": ("runtime", "testing", "architecture")}
"""Folders of a room's tests where they aren't those of the same names."""
_FAILED = re.compile(r"^FAILED (\S.*?)(?: - |$)|^ERROR (\S.*?)(?: - |$)", re.MULTILINE)
_PLUGIN = ("-p", "tests.mutation.covering")
_OUTSIDE = (*_PLUGIN, "--outside")
_TEST_S, _ALONE_S = 60, 180
_RAN = {0, 1, 5}
"""Codes of pytest where tests were run, or there was none to run."""
_CODE = "pytest with code"
TIMEOUT = "no end in time"


def room_of(file: str) -> str:
    """Return the room that a file of the package belongs to."""
    first = Path(file).relative_to(PACKAGE).parts[0]
    return next((room for room, places in ROOMS.items() if first in places), "runtime")


def wilson(n_killed: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a rate.

    Source: Wilson (1927), Probable inference, the law of succession, and statistical inference.
    """
    if not n:
        return 0.0, 1.0
    z, rate = 1.96, n_killed / n
    middle, half = rate + z * z / (2 * n), z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return max(0.0, (middle - half) / (1 + z * z / n)), min(1.0, (middle + half) / (1 + z * z / n))


@dataclass(frozen=True)
class Covered:
    """What was learned of tests.

    Args:
        seconds: how long each took.
        lines: which of them ran each line of a file, lines as text.
    """

    seconds: Mapping[str, float] = field(default_factory=dict)
    lines: Mapping[str, Mapping[str, list[str]]] = field(default_factory=dict)

    def tests(self, mutant: Mutant, within_s: float) -> list[str]:
        """Return the tests that run a mutant's line, the quickest first: as many as there is time for, at least one."""
        lines = self.lines.get(mutant.file, {})
        own = {test for at in (mutant.statement, mutant.line) for test in lines.get(str(at), [])}
        chosen: list[str] = []
        total_s = 0.0
        for test in sorted(own, key=lambda test: (self.seconds.get(test, 0.0), test)):
            total_s += self.seconds.get(test, 0.0)
            if chosen and total_s > within_s:
                break
            chosen.append(test)
        return chosen


class Tree:
    """A copy of the working tree, uncommitted changes included, in an empty folder; in it code may be broken.

    Args:
        folder: the folder.
        budget_s: the most seconds that tests may take for one mutant, a second time as long where its own pass.
    """

    def __init__(self, folder: Path, budget_s: float) -> None:
        self._folder, self._budget_s = folder, budget_s
        self._times = count(1_000_000_000)
        self._unbroken: dict[str, bool] = {}
        self._fast = Covered()
        self._outside: dict[str, Covered] = {}
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)

    def candidates(self) -> list[Mutant]:
        """Return every mutant of the package."""
        files = sorted((self._folder / PACKAGE).rglob("*.py"))
        return [
            mutant
            for file in files
            if "templates" not in file.parts
            for mutant in mutants(str(file.relative_to(self._folder)), file.read_bytes())
        ]

    def learn(self, *tests: str) -> None:
        """Run tests, the fast ones where none is named, and note which of them run each line."""
        self._fast = self._covered("--fast", *tests)

    def _covered(self, *arguments: str) -> Covered:
        found = self._folder / "covering.json"
        self._pytest([*_PLUGIN, *arguments], None, {"COVERING_MAP": str(found)})
        return Covered(**json.loads(found.read_text(encoding="utf-8")))

    def killer(self, mutant: Mutant) -> str | None:
        """Return the test that fails on a mutant, or nothing where none does in time."""
        path = self._folder / mutant.file
        original = path.read_bytes()
        own = self._fast.tests(mutant, self._budget_s / 2)
        try:
            self._write(path, mutant.applied(original))
            # Tests of its own that suddenly never end are ended by the defect, so that a timeout is a kill.
            killer = self._first_failing(own, 3 * self._budget_s, "--fast") if own else None
        finally:
            self._write(path, original)
        return killer or self._killer_outside(mutant, path, original, _OUTSIDE if own else ())

    def _killer_outside(self, mutant: Mutant, path: Path, original: bytes, more: Sequence[str]) -> str | None:
        """Ask the tests that reach outside; one that fails once, or unbroken too, is no kill."""
        room = room_of(mutant.file)
        if room not in self._outside:
            self._outside[room] = self._covered("--outside", *self._rooms_tests(mutant))
        own = self._outside[room].tests(mutant, self._budget_s / 2)
        tests = own or self._rooms_tests(mutant)
        # One of its own that never ends fails after `_TEST_S`.
        until = time.monotonic() + (3 if own else 1) * self._budget_s
        while tests and (left_s := until - time.monotonic()) > 1:
            try:
                self._write(path, mutant.applied(original))
                killer = self._first_failing(tests, left_s, *more)
                fails_again = killer not in (None, TIMEOUT) and self._first_failing([killer], _ALONE_S) is not None
            finally:
                self._write(path, original)
            if killer is None or killer == TIMEOUT:
                return None
            if fails_again and self._passes_unbroken(killer):
                return killer
            more = [*more, f"--deselect={killer}"]
        return None

    def _passes_unbroken(self, test: str) -> bool:
        if test not in self._unbroken:
            self._unbroken[test] = test.startswith(_CODE) or self._first_failing([test], _ALONE_S) is None
        return self._unbroken[test]

    def _rooms_tests(self, mutant: Mutant) -> list[str]:
        """The files of a room's tests, those first whose names are most like the mutant's."""
        room = room_of(mutant.file)
        files = [
            str(file.relative_to(self._folder))
            for folder in TESTS.get(room, ROOMS[room])
            for file in (self._folder / "tests" / folder).rglob("test_*.py")
        ]
        name = mutant.file.removesuffix(".py").replace("_", " ").replace("/", " ")
        return sorted(files, key=lambda file: -fuzz.token_set_ratio(Path(file).stem.replace("_", " "), name))

    def _first_failing(self, tests: list[str], seconds: float, *more: str) -> str | None:
        """Run tests until one fails and return it; `TIMEOUT` where they took too long."""
        listed = self._folder / "asked.txt"
        listed.write_text("\n".join(tests), encoding="utf-8")
        printed = self._pytest(["-x", *more, f"@{listed}"], seconds)
        if printed is None:
            return TIMEOUT
        failed = _FAILED.search(printed)
        return (failed[1] or failed[2]) if failed else None

    def _pytest(self, arguments: list[str], seconds: float | None, more: Mapping[str, str] | None = None) -> str | None:
        # Before what is installed, which is the working tree, for processes that tests start too.
        places = [self._folder, *sorted(self._folder.glob("agents/*"))]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places)), **(more or {})}
        command = [sys.executable, "-m", "pytest", "-n0", f"--timeout={_TEST_S}", "-rfE", "--tb=no", *arguments]
        process = subprocess.Popen(
            command, cwd=self._folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            printed, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            for number in (signal.SIGINT, signal.SIGKILL):
                with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(process.pid, number)
                    process.communicate(timeout=10)
            return None
        if process.returncode in _RAN or _FAILED.search(printed):
            return printed
        # The defect kept pytest itself from running: nothing of the project can be imported, or the process died.
        return f"FAILED {_CODE} {process.returncode}\n{printed}"

    def _write(self, path: Path, source: bytes) -> None:
        path.write_bytes(source)
        # Compiled code is told from that of another mutant by its source's time in seconds, and two may share one.
        time_s = next(self._times)
        os.utime(path, (time_s, time_s))


def sampled(candidates: Sequence[Mutant], n: int, seed: int, rooms: Sequence[str]) -> dict[str, list[Mutant]]:
    """Return as many mutants of each room, the same for the same tree and seed."""
    chosen = {}
    for room in rooms:
        there = [mutant for mutant in candidates if room_of(mutant.file) == room]
        random.Random(f"{seed} {room}").shuffle(there)
        sound = (mutant for mutant in there if mutant.changes((ROOT / mutant.file).read_bytes()))
        chosen[room] = list(islice(sound, n))
    return chosen


def line(name: str, n_killed: int, n: int) -> str:
    """Return one line of the report."""
    low, high = wilson(n_killed, n)
    return f"{name:36}{n_killed:4} of {n:3} killed  {n_killed / max(n, 1):5.0%}  ({low:.0%} to {high:.0%})"


def main(argv: Sequence[str] | None = None) -> int:
    """Try the mutants, print what became of each and each room's rate; return 1 where the whole is under the goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="another number, another sample")
    parser.add_argument("-n", type=int, default=15, help="how many mutants of each room")
    parser.add_argument("--room", action="append", choices=list(ROOMS), help="this room alone; may be repeated")
    parser.add_argument("--seconds", type=float, default=60, help="the most that the tests of a mutant may take, twice")
    asked = parser.parse_args(argv)
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder), asked.seconds)
        chosen = sampled(tree.candidates(), asked.n, asked.seed, asked.room or list(ROOMS))
        tree.learn()
        for room, those in chosen.items():
            n_killed = 0
            for mutant in those:
                killer = tree.killer(mutant)
                n_killed += killer is not None
                print(f"killed    {mutant}  by {killer}" if killer else f"SURVIVED  {mutant}", flush=True)
            rates[room] = n_killed, len(those)
            print(line(room, *rates[room]), flush=True)
    print("\n" + "\n".join(line(room, *rate) for room, rate in rates.items()))
    n_killed, n = (sum(rate[at] for rate in rates.values()) for at in (0, 1))
    print(line("the whole", n_killed, n))
    return 0 if n_killed >= GOAL * n else 1


if __name__ == "__main__":
    sys.exit(main())
