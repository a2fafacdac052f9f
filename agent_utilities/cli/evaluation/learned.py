"""What usage and sessions teach of tools, in parts that can be left out, and the next tool of a session by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from agent_utilities.cli.evaluation.data import Tool, past_requests, read_requests, rows
from agent_utilities.errors import InputError
from agent_utilities.graph.matching import Neighbour
from agent_utilities.resolution.prior import Prior, neighbour_shares, with_prior
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
            raise InputError("nothing that is learned has this name", name, "--without", f"{hint}one of {_listed()}")
    return frozenset(part for part in PARTS if part not in left_out)


def only(learned: Learned, parts: frozenset[Part]) -> Learned:
    """Return some parts of what was learned."""
    return replace(
        learned,
        uses=learned.uses if "recency" in parts else {},
        past_requests=learned.past_requests if "past_requests" in parts else {},
        used_with=learned.used_with if "used_with" in parts else {},
        followed_by=learned.followed_by if "followed_by" in parts else {},
    )


def parts_of(learned: Learned) -> frozenset[Part]:
    """Return the parts of which anything was learned."""
    has = {
        "past_requests": learned.past_requests,
        "recency": learned.uses,
        "used_with": learned.used_with,
        "followed_by": learned.followed_by,
    }
    return frozenset(part for part in PARTS if has[part])


def _listed() -> str:
    return ", ".join(PARTS)


_SQLITE = b"SQLite format 3\0"

Key = TypeVar("Key", str, tuple[str, str])
Value = TypeVar("Value")


def read_usage(path: Path | None, tools: Sequence[Tool]) -> Learned:
    """Return what a file teaches of tools, by their ids.

    Args:
        path: JSON lines of past requests and the tools that answered them, or a server's usage log; None for no file.
        tools: the catalog.

    Raises:
        InputError: it can't be read, or is the log of other tools.
        UsageError: it is a log, and damaged, locked or of a later version.
    """
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
        uses=_summed([learned.uses for learned in parts]),
        past_requests=past,
        used_with=_summed([learned.used_with for learned in parts]),
        followed_by=_summed([learned.followed_by for learned in parts]),
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
    return Learned(
        version=learned.version,
        uses=_renamed(learned.uses, ids),
        past_requests=_renamed(learned.past_requests, ids),
        used_with=_renamed_pairs(learned.used_with, ids),
        followed_by=_renamed_pairs(learned.followed_by, ids),
    )


def _renamed(values: Mapping[str, Value], ids: Mapping[str, str]) -> dict[str, Value]:
    return {ids[name]: value for name, value in values.items() if name in ids}


def _renamed_pairs(counts: Mapping[tuple[str, str], int], ids: Mapping[str, str]) -> dict[tuple[str, str], int]:
    return {(ids[a], ids[b]): n for (a, b), n in counts.items() if a in ids and b in ids}


Count = TypeVar("Count", int, float)


def _summed(counts: Sequence[Mapping[Key, Count]]) -> dict[Key, Count]:
    summed: dict[Key, Count] = {}
    for by_key in counts:
        for key, n in by_key.items():
            summed[key] = summed[key] + n if key in summed else n
    return summed


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


N_NEXT = 5
"""The next tool is to be among so many of those not called yet."""
N_FOUND = 10
"""The most tools that a search names where nobody says how many."""

Search = Callable[[str], Resolution]
"""Returns what words find, best first; more than a search names."""


@dataclass(frozen=True, slots=True)
class NextTools:
    """How often the next tool was among the first of those not called yet.

    Args:
        n_sessions: how many sessions were asked.
        n_steps: how many next tools they called.
        n_hits: how many of these were among the first five.
        n_linked: how many of these went with a tool called before in any other session.
    """

    n_sessions: int = 0
    n_steps: int = 0
    n_hits: int = 0
    n_linked: int = 0

    @property
    def hit_rate(self) -> float:
        """The share of next tools that were among the first, 0 to 1."""
        return self.n_hits / max(1, self.n_steps)


class NextTool:
    """Asks each session for its next tools, taught by all others and by nothing of its own.

    Args:
        sessions: to learn from; those with words and several tools are asked.
        search: as a server searches.
        permitted: ids of the tools.
        learned: what is known besides, of a usage log.
    """

    def __init__(
        self, sessions: Sequence[Session], search: Search, permitted: frozenset[str], learned: Learned
    ) -> None:
        self._asked = [session for session in sessions if session.query and session.steps]
        self._counts = SessionCounts(sessions)
        self._search = search
        self._permitted = permitted
        self._learned = learned

    def measure(self, parts: frozenset[Part]) -> NextTools:
        """Return how often the next tool is found with some parts of what others teach."""
        n_steps = n_hits = n_linked = 0
        for session in self._asked:
            learned = only(together([self._learned, self._counts.without(session)]), parts)
            edges, prior = neighbours_learned(learned), Prior(learned.uses)
            found = self._search(session.query)
            for called, wanted in session.steps:
                shares = neighbour_shares(_edges_of(edges, called), _near(called), self._permitted)
                answer = with_prior(replace(found, neighbours=shares), prior, self._permitted, N_FOUND)
                n_steps += 1
                n_hits += wanted in [name for name in answer.names if name not in called][:N_NEXT]
                n_linked += any(name == wanted for name, _ in shares)
        return NextTools(len(self._asked), n_steps, n_hits, n_linked)


def neighbours_learned(learned: Learned) -> dict[str, list[Neighbour]]:
    """Return what went with each tool, by its name; pairs that were used together go both ways."""
    edges: dict[str, list[Neighbour]] = {}
    for (first, second), n in learned.used_with.items():
        edges.setdefault(first, []).append(Neighbour(first, second, "used_with", n))
        edges.setdefault(second, []).append(Neighbour(second, first, "used_with", n))
    for (first, second), n in learned.followed_by.items():
        edges.setdefault(first, []).append(Neighbour(first, second, "followed_by", n))
    return edges


def _near(called: Sequence[str]) -> tuple[str, ...]:
    """Return the tools that a session is at after some calls, as its trail has them: the last one first."""
    return tuple(dict.fromkeys(reversed(called)))[:N_NEAR]


def _edges_of(edges: Mapping[str, list[Neighbour]], called: Sequence[str]) -> list[Neighbour]:
    return [edge for name in _near(called) for edge in edges.get(name, ())]
