"""A record: one thing a program logged, with the lines of its stack trace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from logs_agent.levels import RANK, Level

MAX_RECORD_LINES = 500
MAX_RECORD_CHARS = 65_536

_TRACE = re.compile(
    r"Traceback \(most recent call last\)|^\s+at [\w$.<]|^\s*File \".*\", line \d+|^Caused by: "
    r"|^goroutine \d+ \[|^\s*\.\.\. \d+ more",
)
_RAISED = re.compile(r"^(?:Caused by: )?[A-Za-z_][\w.$]*(?:Error|Exception|Interrupt|Exit|Failure|Warning)\b")
_CONTINUES = re.compile(
    r"\s|Traceback \(most recent call last\)|Caused by: |During handling of the above exception"
    r"|The above exception was the direct cause|\.\.\. \d+ more|goroutine \d+ \[|\+ Exception Group"
)


@dataclass(slots=True)
class Record:
    """One record of a log; `more` holds the lines joined to its first."""

    line: int
    text: str
    message: str
    time: float | None = None
    level: Level | None = None
    fields: Mapping[str, Any] | None = None
    file: str = ""
    more: list[str] = field(default_factory=list)
    size: int = 0
    traced: bool = False
    """Whether one of the joined lines is of a stack trace."""
    continued: bool = False
    """True for the rest of a record that outgrew `MAX_RECORD_LINES`; it isn't counted again."""

    @property
    def whole(self) -> str:
        """All lines of the record."""
        return "\n".join([self.text, *self.more]) if self.more else self.text

    @property
    def has_room(self) -> bool:
        """Whether another line may be joined."""
        return len(self.more) < MAX_RECORD_LINES and self.size < MAX_RECORD_CHARS

    def join(self, line: str) -> None:
        """Add a line to the record."""
        self.more.append(line)
        self.size += len(line)
        self.traced = self.traced or bool(_TRACE.search(line))

    @property
    def has_trace(self) -> bool:
        """Whether a stack trace is among its lines."""
        return self.traced or "Traceback (" in self.text

    @property
    def raised(self) -> str | None:
        """The line of its stack trace naming the exception: a Python trace's last, any other's first."""
        found = [line for line in self.more if _RAISED.match(line)]
        if not found:
            return None
        python = "Traceback (" in self.text or any(line.startswith("Traceback (") for line in self.more)
        return found[-1] if python else found[0]

    def at_least(self, level: str | None) -> bool:
        """Whether it is at `level` or more severe; a record of unknown level is below all."""
        return level is None or RANK[self.level] >= RANK[level]


def continues(line: str, before: Record | None) -> bool:
    """Whether a line that begins no record by its looks belongs to the record before it."""
    if before is None:
        return False
    if _CONTINUES.match(line):
        return True
    return bool(_RAISED.match(line)) and (before.has_trace or before.at_least("ERROR"))


def of_a_trace(line: str) -> bool:
    """Whether a line looks like one of a stack trace, or is indented."""
    return bool(_CONTINUES.match(line) or _RAISED.match(line))
