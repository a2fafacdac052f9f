"""Run a benchmark here and in another checkout, in turns, and hold each figure of its tables beside the other's.

```
git worktree add ../before 0b23e9ca && (cd ../before && python3 -c "import tasks; tasks.set_up(); tasks.add_model()")
python benchmarks/beside.py ../before resolution.py --quick     # any script of this folder, with its own options
```

Each checkout runs its own script in its own environment. A figure is one number of a cell; it is known by its table,
its column, its row's cells without numbers, and its place in the cell; intervals and counts of rounds are left out. Of
each, the median of the runs is shown; figures that only one side prints are counted at the end.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?")
_INTERVAL = re.compile(r"\[.*?\]")

Figure = tuple[str, str, str, int]
"""Table, row, column, place in the cell."""


def figures(printed: str) -> Iterator[tuple[Figure, float]]:
    """Read the numbers of the tables that a benchmark prints."""
    title, before = "", ""
    columns: list[str] = []
    open_header = False
    for line in printed.splitlines():
        if line.startswith("┏"):
            title, columns, open_header = before, [], True
        elif line.startswith("┃") and open_header:
            cells = [cell.strip() for cell in line.strip("┃").split("┃")]
            columns = [" ".join((a, b)).strip() for a, b in zip(columns or [""] * len(cells), cells, strict=True)]
        elif line.startswith("┡"):
            open_header = False
        elif line.startswith("│") and columns:
            cells = [cell.strip() for cell in line.strip("│").split("│")]
            row = " ".join([cells[0], *(cell for cell in cells[1:] if cell and not _NUMBER.search(cell))])
            for column, cell in zip(columns[1:], cells[1:], strict=False):
                if column == "rounds":
                    continue
                for place, number in enumerate(_NUMBER.findall(_INTERVAL.sub("", cell))):
                    yield (title, row, column, place), float(number.replace(",", ""))
        before = line.strip() or before


def run(root: Path, script: str, options: list[str]) -> str:
    """Return what a checkout's benchmark prints; it may miss its goals.

    Raises:
        SystemExit: the script didn't run.
    """
    python = root / ".venv" / "bin" / "python"
    done = subprocess.run(
        [str(python), f"benchmarks/{script}", *options], cwd=root, capture_output=True, text=True, check=False,
        env={**os.environ, "COLUMNS": "240", "TERM": "dumb"},
    )  # fmt: skip
    if "┏" not in done.stdout:
        sys.exit(f"{root}: {script} printed no table (code {done.returncode}): {done.stderr[-2000:]}")
    return done.stdout


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Hold a benchmark's figures beside those of another checkout.")
    parser.add_argument("before", type=Path, help="the other checkout, set up by its own tasks.py")
    parser.add_argument("script", help="a script of this folder; what follows are its own options")
    parser.add_argument("--runs", type=int, default=3, help="of each side (3)")
    given, options = parser.parse_known_args()
    sides: dict[Path, dict[Figure, list[float]]] = {given.before.resolve(): {}, ROOT: {}}
    for i in range(given.runs):
        for root, found in (list(sides.items()), list(reversed(sides.items())))[i % 2]:
            for figure, value in figures(run(root, given.script, options)):
                found.setdefault(figure, []).append(value)
    before, now = sides.values()
    table = Table(title=f"{given.script} {' '.join(options)}, median of {given.runs} runs", title_justify="left")
    for heading in ("table", "row", "column", "before", "now", "now ÷ before"):
        table.add_column(heading, justify="left" if heading in {"table", "row", "column"} else "right")
    for figure in [figure for figure in now if figure in before]:
        a, b = median(before[figure]), median(now[figure])
        table.add_row(*figure[:3], f"{a:g}", f"{b:g}", f"{b / a:.2f}" if a > 0 else "")
    console = Console(width=240, highlight=False)
    console.print(table)
    console.print(f"only before: {len(before.keys() - now.keys())}; only now: {len(now.keys() - before.keys())}")


if __name__ == "__main__":
    main()
