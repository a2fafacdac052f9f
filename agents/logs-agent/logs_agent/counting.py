"""`count_by_level` and `log_histogram`: how many records, by level and over time."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from logs_agent.levels import UNKNOWN, most_severe_first
from logs_agent.parameters import (
    LogFormat,
    LogPath,
    MinLevel,
    Rotated,
    Since,
    Until,
    format_asked,
    window_asked,
)
from logs_agent.roots import Roots
from logs_agent.scan import Coverage, Scan
from logs_agent.timestamps import shown, span_s

MAX_BUCKETS = 500
_AUTO_BUCKETS = 60
_WIDTHS_S = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800)


class LevelCounts(TypedDict):
    """Records per level; UNKNOWN are those that name none."""

    total: int
    counts: dict[str, int]
    read: Coverage


class Bucket(TypedDict):
    """Records from `start` on, for the length of a bucket."""

    start: str | None
    total: int
    levels: dict[str, int]


class Histogram(TypedDict):
    """Buckets that hold any record, in order of time."""

    bucket_s: int
    buckets: list[Bucket]
    untimed: int
    read: Coverage


def count_by_level(
    path: LogPath,
    since: Since = None,
    until: Until = None,
    include_rotated: Rotated = False,
    format: LogFormat = "auto",
) -> LevelCounts:
    """Count log records by level (errors, warnings, info ...); an access log's 5xx are ERROR, 4xx WARNING."""
    counts: Counter[str] = Counter()
    with Scan(Roots.from_env(), path, format_asked(format), include_rotated, window_asked(since, until)) as scan:
        for record in scan:
            if not record.continued:
                counts[record.level or UNKNOWN] += 1
        return LevelCounts(total=counts.total(), counts=most_severe_first(counts), read=scan.coverage())


def log_histogram(
    path: LogPath,
    bucket: Annotated[
        str | None,
        Field(description="Bucket length like 30s, 5m, 1h, 1d; default fits the span.", max_length=20),
    ] = None,
    min_level: MinLevel = None,
    since: Since = None,
    until: Until = None,
    include_rotated: Rotated = False,
    format: LogFormat = "auto",
) -> Histogram:
    """Show log volume over time: records per time bucket and level, to spot spikes of errors."""
    asked_s = span_s(bucket, "bucket") if bucket else None
    counted = _Buckets(asked_s or _WIDTHS_S[0], MAX_BUCKETS if asked_s else _AUTO_BUCKETS)
    untimed = 0
    with Scan(Roots.from_env(), path, format_asked(format), include_rotated, window_asked(since, until)) as scan:
        for record in scan:
            if record.continued or not record.at_least(min_level):
                continue
            if record.time is None:
                untimed += 1
            else:
                counted.add(record.time, record.level or UNKNOWN)
        if asked_s and counted.width_s != asked_s:
            scan.notes.append(f"buckets were widened from {asked_s} s: there would be more than {MAX_BUCKETS}")
        return Histogram(bucket_s=counted.width_s, buckets=counted.listed(), untimed=untimed, read=scan.coverage())


class _Buckets:
    """Counts per bucket and level; buckets widen when there would be more than `most`."""

    def __init__(self, width_s: int, most: int) -> None:
        self.width_s, self._most = width_s, most
        self._counts: dict[int, Counter[str]] = {}

    def add(self, moment: float, level: str) -> None:
        """Count one record."""
        start = int(moment // self.width_s) * self.width_s
        self._counts.setdefault(start, Counter())[level] += 1
        while len(self._counts) > self._most:
            self._widen()

    def listed(self) -> list[Bucket]:
        """Return the buckets in order of time."""
        return [
            Bucket(start=shown(start), total=counts.total(), levels=most_severe_first(counts))
            for start, counts in sorted(self._counts.items())
        ]

    def _widen(self) -> None:
        wider = _WIDTHS_S[_WIDTHS_S.index(self.width_s) + 1 :] if self.width_s in _WIDTHS_S else ()
        self.width_s = wider[0] if wider else self.width_s * 2
        merged: dict[int, Counter[str]] = {}
        for start, counts in self._counts.items():
            merged.setdefault(start // self.width_s * self.width_s, Counter()).update(counts)
        self._counts = merged
