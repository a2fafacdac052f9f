"""What one caller did before, as far as it helps to answer him."""

from __future__ import annotations

from dataclasses import dataclass

N_NEAR = 8
"""The most tools that a request stands near to."""


@dataclass(frozen=True, slots=True)
class Trail:
    """What one caller did before.

    Args:
        scope: whose usage counts: everybody's of the server where empty, else the subject's of this salted hash.
        near: names of the tools that he called last, newest first, then of those that are active; at most 8.
    """

    scope: str = ""
    near: tuple[str, ...] = ()


NO_TRAIL = Trail()
"""Of a caller of whom nothing is known."""
