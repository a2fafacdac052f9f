"""Scores as they count: to 6 decimals, best first, ties in catalog order, and which of them are claimed."""

from __future__ import annotations

from collections.abc import Sequence

from agent_utilities.ranking.arrays import NDArray, Places, Scores, np

N_DECIMALS = 6
"""Rounding deep inside a sum changes a score by less, and so breaks no tie."""
_ROUNDING = 1e-5
"""More than rounding changes a score by."""


def best_places(scores: Scores, eligible: NDArray[np.bool_] | None, limit: int) -> Places:
    """Return the places of the highest scores, best first; ties in catalog order. `eligible` is None for all."""
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
    rounded: NDArray[np.float64] = np.asarray(scores, dtype=np.float64).round(N_DECIMALS)
    return rounded


N_RAISED = 7
"""The most tools that past requests raise, and so the most places that another one sinks by."""
_NTH_GAIN = 5


def raise_best(scores: Scores, places: Places, gains: Scores, eligible: NDArray[np.bool_] | None = None) -> Scores:
    """Return scores of which the few best have risen: (n_tools,); none has fallen.

    Args:
        scores: (n_tools,) as the tools' own texts make them.
        places: (n_learned,) of the tools that have past requests.
        gains: (n_learned,) what those say for each; below 0 counts as nothing.
        eligible: (n_tools,) which may be ranked, or None for all.
    """
    gains = np.maximum(gains, 0)
    usual = 0.0 if len(gains) < _NTH_GAIN else float(np.partition(gains, -_NTH_GAIN)[-_NTH_GAIN])
    learned = scores + np.float32(usual)
    learned[places] = scores[places] + gains
    best = best_places(learned, eligible, N_RAISED)
    raised = scores.copy()
    raised[best] = learned[best]
    return raised


def least_claimed(scores: Scores, distance: float, share: float) -> float:
    """Return the score from which on a tool is claimed: how far behind the best it may lie.

    The further of two distances counts: a fixed one, or a share of the way from the best down to the mean. A request
    for several tools scores far over the mean, and each of them lies somewhere below the first. Neither depends on how
    many tools there are.

    Args:
        scores: (n_permitted,) before what names add.
        distance: the fixed one; 0 leaves the share alone.
        share: of the way down to the mean, 0 to 1.
    """
    if not len(scores):
        return 0.0
    best, mean = float(scores.max()), float(scores.mean())
    return round(best - max(distance, share * (best - mean)), N_DECIMALS)


def count_claimed(scores: Scores, least: float, places: Places, named: Sequence[int]) -> int:
    """Return how many of the tools ranked are claimed: those named and those whose scores are high enough.

    Args:
        scores: (n_ranked,) before what names add.
        least: as `least_claimed` gives it.
        places: (n_ranked,) best first, and those named before all others.
        named: the places of the tools that the request names.
    """
    claimed = round_scores(scores) >= least
    if named:
        claimed |= np.isin(places, named)
    return int(claimed.sum())
