"""Tools by the words that they share with a query, where no ranker can answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_utilities.ranking.text import is_content_word, words

_N_QUERY_WORDS = 256
_N_CHARACTERS = 8_000

Row = tuple[str, str, str]
"""A tool's name, title and description."""


def plain_matches(query: str, rows: Iterable[Row], limit: int) -> tuple[tuple[str, float], ...]:
    """Return the tools that bear a query's words, those that bear most of them first.

    A tool whose whole name is the query comes first; of tools that bear as many words, those that bear more of them in
    their names, and then those that come first. Nothing but the rows given moves a score.

    Args:
        query: the user's words; its first 8,000 characters are read, and 256 words of them.
        rows: the tools to choose from, in catalog order.
        limit: the most to return.

    Returns:
        Names with scores in (0, 1]: the share of the words that stand in the tool, 1 for the one that is named; best
        first. A tool that has none of the words is left out.
    """
    text = query.strip()[:_N_CHARACTERS]
    wanted = frozenset(_content(text))
    found: list[tuple[bool, float, int, str]] = []
    for name, title, description in rows:
        is_named = name.casefold() == text.casefold()
        in_name = wanted.intersection(words(name))
        n_shared = len(in_name.union(wanted.intersection(words(f"{title}\n{description[:_N_CHARACTERS]}"))))
        if is_named or n_shared:
            found.append((is_named, 1.0 if is_named else n_shared / len(wanted), len(in_name), name))
    found.sort(key=lambda match: match[:3], reverse=True)
    return tuple((name, round(score, 6)) for _, score, _, name in found[: max(0, limit)])


def _content(query: str) -> Sequence[str]:
    """Return the words of a query that say something by themselves; all of them where none does."""
    query_words = words(query)[:_N_QUERY_WORDS]
    return list(filter(is_content_word, query_words)) or query_words
