"""What commands show on a terminal beside tables: lines, how far they are, and small charts."""

from __future__ import annotations

import math
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial, wraps
from typing import Annotated, Any

import typer
from rich.console import Console

from agent_utilities.mcp.command_line.tables import plain

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def in_event_loop(command: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """Return a command that runs an asynchronous one to its end."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        import anyio

        return anyio.run(partial(command, *args, **options))

    return run


def terminal(*, stderr: bool = False) -> Console:
    """Return the console of a command: it colours what it is told to, and turns no `:name:` into a picture."""
    return Console(stderr=stderr, emoji=False, highlight=False)


def print_problems(console: Console, problems: Iterable[str], notices: Iterable[str]) -> None:
    """Print what was left out of a config, and what was passed over in it."""
    for problem in problems:
        console.print(f"[red]left out:[/] {plain(problem)}", soft_wrap=True)
    for notice in notices:
        console.print(f"[yellow]note:[/] {plain(notice)}", soft_wrap=True)


def counted(n: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 call`, `2,000 calls`."""
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


class Steps:
    """Tells on stderr of each of a known number of steps as it begins."""

    def __init__(self, total: int) -> None:
        self._total, self._begun = total, 0

    def begin(self, what: str) -> None:
        """Tell that the next step begins."""
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
