"""The match of a query on the graph: literally, else by its terms; and the neighbours of tools in use."""

from __future__ import annotations

import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from agent_utilities.catalog.words import stopwords_of, without_negated, words
from agent_utilities.query.graph import cypher
from agent_utilities.query.graph.base import Reads
from agent_utilities.runtime.waiting import in_turns

_MAX_TERMS = 16


def normalise(query: str) -> str:
    """Normalize a query: NFC, lower case, single spaces, no unpaired surrogates."""
    text = " ".join(unicodedata.normalize("NFC", query).lower().split())
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def terms(text: str) -> list[str]:
    """Return the words of a normalised query without stop words and plural `s`, at most 16."""
    stopwords = stopwords_of(text)
    content = [word for word in words(without_negated(text)) if word not in stopwords]
    return list(dict.fromkeys(word[:-1] if len(word) > 3 and word.endswith("s") else word for word in content))[
        :_MAX_TERMS
    ]


_CLAIMED_SHARE = 1 / 3
"""The share of the best score that a tool needs to be claimed."""


class Neighbour(NamedTuple):
    """A tool that sessions called together with another one, `of`, or next after it, and how often."""

    of: str
    name: str
    kind: Literal["used_with", "followed_by"]
    n: int


class NeighbourRow(NamedTuple):
    """Neighbours of one kind in aligned columns, as the graph returns them: few objects for thousands of them."""

    kind: Literal["used_with", "followed_by"]
    ofs: tuple[str, ...]
    names: tuple[str, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Matches:
    """The graph's matches of a query, before any caller's bounds.

    Args:
        literal: names of the tools whose text has the query as it stands; unordered.
        by_term: names of the tools whose text has each of its terms.
        neighbour_rows: neighbours of the tools in use; unordered.
    """

    literal: tuple[str, ...] = ()
    by_term: tuple[tuple[str, tuple[str, ...]], ...] = ()
    neighbour_rows: tuple[NeighbourRow, ...] = ()

    @property
    def n_names(self) -> int:
        """The number of names, repeated ones counted each time."""
        return len(self.literal) + sum(len(names) for _, names in self.by_term)

    @property
    def n_neighbours(self) -> int:
        return sum(len(row.names) for row in self.neighbour_rows)

    @property
    def neighbours(self) -> Iterator[Neighbour]:
        """The neighbours one by one; all of them may take longer than a turn of the event loop."""
        for kind, ofs, names, counts in self.neighbour_rows:
            for of, name, n in zip(ofs, names, counts, strict=True):
                yield Neighbour(of, name, kind, n)


async def match_literally(graph: Reads, server: str, text: str, near: Sequence[str] = (), scope: str = "") -> Matches:
    """Match a normalised query as it stands, and read the neighbours of some tools, by one statement.

    `near` are the names of those tools, which are not trusted; `scope` is that of a `ToolEdge`.
    """
    # A caller may name anything; no driver takes a surrogate, and no tool's name has any.
    known = [name for name in dict.fromkeys(near) if not any("\ud800" <= letter <= "\udfff" for letter in name)]
    parameters: dict[str, Any] = {"query": text, "server_name": server}
    statement = cypher.MATCH_TEXT
    if known:
        statement, parameters = cypher.MATCH_TEXT_AND_NEIGHBOURS, {**parameters, "near": known, "scope": scope}
    literal: list[str] = []
    rows: list[NeighbourRow] = []
    async for row in in_turns(await graph.read(statement, parameters)):
        names = tuple(map(sys.intern, row["names"]))
        if (kind := row.get("kind", "literal")) == "literal":
            literal += names
        else:
            rows.append(NeighbourRow(kind, tuple(map(sys.intern, row["ofs"])), names, tuple(row["counts"])))
    return Matches(literal=tuple(literal), neighbour_rows=tuple(rows))


async def match_terms(graph: Reads, server: str, text: str) -> Matches:
    """Match each term of a normalised query; nothing where it is one term."""
    wanted = terms(text)
    if not wanted or wanted == [text]:
        return Matches()
    bearing: dict[str, list[str]] = {term: [] for term in wanted}
    async for row in in_turns(await graph.read(cypher.MATCH_TERMS, {"terms": wanted, "server_name": server})):
        bearing[row["term"]] += map(sys.intern, row["names"])
    return Matches(by_term=tuple((term, tuple(names)) for term, names in bearing.items() if names))


async def match(graph: Reads, server: str, text: str) -> Matches:
    """Match a normalised query literally, and by its terms where nothing matches."""
    matches = await match_literally(graph, server, text)
    return matches if matches.literal else await match_terms(graph, server, text)


def names_of(matches: Matches, permitted: frozenset[str] | None = None) -> tuple[str, ...]:
    """Return the names that answer a query, best first; empty for no match.

    Literal matches alone count where there are any. Otherwise a term counts the more the fewer tools have it, and tools
    far behind the best are not claimed. Only permitted tools are matched and weighed (law L1).
    """

    def permitted_of(names: tuple[str, ...]) -> list[str]:
        return [name for name in names if permitted is None or name in permitted]

    if literal := permitted_of(matches.literal):
        return tuple(sorted(literal))
    scores: dict[str, float] = defaultdict(float)
    for _, names in matches.by_term:
        bearing = permitted_of(names)
        share = 1 / max(len(bearing), 1)
        for name in bearing:
            scores[name] += share
    least = _CLAIMED_SHARE * max(scores.values(), default=0.0)
    by_name = sorted([name for name, score in scores.items() if score >= least])
    return tuple(sorted(by_name, key=scores.__getitem__, reverse=True))
