"""Break the code in each way that `mutants.toml` names, and see that the test named beside it fails.

`python -m tests.mutants.run [--only SUBSTRING]` works on a copy of the tree; the working tree is never changed. A test
that passes on its mutant no longer holds what it was written for: strengthen it, or replace the mutant.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FAILED = 1  # pytest's exit code where tests ran and some failed; any other tells of no test that ran
_TIMEOUT_S = 60


@dataclass(frozen=True)
class Mutant:
    """One defect that a test is there for.

    Args:
        what: what goes wrong for users, in a sentence.
        file: the file that bears it, from the root.
        old: the text to replace, which stands in the file once.
        new: what it is replaced by.
        test: node id of the test that fails on it, or the file of several.
    """

    what: str
    file: str
    old: str
    new: str
    test: str

    def __str__(self) -> str:
        return f"{self.file}  {self.what}"


def read_mutants() -> list[Mutant]:
    """Return the mutants in the order of `mutants.toml`."""
    text = Path(__file__).with_name("mutants.toml").read_text(encoding="utf-8")
    return [Mutant(**mutant) for mutant in tomllib.loads(text)["mutant"]]


class Tree:
    """A copy of the working tree, uncommitted changes included, in an empty folder; in it code may be broken."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._times = count(1_000_000_000)
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)

    def _passes(self, test: str) -> bool:
        # Before what is installed, which is the working tree, for processes that tests start too.
        places = [self._folder, *sorted(self._folder.glob("agents/*"))]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "--timeout", str(_TIMEOUT_S), test]
        done = subprocess.run(command, cwd=self._folder, env=environ, capture_output=True, text=True, check=False)
        if done.returncode not in (0, _FAILED):
            raise RuntimeError(f"no test ran: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.returncode == 0

    def survives(self, mutant: Mutant) -> bool:
        """Whether a mutant's test passes on it.

        Raises:
            RuntimeError: no test ran.
        """
        original = (ROOT / mutant.file).read_text(encoding="utf-8")
        try:
            self._write(mutant.file, original.replace(mutant.old, mutant.new))
            return self._passes(mutant.test)
        finally:
            self._write(mutant.file, original)

    def _write(self, name: str, text: str) -> None:
        path = self._folder / name
        path.write_text(text, encoding="utf-8")
        # Compiled code is told from that of another mutant by its source's time in seconds, and two may share one.
        time_s = next(self._times)
        os.utime(path, (time_s, time_s))


def main(argv: Sequence[str] | None = None) -> int:
    """Try the mutants, print what became of each, and return 1 where any survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a text that the file, test or sentence of a mutant must contain")
    only = parser.parse_args(argv).only
    mutants = [mutant for mutant in read_mutants() if only in f"{mutant} {mutant.test}"]
    n_survived = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder))
        for mutant in mutants:
            survived = tree.survives(mutant)
            n_survived += survived
            print("SURVIVED" if survived else "killed  ", mutant, flush=True)
    print(f"{len(mutants) - n_survived} of {len(mutants)} mutants killed")
    return 1 if n_survived else 0


if __name__ == "__main__":
    sys.exit(main())
