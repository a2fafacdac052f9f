"""What usage and sessions teach of tools, in parts that can be left out, and the next tool of a session by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args

from agent_utilities.cli.evaluation.data import Tool, past_requests, read_requests, rows
from agent_utilities.errors import InputError
from agent_utilities.graph.matching import Neighbour
from agent_utilities.selection.model import Resolution, nearest
from agent_utilities.usage.learning import Step, sequences
from agent_utilities.usage.model import N_NEAR, NOTHING_LEARNED, Learned

Part = Literal["past_requests", "recency", "used_with", "followed_by"]
"""`past_requests`: requests that each tool answered · `recency`: how much each was used of late · `used_with`: tools
that sessions called together · `followed_by`: the tool that was called next."""
PARTS: tuple[Part, ...] = get_args(Part)
"""In the order in which they are told."""


def read_parts(without: Iterable[str]) -> frozenset[Part]:
    """Return the parts that are left over."""
    left_out = tuple(without)
    for name in left_out:
        if name not in PARTS:
            near = nearest(name, PARTS)
            hint = f"did you mean {near}? " if near else ""
            raise InputError(
                "nothing that is learned has this name", name, "--without", f"{hint}one of {', '.join(PARTS)}"
            )
    return frozenset(part for part in PARTS if part not in left_out)


_FIELDS: Mapping[Part, str] = MappingProxyType({part: "uses" if part == "recency" else part for part in PARTS})
"""The field of `Learned` that a part is."""


def only(learned: Learned, parts: frozenset[Part]) -> Learned:
    """Return some parts of what was learned."""
    left_out: dict[str, Any] = {field: {} for part, field in _FIELDS.items() if part not in parts}
    return replace(learned, **left_out)


def parts_of(learned: Learned) -> frozenset[Part]:
    """Return the parts of which anything was learned."""
    return frozenset(part for part, field in _FIELDS.items() if getattr(learned, field))


_SQLITE = b"SQLite format 3\0"

Key = TypeVar("Key", str, tuple[str, str])
Value = TypeVar("Value")


def read_usage(path: Path | None, tools: Sequence[Tool]) -> Learned:
    """Return what a file teaches of tools, by their ids: past requests in JSON lines, or a server's usage log."""
    if path is None:
        return NOTHING_LEARNED
    if not _is_log(path):
        return Learned(version=path.name, past_requests=past_requests(read_requests(path)))
    learned = _by_id(read_log(path), _ids_by_name(tools))
    if not learned.uses:
        raise InputError("no call of these tools is logged", str(path), "--usage", "give the log of their server")
    return learned


def read_log(path: Path) -> Learned:
    """Return what a usage log teaches of all servers in it, as of its last call."""
    from agent_utilities.usage.database import snapshot
    from agent_utilities.usage.learning import read_learned

    with snapshot(path) as log:
        rows = [] if log is None else log.execute("SELECT server, max(at_ms) FROM calls GROUP BY server").fetchall()
    now_ms = max((last_ms for _, last_ms in rows), default=0)
    return together([read_learned(path, server, "", now_ms) for server, _ in rows])


def together(parts: Sequence[Learned]) -> Learned:
    """Return what several logs, or sessions, teach together; counts add up."""
    past: dict[str, tuple[str, ...]] = {}
    for learned in parts:
        for tool, requests in learned.past_requests.items():
            past[tool] = (*past.get(tool, ()), *requests)
    return Learned(
        version=" ".join(learned.version for learned in parts),
        uses=_summed(learned.uses for learned in parts),
        past_requests=past,
        used_with=_summed(learned.used_with for learned in parts),
        followed_by=_summed(learned.followed_by for learned in parts),
    )


def _is_log(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False  # it is said why where it is read as lines


def _ids_by_name(tools: Sequence[Tool]) -> dict[str, str]:
    """Return the id of each tool by its id, and by its name where no other tool has that."""
    n_named = Counter(tool.document.name for tool in tools)
    named = {tool.document.name: tool.id for tool in tools if n_named[tool.document.name] == 1}
    return named | {tool.id: tool.id for tool in tools}


def _by_id(learned: Learned, ids: Mapping[str, str]) -> Learned:
    """Return what was learned of tools that are there, by their ids."""
    known = {(a, b): (ids[a], ids[b]) for a, b in {*learned.used_with, *learned.followed_by} if a in ids and b in ids}
    return Learned(
        version=learned.version,
        uses=_renamed(learned.uses, ids),
        past_requests=_renamed(learned.past_requests, ids),
        used_with=_renamed(learned.used_with, known),
        followed_by=_renamed(learned.followed_by, known),
    )


def _renamed(values: Mapping[Key, Value], names: Mapping[Key, Key]) -> dict[Key, Value]:
    return {names[name]: value for name, value in values.items() if name in names}


def _summed(counts: Iterable[Mapping[Key, Any]]) -> Counter[Key]:
    summed: Counter[Key] = Counter()
    for by_key in counts:
        summed.update(by_key)
    return summed


@dataclass(frozen=True, slots=True)
class Session:
    """What one session asked for, and which tools it called, by id; one without words teaches and is not asked."""

    id: str
    query: str
    calls: tuple[str, ...]

    @property
    def steps(self) -> tuple[tuple[tuple[str, ...], str], ...]:
        """Each tool that it called for the first time after others, with the calls before, in order."""
        places = range(1, len(self.calls))
        return tuple((self.calls[:i], self.calls[i]) for i in places if self.calls[i] not in self.calls[:i])


def read_sessions(path: Path, tools: Sequence[Tool]) -> list[Session]:
    """Return the sessions of a JSON lines file."""
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


def taught_without(session: Session, all_taught: Learned) -> Learned:
    """Return what sessions teach without one of them."""
    own = taught_by([session])
    return Learned(
        version=f"without {session.id}",
        uses=Counter(all_taught.uses) - Counter(own.uses),
        used_with=Counter(all_taught.used_with) - Counter(own.used_with),
        followed_by=Counter(all_taught.followed_by) - Counter(own.followed_by),
    )


def taught_by(sessions: Sequence[Session]) -> Learned:
    """Return what sessions teach; one counts once for each tool, however often it called it."""
    steps = (Step(str(place), 0, call) for place, session in enumerate(sessions) for call in session.calls)
    return replace(sequences(steps), uses=Counter(call for session in sessions for call in set(session.calls)))


N_FOUND = 10
"""The most tools that a search names where nobody says how many."""

Search = Callable[[str], Resolution]
"""Returns what words find, best first; more than a search names."""


def neighbours_learned(learned: Learned) -> dict[str, list[Neighbour]]:
    """Return what went with each tool, by its name; pairs that were used together go both ways."""
    edges: dict[str, list[Neighbour]] = {}
    for (first, second), n in learned.used_with.items():
        edges.setdefault(first, []).append(Neighbour(first, second, "used_with", n))
        edges.setdefault(second, []).append(Neighbour(second, first, "used_with", n))
    for (first, second), n in learned.followed_by.items():
        edges.setdefault(first, []).append(Neighbour(first, second, "followed_by", n))
    return edges


def near(called: Sequence[str]) -> tuple[str, ...]:
    """Return the tools that a session is at after some calls, as its trail has them: the last one first."""
    return tuple(dict.fromkeys(reversed(called)))[:N_NEAR]


def edges_of(edges: Mapping[str, list[Neighbour]], called: Sequence[str]) -> list[Neighbour]:
    return [edge for name in near(called) for edge in edges.get(name, ())]
