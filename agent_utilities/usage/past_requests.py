"""Which of the requests that led to a tool are kept as what it answers: few, and as different as they come."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MOST_OF_A_TOOL = 20
"""Past requests of a tool that are kept."""
LONGEST_REQUEST = 500
"""Characters of one."""

_MOST_COMPARED = 30
"""Requests of a tool that are compared with one another, the newest: what it costs grows with their square."""
_SAME = 0.8
"""The share of words from which two requests are one."""
_LEAST_LETTERS = 3
_Words = int
"""The words of a request, each a bit: a set that is compared at once."""
_WORD = re.compile(r"\w+")


def different_requests(newest_first: Iterable[str], most: int = MOST_OF_A_TOOL) -> tuple[str, ...]:
    """Return the requests to keep of those that led to a tool, oldest first; the same ones for the same input.

    The newest is kept, then again and again the one that has least in common with all that are kept; of two that are
    equally far from them, the newer one. Blank ones, ones of less than three letters, and ones that say what a newer
    one says are dropped.

    Args:
        newest_first: the requests, in the order of their last use.
        most: how many to keep.
    """
    candidates = _distinct(newest_first)
    places = _farthest_first([words for _, words in candidates], most)
    return tuple(candidates[place][0] for place in sorted(places, reverse=True))


def _distinct(newest_first: Iterable[str]) -> list[tuple[str, _Words]]:
    """Return the newest requests that differ, each with its words."""
    bits: dict[str, int] = {}
    found: list[tuple[str, _Words]] = []
    for request in newest_first:
        text = " ".join(request[: 2 * LONGEST_REQUEST].split())[:LONGEST_REQUEST].rstrip()
        if sum(map(str.isalpha, text)) < _LEAST_LETTERS:
            continue
        words = 0
        for word in _WORD.findall(text.casefold()):
            words |= 1 << bits.setdefault(word, len(bits))
        if all(_shared(words, others) < _SAME for _, others in found):
            found.append((text, words))
        if len(found) == _MOST_COMPARED:
            break
    return found


def _farthest_first(words: Sequence[_Words], most: int) -> list[int]:
    """Return the places of the requests to keep: the first, then each time the one farthest from those."""
    if len(words) <= most:
        return list(range(len(words)))
    chosen = [0]
    shared = {place: _shared(words[0], words[place]) for place in range(1, len(words))}
    while len(chosen) < most:
        farthest = min(shared, key=shared.__getitem__)
        del shared[farthest]
        chosen.append(farthest)
        for place, value in shared.items():
            shared[place] = max(value, _shared(words[farthest], words[place]))
    return chosen


def _shared(first: _Words, second: _Words) -> float:
    """Return how many of the words of two requests are in both, from 0 to 1 (Jaccard's index)."""
    n_any = (first | second).bit_count()
    return (first & second).bit_count() / n_any if n_any else 1.0
