"""Output of commands on a terminal: tables in which names are not broken, lines, progress, small charts."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial, wraps
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agent_utilities.runtime.shown import shown
from agent_utilities.runtime.waiting import run_async

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_GAP = 2
"""Columns of a terminal between two columns of a table."""
_NARROW = 8
"""The least width of every column of text where names are not broken."""
_NUMBER = re.compile(r"([-+]?[\d,.]+( ?%| ms)?( +[-+][\d.]+)?)?")


def in_event_loop(command: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """Return a command that runs an asynchronous one to its end."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        return run_async(partial(command, *args, **options))

    return run


def terminal(*, stderr: bool = False) -> Console:
    """Return the console of a command: it colours markup, and leaves `:name:` as it is."""
    return Console(stderr=stderr, emoji=False, highlight=False)


def plain(text: str) -> str:
    """Escape a text, so that a console without emoji prints it as it is: without markup and control characters."""
    return escape(shown(text, len(text)))


def print_problems(console: Console, problems: Iterable[str], notices: Iterable[str]) -> None:
    """Print what was left out of a config, and what was ignored in it."""
    for problem in problems:
        console.print(f"[red]left out:[/] {plain(problem)}", soft_wrap=True)
    for notice in notices:
        console.print(f"[yellow]note:[/] {plain(notice)}", soft_wrap=True)


def counted(n: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 call`, `2,000 calls`."""
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


class NamesTable:
    """A table that a console prints no wider than it is: words are wrapped, and names are kept whole.

    Where names leave the other columns no room, each has a line of its own, and what is said of it stands below.

    Columns of numbers are flush right.

    Args:
        title: what stands over it, as markup; empty for nothing.
        headings: of its columns. One without a heading is of charts, and left out where they would need others' room.
        n_names: how many columns, the first ones, have names.
    """

    def __init__(self, title: str, *headings: str, n_names: int = 1) -> None:
        self._title, self._headings, self._n_names = title, headings, n_names
        self._rows: list[list[Text]] = []
        self._lines: set[int] = set()

    def add_row(self, *cells: str | Text) -> None:
        """Add a row, of markup or of text that is printed as it is."""
        self._rows.append([Text.from_markup(cell, emoji=False) if isinstance(cell, str) else cell for cell in cells])

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return len(self._rows)

    def add_line(self) -> None:
        """Draw a line below the last row."""
        self._lines.add(len(self._rows) - 1)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the title and the table, as rich asks for them."""
        if self._title:
            yield Text.from_markup(self._title, style="italic", emoji=False)
        columns = [[Text(heading), *cells] for heading, *cells in zip(self._headings, *self._rows, strict=True)]
        if sum(_wanted(column) + _GAP for column in columns) - _GAP > options.max_width:
            columns = [column for column in columns if column[0].plain]
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        room = options.max_width - sum(min(_wanted(column), _NARROW) + _GAP for column in columns[self._n_names :])
        names_fit = sum(_wanted(column) + _GAP for column in columns[: self._n_names]) - _GAP <= room
        if self._n_names and not names_fit:
            heading, *rows = zip(*columns, strict=True)
            yield from (Text("  ", "bold").join(heading), Text("─" * options.max_width))
            for row in rows:
                yield Text("  ", overflow="fold").join(row[: self._n_names])
                yield Padding(Text("  ", overflow="fold").join(filter(None, row[self._n_names :])), (0, 0, 0, 2))
            return
        for place, column in enumerate(columns):
            is_number = all(_NUMBER.fullmatch(cell.plain) for cell in column[1:])
            is_whole = place < self._n_names
            table.add_column(column[0], justify="right" if is_number else "left", overflow="fold", no_wrap=is_whole)
        for i, cells in enumerate(zip(*(column[1:] for column in columns), strict=True)):
            table.add_row(*cells, end_section=i in self._lines)
        yield table


def _wanted(column: Sequence[Text]) -> int:
    return max(cell_len(line.rstrip()) for cell in column for line in cell.plain.split("\n"))


class Steps:
    """Shows on stderr each of a known number of steps as it begins."""

    def __init__(self, total: int) -> None:
        self._total, self._begun = total, 0

    def begin(self, what: str) -> None:
        """Show that the next step begins."""
        self._begun += 1
        print(f"[{self._begun}/{self._total}] {what}", file=sys.stderr, flush=True)


_EIGHTHS = "▏▎▍▌▋▊▉█"
_HEIGHTS = "▁▂▃▄▅▆▇█"
_PLAIN_HEIGHTS = ".:-=+*%#"


def bar(value: int, most: int, width: int, *, in_ascii: bool) -> str:
    """Return a bar, `width` wide for `most`; what is not nothing is at least a sliver."""
    if not value:
        return ""
    if in_ascii:
        return "#" * max(1, round(width * value / most))
    eighths = max(1, round(8 * width * value / most))
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8 - 1] if eighths % 8 else "")


def sparkline(values: Sequence[int], width: int, *, in_ascii: bool) -> str:
    """Return a column for each value, or for the sum of some where they are more than `width`; a blank for nothing."""
    heights = _PLAIN_HEIGHTS if in_ascii else _HEIGHTS
    n_each = max(1, math.ceil(len(values) / max(1, width)))
    sums = [sum(values[start : start + n_each]) for start in range(0, len(values), n_each)]
    most = max(sums, default=0)
    return "".join(heights[math.ceil(len(heights) * value / most) - 1] if value else " " for value in sums)
