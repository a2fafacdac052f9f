"""The nearest valid choice for a name that nothing bears."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, choices: Iterable[str], cutoff: float = 70) -> str | None:
    """Return the choice most like a name, or None where none is near; ties go to the first in alphabetical order.

    Args:
        name: what was written.
        choices: what could have been meant.
        cutoff: the least similarity, 0 to 100 (normalised indel distance).
    """
    from rapidfuzz import process
    from rapidfuzz.distance import Indel

    found = process.extractOne(name, sorted(choices), scorer=Indel.normalized_similarity, score_cutoff=cutoff / 100)
    return None if found is None else found[0]


def load() -> None:
    """Import what comparing takes, 30 ms, which the first request would otherwise wait for."""
    from rapidfuzz import process  # noqa: F401
