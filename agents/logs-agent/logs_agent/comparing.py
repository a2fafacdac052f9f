"""`compare_windows`: what changed from one span of time to another."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from fastmcp.exceptions import ToolError
from pydantic import Field
from typing_extensions import TypedDict

from logs_agent.levels import UNKNOWN, Level, most_severe_first
from logs_agent.parameters import LogFormat, LogPath, Rotated, clip, format_asked
from logs_agent.roots import Roots
from logs_agent.scan import Coverage, Scan, Window
from logs_agent.tally import Group, Tally
from logs_agent.timestamps import asked

Moment = Annotated[str, Field(description="ISO-8601 (no zone: UTC) or an age like 2h.", max_length=64)]


class Change(TypedDict):
    """One template; rates are records per minute of the window."""

    template: str
    level: str | None
    before: int
    after: int
    before_per_min: float
    after_per_min: float
    sample: str


class Comparison(TypedDict):
    """Templates only in the second window, only in the first, and in both at a changed rate."""

    before_s: int
    after_s: int
    levels_before: dict[str, int]
    levels_after: dict[str, int]
    new: list[Change]
    gone: list[Change]
    changed: list[Change]
    truncated: bool
    read: Coverage


def compare_windows(
    path: LogPath,
    before_since: Moment,
    before_until: Moment,
    after_since: Moment,
    after_until: Annotated[str, Field(description="End of the second window.", max_length=64)] = "now",
    min_level: Annotated[
        Level | None, Field(description="Least severe level to compare; null: every record.")
    ] = "WARNING",
    min_ratio: Annotated[
        float, Field(description="Rate change that counts, e.g. 2 = doubled or halved.", gt=1, le=1000)
    ] = 2,
    top: Annotated[int, Field(description="Most templates to show of each kind.", ge=1, le=100)] = 20,
    include_rotated: Rotated = False,
    format: LogFormat = "auto",
) -> Comparison:
    """Compare two time windows of a log, e.g. around a deploy: new errors, gone errors, changed rates."""
    before = _window(before_since, before_until, "before")
    after = _window(after_since, after_until, "after")
    both = Window(min(before[0], after[0]), max(before[1], after[1]))
    tallies = (Tally(), Tally())
    levels: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    with Scan(Roots.from_env(), path, format_asked(format), include_rotated, both) as scan:
        for record in scan:
            if record.time is None or record.continued:
                continue
            for (since, until), tally, counts in zip((before, after), tallies, levels, strict=True):
                if since <= record.time < until:
                    counts[record.level or UNKNOWN] += 1
                    if record.at_least(min_level):
                        tally.add(record)
        n_others = sum(tally.others for tally in tallies)
        if n_others:
            scan.notes.append(f"{n_others} records of ever new templates could not be compared")
        minutes = ((before[1] - before[0]) / 60, (after[1] - after[0]) / 60)
        new, gone, changed = _changes(tallies, minutes, min_ratio)
        return Comparison(
            before_s=round(before[1] - before[0]),
            after_s=round(after[1] - after[0]),
            levels_before=most_severe_first(levels[0]),
            levels_after=most_severe_first(levels[1]),
            new=new[:top],
            gone=gone[:top],
            changed=changed[:top],
            truncated=n_others > 0 or any(len(found) > top for found in (new, gone, changed)),
            read=scan.coverage(),
        )


def _window(since: str, until: str, name: str) -> tuple[float, float]:
    ends = asked(since, f"{name}_since"), asked(until, f"{name}_until")
    if ends[0] is None or ends[1] is None or ends[0] >= ends[1]:
        raise ToolError(f"not a window: {name}_since {since!r} must be earlier than {name}_until {until!r}")
    return ends[0], ends[1]


def _changes(
    tallies: tuple[Tally, Tally], minutes: tuple[float, float], min_ratio: float
) -> tuple[list[Change], list[Change], list[Change]]:
    new, gone, changed = [], [], []
    for group in tallies[1]:
        change = _change(group, tallies, minutes)
        if not change["before"]:
            new.append(change)
        elif _ratio(change, minutes) >= min_ratio:
            changed.append(change)
    for group in tallies[0]:
        if not tallies[1].count(group.template):
            gone.append(_change(group, tallies, minutes))
    changed.sort(key=lambda change: -_ratio(change, minutes))
    return new, gone, changed


def _change(group: Group, tallies: tuple[Tally, Tally], minutes: tuple[float, float]) -> Change:
    counts = [tally.count(group.template) for tally in tallies]
    return Change(
        template=group.template,
        level=group.level,
        before=counts[0],
        after=counts[1],
        before_per_min=round(counts[0] / minutes[0], 4),
        after_per_min=round(counts[1] / minutes[1], 4),
        sample=clip(group.sample, 500),
    )


def _ratio(change: Change, minutes: tuple[float, float]) -> float:
    """Return by how much the rate rose or fell, 1 or more."""
    ratio = (change["after"] / minutes[1]) / (change["before"] / minutes[0])
    return max(ratio, 1 / ratio)
