"""Tools by the words that they share with a query, where no ranker can answer."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.terms import is_content_word, words

_N_QUERY_WORDS = 256
_N_CHARACTERS = 8_000
_SEPARATORS = str.maketrans("", "", "_-./: ")

Row = tuple[str, str, str]
"""A tool's name, title and description."""


def plain_matches(query: str, rows: Iterable[Row], limit: int) -> tuple[tuple[str, float], ...]:
    """Return the tools that bear a query's words, those that bear most of them first.

    A tool whose whole name is the query comes first; of tools that bear as many words, those that bear more of them in
    their names, and then those that come first. Nothing but the rows given moves a score. For a thread: of 4,000 tools
    that all bear a word it takes a tenth of a second.

    Args:
        query: the user's words; its first 8,000 characters are read, and 256 words of them.
        rows: the tools to choose from, in catalog order.
        limit: the most to return.

    Returns:
        Names with scores in (0, 1]: the share of the words that stand in the tool, 1 for the one that is named; best
        first. A tool that has none of the words is left out.
    """
    text = query.strip()[:_N_CHARACTERS]
    query_words = words(text)[:_N_QUERY_WORDS]
    wanted = frozenset(filter(is_content_word, query_words)) or frozenset(query_words)
    found: list[tuple[bool, int, int, str]] = []
    for name, title, description in rows:
        told = f"{title}\n{description[:_N_CHARACTERS]}"
        folded = _folded(f"{name}\n{told}")
        if not any(word in folded for word in wanted):
            continue
        in_name = wanted.intersection(words(name))
        n_shared = len(in_name | wanted.intersection(words(told)))
        if n_shared or name.casefold() == text.casefold():
            found.append((name.casefold() == text.casefold(), n_shared, len(in_name), name))
    found.sort(key=lambda each: each[:3], reverse=True)
    return tuple(
        (name, 1.0 if is_named else round(n_shared / len(wanted), 6)) for is_named, n_shared, _, name in found[:limit]
    )


def bears(text: str, document: ToolDocument) -> bool:
    """Return whether a tool's name, title, description, a tag or its server's name holds a text, in any capitals."""
    name = document.name
    fields = (name, name.translate(_SEPARATORS), document.title, document.description, document.server, *document.tags)
    return text in "\n".join(fields).lower()


def _folded(text: str) -> str:
    """Return a text in which each of its `words` stands somewhere."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).casefold()
