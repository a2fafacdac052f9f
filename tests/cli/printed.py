"""Tables as a command prints them, read back."""

from __future__ import annotations

from itertools import takewhile


def table_rows(out: str) -> list[list[str]]:
    """Return the cells of every row of every table; columns are parted by two blanks in each line of a table."""
    rows, lines = [], out.splitlines()
    for i, line in enumerate(lines):
        if line and not line.strip("─"):
            table = [lines[i - 1], *takewhile(str.strip, lines[i + 1 :])]
            rows += _cells([text.ljust(len(line)) for text in table])[1:]
    return rows


def _cells(table: list[str]) -> list[list[str]]:
    blank = [all(text[at] == " " for text in table) for at in range(len(table[0]))]
    starts = [0, *(at for at in range(2, len(blank)) if blank[at - 2] and blank[at - 1] and not blank[at])]
    ends = [*starts[1:], len(blank)]
    return [[text[start:end].strip() for start, end in zip(starts, ends, strict=True)] for text in table]
