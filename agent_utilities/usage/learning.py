"""Learns from a usage log: how much tools were used recently, which are called together, and past requests."""

from __future__ import annotations

import hashlib
import json
import math
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations, groupby, pairwise
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from agent_utilities.usage.database import snapshot
from agent_utilities.usage.model import HOUR_MS, NOTHING_LEARNED, Learned

_HALF_LIFE_MS = 24 * HOUR_MS
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
"""The most pairs of either kind that are returned: those with the highest counts."""
MOST_OF_A_TOOL = 20
"""Past requests of a tool that are kept."""
LONGEST_REQUEST = 500
"""Characters of one."""

_SAME = 0.8
"""The share of their words (Jaccard's index) from which two requests are one."""
_LEAST_LETTERS = 3
_WORD = re.compile(r"\w+")


def read_learned(path: Path, server: str, subject: str, now_ms: int) -> Learned:
    """Return what is learned from the successful calls of a server, by one subject or by everybody.

    It takes up to a second: run it in a thread. A missing or empty log gives `NOTHING_LEARNED`; one that can't be read
    raises `UsageError`, and callers keep what they learned before.

    Args:
        subject: who made the calls, as the salted hash that the log has; everybody where blank.
        now_ms: the time from which calls are dated back, in UTC epoch milliseconds.
    """
    with snapshot(path) as connection:
        if connection is None:
            return NOTHING_LEARNED
        whose = {"server": server, "subject": subject}
        uses = _recent_uses(_steps(connection, whose), now_ms)
        pairs = sequences(_steps(connection, whose))
        requests = {tool: kept for tool, texts in _requests(connection, whose) if (kept := different_requests(texts))}
    parts = (uses, requests, pairs.used_with, pairs.followed_by)
    if not any(parts):
        return NOTHING_LEARNED
    content = json.dumps([list(part.items()) for part in parts])
    return Learned(hashlib.sha256(content.encode()).hexdigest()[:16], *parts)


class Step(NamedTuple):
    """A call that succeeded, of a session; blank for calls that stand alone."""

    session: str
    at_ms: int
    tool: str


def _steps(connection: sqlite3.Connection, whose: dict[str, str]) -> Iterator[Step]:
    """Yield a session's calls one after another, in the order in which they were written: clocks may be set back."""
    statement = f"SELECT session, at_ms, tool FROM calls WHERE {_OF_WHOM} ORDER BY session, id"
    return map(Step._make, connection.execute(statement, whose))


def _recent_uses(steps: Iterable[Step], now_ms: int) -> dict[str, float]:
    """Return how much each tool was used recently, to four digits; negligible ones are left out.

    A call counts half after each half-life; of the calls of one session each tool's sum counts by its logarithm, so
    that a loop of a million calls weighs as fourteen sessions with one each, and not as a million. Requests that stand
    alone are taken for one session each hour.
    """
    now_ms -= now_ms % (_HALF_LIFE_MS // _STEPS)
    sums: dict[str, float] = defaultdict(float)
    for session, of_session in groupby(steps, key=attrgetter("session")):
        weights: dict[tuple[str, int], float] = defaultdict(float)
        for step in of_session:
            age_ms = now_ms - step.at_ms
            if age_ms < -HOUR_MS:
                age_ms = -age_ms  # one that is dated far ahead is as old as it is ahead, or it never grew old
            hour = 0 if session else step.at_ms // HOUR_MS
            weights[step.tool, hour] += math.exp2(-max(0, age_ms) / _HALF_LIFE_MS)
        for (tool, _), weight in weights.items():
            sums[tool] += math.log1p(weight)
    rounded = {tool: float(f"{value:.4g}") for tool, value in sorted(sums.items())}
    return {tool: value for tool, value in rounded.items() if value >= 1e-6}


def sequences(steps: Iterable[Step]) -> Learned:
    """Return which tools go together; a session's steps come one after another, in the order of their calls.

    However many calls a session makes, it adds 1 to a pair of tools used together, 3 to one that follows, and 20 tools.
    """
    used_with: Counter[tuple[str, str]] = Counter()
    followed_by: Counter[tuple[str, str]] = Counter()
    for sitting in _sittings(steps):
        tools = sorted(list(dict.fromkeys(step.tool for step in sitting))[:MOST_TOOLS])
        used_with.update(combinations(tools, 2))
        follows = Counter((a.tool, b.tool) for a, b in pairwise(sitting) if a.tool != b.tool)
        for (first, second), n in follows.items():
            if first in tools and second in tools:
                followed_by[first, second] += min(n, MOST_STEPS)
    return Learned(used_with=_most_counted(used_with), followed_by=_most_counted(followed_by))


def _sittings(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """Yield the steps of each session that has a name, apart where a long pause is between them."""
    for session, of_session in groupby(steps, key=attrgetter("session")):
        sitting: list[Step] = []
        for step in of_session if session else ():
            if sitting and step.at_ms - sitting[-1].at_ms > GAP_MS:
                yield sitting
                sitting = []
            sitting.append(step)
        yield sitting


def _most_counted(pairs: Counter[tuple[str, str]]) -> dict[tuple[str, str], int]:
    counted = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    return dict(sorted(counted[:MOST_PAIRS]))


def _requests(connection: sqlite3.Connection, whose: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    by_tool: dict[str, dict[str, None]] = defaultdict(dict)
    of_session: Counter[tuple[str, str]] = Counter()
    statement = f"SELECT tool, session, request FROM calls WHERE {_OF_WHOM} AND request <> '' ORDER BY id DESC"
    for tool, session, request in connection.execute(statement, whose):
        requests = by_tool[tool]
        if len(requests) >= _MOST_READ or request in requests:
            continue
        of_session[tool, session] += bool(session)
        if of_session[tool, session] <= _MOST_OF_A_SESSION:
            requests[request] = None
    for tool in sorted(by_tool):
        yield tool, list(by_tool[tool])


def different_requests(newest_first: Iterable[str]) -> tuple[str, ...]:
    """Return the requests to keep of those that led to a tool, the newest ones that differ, oldest first.

    Blank ones, ones of less than three letters, and ones that say what a newer one says are dropped.
    """
    kept: list[tuple[str, frozenset[str]]] = []
    for request in newest_first:
        text = " ".join(request[: 2 * LONGEST_REQUEST].split())[:LONGEST_REQUEST].rstrip()
        if sum(map(str.isalpha, text)) < _LEAST_LETTERS:
            continue
        words = frozenset(_WORD.findall(text.casefold()))
        if all(len(words & others) < _SAME * len(words | others) for _, others in kept):
            kept.append((text, words))
        if len(kept) == MOST_OF_A_TOOL:
            break
    return tuple(text for text, _ in reversed(kept))
