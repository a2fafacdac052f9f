"""What past requests may do to a ranking: raise a few tools, and never hide one.

A tool that has past requests is nearer to any request than one that has none, for people ask in the words of people.
So a tool of which nothing was learned is given what the fifth best of the others comes to, and only the few that then
stand first are raised at all: whatever else the words found keeps its score, and sinks by no more than those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_utilities.ranking.scoring import best_places

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_utilities.ranking.arrays import Places, Scores

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
    import numpy as np

    gains = np.maximum(gains, 0)
    usual = 0.0 if len(gains) < _NTH_GAIN else float(np.partition(gains, -_NTH_GAIN)[-_NTH_GAIN])
    learned = scores + np.float32(usual)
    learned[places] = scores[places] + gains
    best = best_places(learned, eligible, N_RAISED)
    raised = scores.copy()
    raised[best] = learned[best]
    return raised
