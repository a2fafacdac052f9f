"""Which of the tools ranked are said to answer the request: those named in it, and those near enough to the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_utilities.ranking.scoring import N_DECIMALS, round_scores

if TYPE_CHECKING:
    from agent_utilities.ranking.arrays import Places, Scores


@dataclass(frozen=True, slots=True)
class ClaimRule:
    """How far behind the best a tool may lie and still be claimed.

    The further of two distances counts: a fixed one, or a share of the way from the best down to the mean. A request
    for several tools scores far over the mean, and each of them lies somewhere below the first. Neither depends on how
    many tools there are.

    Args:
        distance: the fixed one; 0 leaves the share alone.
        share: of the way down to the mean, 0 to 1.
    """

    distance: float
    share: float

    def least_score(self, scores: Scores) -> float:
        """Return the score from which on a tool is claimed.

        Args:
            scores: (n_permitted,) before what names add.
        """
        if not len(scores):
            return 0.0
        best, mean = float(scores.max()), float(scores.mean())
        return round(best - max(self.distance, self.share * (best - mean)), N_DECIMALS)


def count_claimed(scores: Scores, least: float, places: Places, named: Sequence[int]) -> int:
    """Return how many of the tools ranked are claimed: those named and those whose scores are high enough.

    Args:
        scores: (n_ranked,) before what names add.
        least: as `ClaimRule.least_score` gives it.
        places: (n_ranked,) best first, and those named before all others.
        named: the places of the tools that the request names.
    """
    import numpy as np

    claimed = round_scores(scores) >= least
    if named:
        claimed |= np.isin(places, named)
    return int(claimed.sum())
