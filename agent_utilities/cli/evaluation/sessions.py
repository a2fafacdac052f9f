"""Sessions to learn from and to ask: the tools that each called, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from agent_utilities.cli.evaluation.data import Tool, rows
from agent_utilities.errors import InputError
from agent_utilities.usage.learned import Learned
from agent_utilities.usage.sequences import Step, sequences

Key = TypeVar("Key", str, tuple[str, str])


@dataclass(frozen=True, slots=True)
class Session:
    """What one session asked for and called.

    Args:
        id: its own.
        query: the user's words; empty where none are known, so that it teaches and is not asked.
        calls: ids of the tools that it called, in order.
    """

    id: str
    query: str
    calls: tuple[str, ...]

    @property
    def steps(self) -> tuple[tuple[tuple[str, ...], str], ...]:
        """Each tool that it called for the first time after others, with the calls before, in order."""
        places = range(1, len(self.calls))
        return tuple((self.calls[:i], self.calls[i]) for i in places if self.calls[i] not in self.calls[:i])


def read_sessions(path: Path, tools: Sequence[Tool]) -> list[Session]:
    """Return the sessions of a JSON lines file.

    Args:
        path: the file.
        tools: those that can have been called.

    Raises:
        InputError: it can't be read, or names a tool that is not there.
    """
    known = frozenset(tool.id for tool in tools)
    return [_session(row, where, known) for where, row in rows(path, ("id",))]


def _session(row: dict[str, Any], where: str, known: frozenset[str]) -> Session:
    calls, query = row.get("calls"), row.get("query", "")
    if not isinstance(calls, list) or not all(isinstance(call, str) for call in calls):
        raise InputError("calls are not a list of tool ids", calls, where, 'write "calls": ["a", "b"], in order')
    if not isinstance(query, str):
        raise InputError("query is not text", query, where, "give the user's words, or leave it out")
    for call in calls:
        if call not in known:
            raise InputError("no tool has this id", call, where, "give the tools that the sessions called")
    return Session(row["id"], query, tuple(calls))


class SessionCounts:
    """What sessions teach together, and what they teach without one of them.

    Args:
        sessions: as a usage log would hold them.
    """

    def __init__(self, sessions: Sequence[Session]) -> None:
        self._of_all = _learned(sessions)

    def without(self, session: Session) -> Learned:
        """Return what all but one of the sessions teach."""
        own = _learned([session])
        return Learned(
            version=f"without {session.id}",
            uses=_less(self._of_all.uses, own.uses),
            used_with=_less(self._of_all.used_with, own.used_with),
            followed_by=_less(self._of_all.followed_by, own.followed_by),
        )


def _learned(sessions: Sequence[Session]) -> Learned:
    """Return what sessions teach; one counts once for each tool, however often it called it."""
    steps = (Step(str(place), 0, call) for place, session in enumerate(sessions) for call in session.calls)
    pairs = sequences(steps)
    uses = Counter(call for session in sessions for call in set(session.calls))
    return Learned(uses=uses, used_with=pairs.used_with, followed_by=pairs.followed_by)


def _less(of_all: Mapping[Key, float], own: Mapping[Key, float]) -> dict[Key, int]:
    """Return counts without some of them; what is left of nothing is left out."""
    return {key: int(n - own.get(key, 0)) for key, n in of_all.items() if n > own.get(key, 0)}
