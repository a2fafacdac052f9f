"""What a usage log teaches of one server, read in one pass over its calls.

Three things: how much each tool was used of late, which tools go together or follow one another, and which requests a
tool answered.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from agent_utilities.usage.database import snapshot
from agent_utilities.usage.model import HOUR_MS, NOTHING_LEARNED, Learned

HALF_LIFE_HOURS = 24.0
"""The age at which a call counts half."""

_STEPS = 32
"""In how many steps a call's weight falls to half, so that what is learned stays the same for a while."""
_MOST_READ = 40
"""Requests of a tool that are looked at, the newest."""
_MOST_OF_A_SESSION = 10
"""Those of them that may come from one session."""
_OF_WHOM = "+server = :server AND ok = 1 AND (:subject = '' OR subject = :subject)"
"""The index by time would have the rows sorted anew; `+` leaves it aside."""
GAP_MS = 3_600_000
"""A session whose next call comes later than this is another one: somebody came back with another task."""
MOST_TOOLS = 20
"""Tools of a session that count as used together, the first ones."""
MOST_STEPS = 3
"""How often one session counts for one pair of tools that follow one another."""
MOST_PAIRS = 10_000
"""Pairs of either kind that are told, those counted most."""
MOST_OF_A_TOOL = 20
"""Past requests of a tool that are kept."""
LONGEST_REQUEST = 500
"""Characters of one."""

_MOST_COMPARED = 30
"""Requests of a tool that are compared with one another, the newest: what it costs grows with their square."""
_SAME = 0.8
"""The share of words from which two requests are one."""
_LEAST_LETTERS = 3
_Words = int
"""The words of a request, each a bit: a set that is compared at once."""
_WORD = re.compile(r"\w+")


def read_learned(
    path: Path, server: str, subject: str, now_ms: int, *, half_life_hours: float = HALF_LIFE_HOURS
) -> Learned:
    """Return what the calls of a server that succeeded teach, those of one subject or of everybody.

    It takes up to a second, and belongs in a thread.

    Args:
        path: the log; where there is none, or an empty one, nothing was learned.
        server: whose calls.
        subject: who made them, as the salted hash that the log has; everybody where blank.
        now_ms: the time from which calls are dated back, in UTC epoch milliseconds.
        half_life_hours: the age at which a call counts half, > 0.

    Raises:
        UsageError: the file can't be read. What was learned before is then still the best there is.
    """
    with snapshot(path) as connection:
        if connection is None:
            return NOTHING_LEARNED
        whose = {"server": server, "subject": subject}
        uses, counter = _Uses(now_ms, half_life_hours), SequenceCounter()
        for step in _steps(connection, whose):
            uses.add(step)
            counter.add(step)
        requests = {tool: kept for tool, found in _requests(connection, whose) if (kept := different_requests(found))}
    pairs = counter.counted()
    return _versioned(uses.summed(), requests, pairs.used_with, pairs.followed_by)


def _steps(connection: sqlite3.Connection, whose: dict[str, str]) -> Iterator[Step]:
    """Yield a session's calls one after another, in the order in which they were written: clocks may be set back."""
    statement = f"SELECT session, at_ms, tool FROM calls WHERE {_OF_WHOM} ORDER BY session, id"
    return map(Step._make, connection.execute(statement, whose))


class _Uses:
    """Sums up how much tools were used of late.

    A call counts half after each half-life; of the calls of one session each tool's sum counts by its logarithm, so
    that a loop of a million calls weighs as fourteen sessions with one each, and not as a million. Requests that stand
    alone are taken for one session each hour.
    """

    def __init__(self, now_ms: int, half_life_hours: float) -> None:
        self._half_life_ms = half_life_hours * HOUR_MS
        self._now_ms = now_ms - now_ms % max(1, int(self._half_life_ms / _STEPS))
        self._session = ""
        self._weights: dict[tuple[str, int], float] = defaultdict(float)
        self._sums: dict[str, float] = defaultdict(float)

    def add(self, step: Step) -> None:
        """Count a step; those of a session come one after another."""
        session, at_ms, tool = step
        if session != self._session:
            self._end_session()
            self._session = session
        hour = 0 if session else at_ms // HOUR_MS
        self._weights[tool, hour] += math.exp2(-self._age_ms(at_ms) / self._half_life_ms)

    def _age_ms(self, at_ms: int) -> int:
        """Return how old a call is; one that is dated far ahead is as old as it is ahead, or it never grew old."""
        age_ms = self._now_ms - at_ms
        return -age_ms if age_ms < -HOUR_MS else max(0, age_ms)

    def summed(self) -> dict[str, float]:
        """Return the sum of each tool that still counts, to four digits."""
        self._end_session()
        rounded = {tool: float(f"{value:.4g}") for tool, value in sorted(self._sums.items())}
        return {tool: value for tool, value in rounded.items() if value >= 1e-6}

    def _end_session(self) -> None:
        for (tool, _), weight in self._weights.items():
            self._sums[tool] += math.log1p(weight)
        self._weights.clear()


def _requests(connection: sqlite3.Connection, whose: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each tool with the newest requests that led to it, newest first."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    of_session: Counter[tuple[str, str]] = Counter()
    statement = f"SELECT tool, session, request FROM calls WHERE {_OF_WHOM} AND request <> '' ORDER BY id DESC"
    for tool, session, request in connection.execute(statement, whose):
        requests = found[tool]
        if len(requests) >= _MOST_READ or request in requests:
            continue
        of_session[tool, session] += bool(session)
        if of_session[tool, session] <= _MOST_OF_A_SESSION:
            requests[request] = None
    for tool in sorted(found):
        yield tool, list(found[tool])


def _versioned(
    uses: dict[str, float],
    past_requests: dict[str, tuple[str, ...]],
    used_with: dict[tuple[str, str], int],
    followed_by: dict[tuple[str, str], int],
) -> Learned:
    if not uses and not past_requests and not used_with and not followed_by:
        return NOTHING_LEARNED
    content = [list(part.items()) for part in (uses, past_requests, used_with, followed_by)]
    version = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    return Learned(version, uses, past_requests, used_with, followed_by)


class Step(NamedTuple):
    """A call that succeeded, of a session.

    Args:
        session: whose; calls without one stand alone and teach nothing here.
        at_ms: when, in UTC epoch milliseconds.
        tool: which tool.
    """

    session: str
    at_ms: int
    tool: str


@dataclass(frozen=True)
class Sequences:
    """What goes together.

    Args:
        used_with: how many sessions called both tools of a pair, the names in order of the alphabet.
        followed_by: how often the second tool of a pair was called next after the first, at most thrice a session.
    """

    used_with: dict[tuple[str, str], int]
    followed_by: dict[tuple[str, str], int]


class SequenceCounter:
    """Counts pairs while steps go by, so that no log need be in memory.

    However many calls a session makes, it adds 1 to a pair of tools used together, 3 to one that follows, and 20 tools.
    """

    def __init__(self) -> None:
        self._used_with: Counter[tuple[str, str]] = Counter()
        self._followed_by: Counter[tuple[str, str]] = Counter()
        self._last: Step | None = None
        self._tools: dict[str, None] = {}
        self._steps: Counter[tuple[str, str]] = Counter()

    def add(self, step: Step) -> None:
        """Count a step; those of a session come one after another, in the order of their calls."""
        last, self._last = self._last, step
        session, at_ms, tool = step
        if last is None or last.session != session or at_ms - last.at_ms > GAP_MS or not session:
            self._end_session()
        elif last.tool != tool:
            self._steps[last.tool, tool] += 1
        tools = self._tools
        if tool not in tools and len(tools) < MOST_TOOLS:
            tools[tool] = None

    def counted(self) -> Sequences:
        """Return the counts of all steps so far."""
        self._end_session()
        self._last = None
        return Sequences(_most_counted(self._used_with), _most_counted(self._followed_by))

    def _end_session(self) -> None:
        tools, steps = self._tools, self._steps
        if len(tools) > 1:
            self._used_with.update(combinations(sorted(tools), 2))
            for (first, second), n in steps.items():
                if first in tools and second in tools:
                    self._followed_by[first, second] += min(n, MOST_STEPS)
            steps.clear()
        tools.clear()


def _most_counted(pairs: Counter[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return the pairs that count most, in order of the alphabet."""
    counted = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    return dict(sorted(counted[:MOST_PAIRS]))


def sequences(steps: Iterable[Step]) -> Sequences:
    """Return what goes together in steps; those of a session come one after another, in the order of their calls."""
    counter = SequenceCounter()
    for step in steps:
        counter.add(step)
    return counter.counted()


def different_requests(newest_first: Iterable[str], most: int = MOST_OF_A_TOOL) -> tuple[str, ...]:
    """Return the requests to keep of those that led to a tool, oldest first; the same ones for the same input.

    The newest is kept, then again and again the one that has least in common with all that are kept; of two that are
    equally far from them, the newer one. Blank ones, ones of less than three letters, and ones that say what a newer
    one says are dropped.
    """
    candidates = _distinct(newest_first)
    places = _farthest_first([words for _, words in candidates], most)
    return tuple(candidates[place][0] for place in sorted(places, reverse=True))


def _distinct(newest_first: Iterable[str]) -> list[tuple[str, _Words]]:
    """Return the newest requests that differ, each with its words."""
    bits: dict[str, int] = {}
    found: list[tuple[str, _Words]] = []
    for request in newest_first:
        text = " ".join(request[: 2 * LONGEST_REQUEST].split())[:LONGEST_REQUEST].rstrip()
        if sum(map(str.isalpha, text)) < _LEAST_LETTERS:
            continue
        words = 0
        for word in _WORD.findall(text.casefold()):
            words |= 1 << bits.setdefault(word, len(bits))
        if all(_shared(words, others) < _SAME for _, others in found):
            found.append((text, words))
        if len(found) == _MOST_COMPARED:
            break
    return found


def _farthest_first(words: Sequence[_Words], most: int) -> list[int]:
    """Return the places of the requests to keep: the first, then each time the one farthest from those."""
    if len(words) <= most:
        return list(range(len(words)))
    chosen = [0]
    shared = {place: _shared(words[0], words[place]) for place in range(1, len(words))}
    while len(chosen) < most:
        farthest = min(shared, key=shared.__getitem__)
        del shared[farthest]
        chosen.append(farthest)
        for place, value in shared.items():
            shared[place] = max(value, _shared(words[farthest], words[place]))
    return chosen


def _shared(first: _Words, second: _Words) -> float:
    """Return how many of the words of two requests are in both, from 0 to 1 (Jaccard's index)."""
    n_any = (first | second).bit_count()
    return (first & second).bit_count() / n_any if n_any else 1.0
