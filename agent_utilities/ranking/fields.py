"""The fields of a tool's document and what each weighs, and the terms that one text has."""

from __future__ import annotations

from collections.abc import Mapping

from agent_utilities.ranking.text import content_words, humped_words, stem

SURFACE_WEIGHT = 0.3
"""Of a word as it stands, beside 1 for its stem."""
FIELD_WEIGHTS: Mapping[str, float] = {
    "name": 4,
    "title": 2,
    "description": 1,
    "hints": 1,
    "parameters": 1,
    "parameter_descriptions": 0.5,
    "tags": 1,
    "server": 1,
    "server_text": 0.15,
}


def count_terms(text: str) -> dict[str, float]:
    """Return how often a text has each term: words as they stand, their stems, and humped words as one."""
    counts: dict[str, float] = {}
    for word in content_words(text) if text else ():
        stemmed = stem(word)
        counts[word] = counts.get(word, 0) + SURFACE_WEIGHT
        counts[stemmed] = counts.get(stemmed, 0) + 1
    for term in humped_words(text):
        counts[term] = counts.get(term, 0) + SURFACE_WEIGHT
    return counts
