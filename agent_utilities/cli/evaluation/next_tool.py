"""Which tool a session calls next: what a search by its words finds, moved by what other sessions teach."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from agent_utilities.cli.evaluation.parts import Part, only
from agent_utilities.cli.evaluation.sessions import Session, SessionCounts
from agent_utilities.cli.evaluation.usage import together
from agent_utilities.graph.matching import Neighbour
from agent_utilities.resolution.neighbours import neighbour_shares
from agent_utilities.resolution.prior import Prior, with_prior
from agent_utilities.resolution.trail import N_NEAR
from agent_utilities.selection.resolution import Resolution
from agent_utilities.usage.learned import Learned

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
