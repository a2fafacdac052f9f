"""What a long command is doing and how far it is, on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Steps:
    """Tells of each of a known number of steps as it begins; `with` clears the bar.

    Args:
        total: how many steps there are.
    """

    def __init__(self, total: int) -> None:
        self._total, self._begun = total, 0
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        console = Console(stderr=True)
        self._bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        self._task = self._bar.add_task("", total=total)
        self._is_terminal = console.is_terminal

    def __enter__(self) -> Self:
        if self._is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_terminal:
            self._bar.stop()

    @contextmanager
    def cleared(self) -> Iterator[None]:
        """Keep the bar off the screen while something is printed."""
        self.__exit__(None, None, None)
        yield
        self.__enter__()

    def begin(self, what: str) -> None:
        """Tell that the next step begins."""
        if self._is_terminal:
            self._bar.update(self._task, description=what, completed=self._begun)
        self._begun += 1
        if not self._is_terminal:
            print(f"[{self._begun}/{self._total}] {what}", file=sys.stderr, flush=True)
