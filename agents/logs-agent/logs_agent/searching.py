"""`search_logs`: records that hold a text or match a regular expression."""

from __future__ import annotations

from collections import deque
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from logs_agent.matching import matcher
from logs_agent.parameters import (
    LogFormat,
    LogPath,
    MinLevel,
    Rotated,
    Since,
    Until,
    clip,
    format_asked,
    window_asked,
)
from logs_agent.records import Record
from logs_agent.roots import Roots
from logs_agent.scan import Coverage, Scan
from logs_agent.timestamps import shown

MAX_HIT_CHARS = 2_000
MAX_CONTEXT_CHARS = 300
MAX_CHARS = 100_000


class Hit(TypedDict):
    """One matching record; `text` holds its joined lines, cut around the match when long."""

    file: str
    line: int
    time: str | None
    level: str | None
    text: str
    before: NotRequired[list[str]]
    after: NotRequired[list[str]]


class SearchResult(TypedDict):
    """The hits shown, and how many records matched in all."""

    matches: int
    hits: list[Hit]
    truncated: bool
    read: Coverage


def search_logs(
    path: LogPath,
    query: Annotated[
        str, Field(description="Text to find, or an RE2 expression if regex.", min_length=1, max_length=1000)
    ],
    regex: Annotated[bool, Field(description="Take query as a regular expression (RE2: linear time).")] = False,
    ignore_case: Annotated[bool, Field(description="Match whatever the case.")] = True,
    min_level: MinLevel = None,
    since: Since = None,
    until: Until = None,
    max_hits: Annotated[int, Field(description="Most hits to show.", ge=1, le=200)] = 50,
    newest: Annotated[bool, Field(description="Show the last hits rather than the first.")] = False,
    context: Annotated[int, Field(description="Records to show before and after each hit.", ge=0, le=10)] = 0,
    include_rotated: Rotated = False,
    format: LogFormat = "auto",
) -> SearchResult:
    """Search (grep) a log for text or a regex within a level and time window, stack traces included."""
    wanted = matcher(query, regex, ignore_case)
    kept = _Kept(max_hits, newest)
    matches = 0
    recent: deque[str] = deque(maxlen=context or 1)
    waiting: deque[tuple[Hit, int]] = deque()
    with Scan(Roots.from_env(), path, format_asked(format), include_rotated, window_asked(since, until)) as scan:
        for record in scan:
            if context:
                for hit, _ in waiting:
                    hit.setdefault("after", []).append(clip(record.text, MAX_CONTEXT_CHARS))
                waiting = deque((hit, left - 1) for hit, left in waiting if left > 1)
            at = wanted.find(record.whole) if record.at_least(min_level) else -1
            if at >= 0:
                matches += 1
                hit = _hit(record, at)
                if context and recent:
                    hit["before"] = list(recent)
                if kept.add(hit) and context:
                    waiting.append((hit, context))
            if context:
                recent.append(clip(record.text, MAX_CONTEXT_CHARS))
        if wanted.n_cut:
            few = "a regex that repeats less is tried on all of them"
            scan.notes.append(f"of {wanted.n_cut} long records only the beginning was searched; {few}")
        hits = kept.hits()
        return SearchResult(
            matches=matches, hits=hits, truncated=matches > len(hits), read=scan.coverage(truncated=wanted.n_cut > 0)
        )


def _hit(record: Record, at: int) -> Hit:
    text = record.whole
    if len(text) > MAX_HIT_CHARS:
        start = max(0, min(at - MAX_HIT_CHARS // 4, len(text) - MAX_HIT_CHARS))
        end = start + MAX_HIT_CHARS
        text = ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
    return Hit(file=record.file, line=record.line, time=shown(record.time), level=record.level, text=text)


class _Kept:
    """The first or the last hits, as many as were asked for and as fit."""

    def __init__(self, max_hits: int, newest: bool) -> None:
        self._hits: deque[Hit] = deque(maxlen=max_hits)
        self._max_hits, self._newest = max_hits, newest

    def add(self, hit: Hit) -> bool:
        """Keep the hit if it's among those to show."""
        if not self._newest and len(self._hits) == self._max_hits:
            return False
        self._hits.append(hit)
        return True

    def hits(self) -> list[Hit]:
        """Return the hits in the log's order, cut to `MAX_CHARS` in all."""
        shown_hits: list[Hit] = []
        n_chars = 0
        for hit in reversed(self._hits) if self._newest else self._hits:
            n_chars += sum(map(len, [hit["text"], *hit.get("before", []), *hit.get("after", [])]))
            if n_chars > MAX_CHARS and shown_hits:
                break
            shown_hits.append(hit)
        return shown_hits[::-1] if self._newest else shown_hits
