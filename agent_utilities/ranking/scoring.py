"""Scores as they count: to 6 decimals, best first, ties in catalog order."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_utilities.ranking.arrays import Places, Scores

N_DECIMALS = 6
"""Rounding deep inside a sum changes a score by less, and so breaks no tie."""
_ROUNDING = 1e-5
"""More than rounding changes a score by."""


def best_places(scores: Scores, eligible: NDArray[np.bool_] | None, limit: int) -> Places:
    """Return the places of the highest scores, best first; ties in catalog order.

    Args:
        scores: (n_tools,)
        eligible: (n_tools,) which may be returned, or None for all.
        limit: the most to return.
    """
    import numpy as np

    places = np.arange(len(scores)) if eligible is None else np.flatnonzero(eligible)
    candidates = scores if eligible is None else scores[places]
    if 0 < limit < len(candidates):
        least = np.partition(candidates, len(candidates) - limit)[len(candidates) - limit]
        places = places[candidates >= least - _ROUNDING]
    order = np.argsort(-round_scores(scores[places]), kind="stable")
    ranked: Places = places[order[: max(0, limit)]]
    return ranked


def round_scores(scores: Scores) -> NDArray[np.float64]:
    """Return scores to as many decimals as count."""
    import numpy as np

    rounded: NDArray[np.float64] = np.asarray(scores, dtype=np.float64).round(N_DECIMALS)
    return rounded
