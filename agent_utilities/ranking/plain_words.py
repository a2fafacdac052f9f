"""Tools by the words that they share with a query, where no ranker can answer."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.text import is_content_word, words

_N_QUERY_WORDS = 256
_N_CHARACTERS = 8_000
_SEPARATORS = str.maketrans("", "", "_-./: ")

Row = tuple[str, str, str]
"""A tool's name, title and description."""


@dataclass(frozen=True, slots=True, order=True)
class _Match:
    """How well a tool fits; the best is the least.

    Args:
        is_other: whether its name is not the query.
        n_shared: how many of the words it has, negated.
        n_in_name: how many its name has, negated.
        place: its place among the rows.
        is_counted: whether whole words were counted; else these are the most that they can be.
    """

    is_other: bool
    n_shared: int
    n_in_name: int
    place: int
    is_counted: bool


def plain_matches(query: str, rows: Iterable[Row], limit: int) -> tuple[tuple[str, float], ...]:
    """Return the tools that bear a query's words, those that bear most of them first.

    A tool whose whole name is the query comes first; of tools that bear as many words, those that bear more of them in
    their names, and then those that come first. Nothing but the rows given moves a score. It takes some milliseconds
    for 4,000 tools: whole words are counted only in those that may be among the best.

    Args:
        query: the user's words; its first 8,000 characters are read, and 256 words of them.
        rows: the tools to choose from, in catalog order.
        limit: the most to return.

    Returns:
        Names with scores in (0, 1]: the share of the words that stand in the tool, 1 for the one that is named; best
        first. A tool that has none of the words is left out.
    """
    text = query.strip()[:_N_CHARACTERS]
    wanted = _words_to_find(text)
    tools = list(rows)
    candidates: list[_Match] = []
    for place, (name, title, description) in enumerate(tools):
        folded_name, rest = _folded(name), _folded(f"{title}\n{description[:_N_CHARACTERS]}")
        in_name = [word for word in wanted if word in folded_name]
        n_shared = sum(word in rest for word in wanted if word not in in_name) + len(in_name)
        if n_shared:
            candidates.append(_Match(name.casefold() != text.casefold(), -n_shared, -len(in_name), place, False))
    candidates.sort(reverse=True)
    best: list[tuple[str, float]] = []
    counted: list[_Match] = []
    while len(best) < limit and (candidates or counted):
        if counted and (not candidates or counted[0] < candidates[-1]):
            match = heappop(counted)
            best.append((tools[match.place][0], round(-match.n_shared / len(wanted), 6) if match.is_other else 1.0))
        elif (match := _counted(candidates.pop(), tools, wanted)).n_shared or not match.is_other:
            heappush(counted, match)
    return tuple(best)


def bears(text: str, document: ToolDocument) -> bool:
    """Return whether a tool's name, title, description, a tag or its server's name holds a text, in any capitals.

    Args:
        text: normalised, in one line; in a name without separators it is found too.
        document: the tool.
    """
    name = document.name
    fields = (name, name.translate(_SEPARATORS), document.title, document.description, document.server, *document.tags)
    return text in "\n".join(fields).lower()


def _counted(match: _Match, tools: list[Row], wanted: Collection[str]) -> _Match:
    """Return a match by the whole words that the tool has; what holds a word as a part of another is none."""
    name, title, description = tools[match.place]
    in_name = set(words(name)).intersection(wanted)
    shared = in_name.union(set(words(f"{title}\n{description[:_N_CHARACTERS]}")).intersection(wanted))
    return _Match(match.is_other, -len(shared), -len(in_name), match.place, True)


def _folded(text: str) -> str:
    """Return a text in which each of its `words` stands somewhere."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).casefold()


def _words_to_find(query: str) -> Collection[str]:
    """Return the words of a query that say something by themselves; all of them where none does."""
    query_words = words(query)[:_N_QUERY_WORDS]
    return dict.fromkeys(filter(is_content_word, query_words)) or dict.fromkeys(query_words)
