"""A scan: the records of a log, its rotated siblings first, and an account of what was read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from types import TracebackType
from typing import NotRequired, Self

from fastmcp.exceptions import ToolError
from typing_extensions import TypedDict

from logs_agent.formats import PARSERS, Format, detect
from logs_agent.naming import siblings
from logs_agent.reading import Budget, Flaws, lines
from logs_agent.records import Record, continues
from logs_agent.roots import Folder, Roots
from logs_agent.timestamps import shown

MAX_FILES = 100
_SAMPLE = 50
_LISTINGS = 2


class Coverage(TypedDict):
    """What a result is based on. `truncated`: not everything was read or shown, `notes` say why."""

    files: list[str]
    formats: list[str]
    records: int
    first_time: str | None
    last_time: str | None
    truncated: bool
    damaged_gzip: NotRequired[list[str]]
    clipped_lines: NotRequired[int]
    notes: NotRequired[list[str]]


@dataclass(frozen=True)
class Window:
    """A half-open span of time, epoch seconds; an end that is `None` is open."""

    since: float | None = None
    until: float | None = None

    def holds(self, record: Record) -> bool:
        """Whether the record was logged within; one without a time is only within the endless window."""
        if self.since is None and self.until is None:
            return True
        if record.time is None:
            return False
        return (self.since is None or record.time >= self.since) and (self.until is None or record.time < self.until)


@dataclass
class _Open:
    fd: int
    shown: str
    written: float


@dataclass
class Scan:
    """The records of a log in the order they were written; `with` opens and closes its files."""

    roots: Roots
    path: str
    format: Format | None = None
    include_rotated: bool = False
    window: Window = Window()
    budget: Budget = field(default_factory=Budget.from_env)
    flaws: Flaws = field(default_factory=Flaws)
    notes: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self._formats: list[str] = []
        self._n_records, self._n_untimed = 0, 0
        self._first: float | None = None
        self._last: float | None = None
        try:
            with self.roots.parent(self.path) as (folder, name):
                self._files = self._open_all(folder, name)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def __iter__(self) -> Iterator[Record]:
        """Yield the records within the window."""
        bounded = self.window != Window()
        for opened in self._files:
            for record in self._records(opened):
                if self.budget.is_late():
                    return
                if not record.continued:
                    self._n_records += 1
                    if record.time is None:
                        self._n_untimed += bounded
                    elif self._first is None or self._last is None:
                        self._first = self._last = record.time
                    else:
                        self._first = min(self._first, record.time)
                        self._last = max(self._last, record.time)
                if self.window.holds(record):
                    yield record

    def coverage(self, truncated: bool = False) -> Coverage:
        """Return the account of what was read so far."""
        notes = list(self.notes)
        if self.budget.spent:
            notes.append(f"reading stopped early: {self.budget.spent}")
        if self._n_untimed:
            notes.append(f"{self._n_untimed} records bear no time and are outside every time window")
        account = Coverage(
            files=[opened.shown for opened in self._files],
            formats=self._formats,
            records=self._n_records,
            first_time=shown(self._first),
            last_time=shown(self._last),
            truncated=truncated or self.budget.spent is not None or bool(self.flaws.damaged_gzip),
        )
        if self.flaws.damaged_gzip:
            account["damaged_gzip"] = self.flaws.damaged_gzip
        if self.flaws.clipped_lines:
            account["clipped_lines"] = self.flaws.clipped_lines
            account["truncated"] = True
        if notes:
            account["notes"] = notes
        return account

    def _open_all(self, folder: Folder, name: str) -> list[_Open]:
        """Open the log, then its siblings from new to old: a rotation meanwhile can't hide lines from us."""
        opened: dict[tuple[int, int], _Open] = {}

        def keep(other: str) -> None:
            fd = folder.open(other)
            status = os.fstat(fd)
            if (status.st_dev, status.st_ino) in opened:
                os.close(fd)
                return
            self._stack.callback(os.close, fd)
            opened[status.st_dev, status.st_ino] = _Open(fd, folder.shows(other), status.st_mtime)

        names = folder.names()
        if not self.include_rotated or name in names or not siblings(name, names):
            keep(name)
        tried: set[str] = set()
        for _ in range(_LISTINGS if self.include_rotated else 0):
            older = siblings(name, folder.names())
            for sibling in reversed(older[-MAX_FILES:]):
                if sibling not in tried:
                    with suppress(ToolError):
                        keep(sibling)
                        tried.add(sibling)
            if left_out := [folder.shows(sibling) for sibling in older if sibling not in tried]:
                self.notes[:] = [f"{len(left_out)} rotated files were not read, {left_out[-1]!r} the newest of them"]
            else:
                self.notes.clear()
        return list(reversed(opened.values()))

    def _records(self, opened: _Open) -> Iterator[Record]:
        source = lines(opened.fd, opened.shown, self.budget, self.flaws)
        sample = list(islice(source, _SAMPLE))
        name = self.format or detect(sample)
        self._formats.append(name)
        record: Record | None = None
        for number, line in enumerate(chain(sample, source), 1):
            if not line or line.isspace():
                continue
            fresh = self._begun(name, line, number, opened.written, record)
            if fresh is None:
                assert record is not None
                if record.has_room:
                    record.join(line)
                    continue
                fresh = Record(number, line, line, record.time, record.level, continued=True)
            if record is not None:
                yield _finished(record)
            fresh.file = opened.shown
            record = fresh
        if record is not None:
            yield _finished(record)

    def _begun(self, name: Format, line: str, number: int, written: float, before: Record | None) -> Record | None:
        """Return the record a line begins, `None` when it belongs to the one before."""
        parsed = PARSERS[name](line, number, written)
        timed = before is not None and before.time is not None
        if parsed is not None and (parsed.time is not None or name != "plain" or not timed):
            return parsed
        if name == "plain" and timed:
            return None
        if continues(line, before):
            return None
        return (None if name == "plain" else PARSERS["plain"](line, number, written)) or Record(number, line, line)


def _finished(record: Record) -> Record:
    if record.level is None and record.has_trace:
        record.level = "ERROR"
    return record
