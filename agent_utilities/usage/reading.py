"""What a usage log teaches of one server, read in one pass over its calls."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from agent_utilities.usage.clock import HOUR_MS
from agent_utilities.usage.learned import NOTHING_LEARNED, Learned
from agent_utilities.usage.past_requests import different_requests
from agent_utilities.usage.sequences import SequenceCounter, Step
from agent_utilities.usage.snapshot import snapshot

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
