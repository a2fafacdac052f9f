"""A tally: records counted by template, within a bound on how many templates are told apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from logs_agent.levels import RANK, Level
from logs_agent.parameters import clip
from logs_agent.records import Record
from logs_agent.templates import template_of_record

MAX_TEMPLATES = 5_000
MAX_SAMPLE_CHARS = 1_000


@dataclass(slots=True)
class Group:
    """Records of one template."""

    template: str
    sample: str
    line: int
    level: Level | None
    count: int = 0
    first: float | None = None
    last: float | None = None

    def add(self, record: Record) -> None:
        """Count a record."""
        self.count += 1
        if RANK[record.level] > RANK[self.level]:
            self.level = record.level
        if record.time is not None:
            self.first = record.time if self.first is None else min(self.first, record.time)
            self.last = record.time if self.last is None else max(self.last, record.time)


@dataclass
class Tally:
    """Counts by template; records of templates past the bound are counted together in `others`."""

    total: int = 0
    others: int = 0
    _groups: dict[str, Group] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Count a record."""
        self.total += 1
        template = template_of_record(record)
        group = self._groups.get(template)
        if group is None:
            if len(self._groups) == MAX_TEMPLATES:
                self.others += 1
                return
            group = Group(template, clip(record.whole, MAX_SAMPLE_CHARS), record.line, record.level)
            self._groups[template] = group
        group.add(record)

    def __iter__(self) -> Iterator[Group]:
        """Yield the groups, most frequent first, then in order of appearance."""
        yield from sorted(self._groups.values(), key=lambda group: -group.count)

    def __len__(self) -> int:
        return len(self._groups)

    def count(self, template: str) -> int:
        """Return how many records had the template."""
        group = self._groups.get(template)
        return group.count if group else 0
