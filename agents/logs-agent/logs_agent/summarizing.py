"""`summarize_errors`: errors grouped by message template."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from logs_agent.levels import Level
from logs_agent.parameters import LogFormat, LogPath, Rotated, Since, Until, format_asked, window_asked
from logs_agent.roots import Roots
from logs_agent.scan import Coverage, Scan
from logs_agent.tally import Tally
from logs_agent.timestamps import shown


class ErrorGroup(TypedDict):
    """Errors of one template; `line` and `sample` are the first of them."""

    template: str
    count: int
    level: str | None
    first_seen: str | None
    last_seen: str | None
    line: int
    sample: str


class ErrorSummary(TypedDict):
    """The most frequent error groups."""

    total: int
    n_groups: int
    groups: list[ErrorGroup]
    truncated: bool
    read: Coverage


def summarize_errors(
    path: LogPath,
    min_level: Annotated[Level, Field(description="Least severe level to summarize.")] = "ERROR",
    since: Since = None,
    until: Until = None,
    top: Annotated[int, Field(description="Most groups to show.", ge=1, le=100)] = 20,
    include_rotated: Rotated = False,
    format: LogFormat = "auto",
) -> ErrorSummary:
    """Summarize errors and exceptions of a log by message template: counts, first and last seen, a sample."""
    tally = Tally()
    with Scan(Roots.from_env(), path, format_asked(format), include_rotated, window_asked(since, until)) as scan:
        for record in scan:
            if record.at_least(min_level) and not record.continued:
                tally.add(record)
        groups = [
            ErrorGroup(
                template=group.template,
                count=group.count,
                level=group.level,
                first_seen=shown(group.first),
                last_seen=shown(group.last),
                line=group.line,
                sample=group.sample,
            )
            for group in islice(tally, top)
        ]
        if tally.others:
            scan.notes.append(f"{tally.others} errors of ever new templates are in total but in no group")
        return ErrorSummary(
            total=tally.total,
            n_groups=len(tally),
            groups=groups,
            truncated=len(tally) > len(groups) or tally.others > 0,
            read=scan.coverage(),
        )
