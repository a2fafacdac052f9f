"""The least share of its words that a request must have in common with some tool, measured on the catalog itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_utilities.ranking.answerability import N_NEIGHBOURS, OWN_QUANTILE
from agent_utilities.ranking.postings import Postings
from agent_utilities.ranking.scoring import N_DECIMALS

if TYPE_CHECKING:
    from agent_utilities.ranking.arrays import Scores

REQUEST_SHARE = 0.4
"""Of what a tool's own text has in common with others, what a request has: users have words of their own."""
LEAST_CUT = 0.02
"""Of catalogs so small or so varied that their tools share no words: a common word among many says nothing there."""
N_TOOLS_HALF = 24
"""With so many tools the measure counts half: few tools that all bear one word would ask it of every request."""
_N_SAMPLE = 64
_N_SAMPLE_ENTRIES = 2_000_000


def cut_of(postings: Postings, n_tools: int) -> float:
    """Return the least evidence by words that claims anything.

    As for vectors it follows what 19 of 20 tools' own words reach against the eighth nearest other tool.

    Args:
        postings: the words of the permitted tools.
        n_tools: how many those are.
    """
    import numpy as np

    if n_tools <= N_NEIGHBOURS:
        return LEAST_CUT
    own = float(np.quantile(_evidence_of_own(postings, n_tools), OWN_QUANTILE))
    weight = n_tools / (n_tools + N_TOOLS_HALF)
    return round(max(LEAST_CUT, REQUEST_SHARE * weight * own), N_DECIMALS)


def _evidence_of_own(postings: Postings, n_tools: int) -> Scores:
    """Return the evidence of tools' own words where eight nearest others were not there: (n_sampled,).

    A sample stands for the catalog, spread over it evenly: fewer tools where their words are many tools'.
    """
    import numpy as np

    sizes = np.diff(postings.starts)
    entries_per_tool = max(1.0, float((sizes.astype(np.float64) ** 2).sum()) / n_tools)
    n_sampled = min(n_tools, _N_SAMPLE, max(2 * N_NEIGHBOURS, int(_N_SAMPLE_ENTRIES / entries_per_tool)))
    sample = np.linspace(0, n_tools - 1, n_sampled).astype(np.intp)
    tools, rows = postings.rows_of(sample)
    bounds = np.searchsorted(tools, np.arange(n_sampled + 1))
    evidence = np.zeros(n_sampled, dtype=np.float32)
    for position, place in enumerate(sample):
        own = rows[bounds[position] : bounds[position + 1]]
        if not len(own):
            continue
        entries = np.concatenate([np.arange(postings.starts[row], postings.starts[row + 1]) for row in own])
        scores = np.bincount(postings.places[entries], weights=postings.weights[entries], minlength=n_tools)
        scores[place] = -1
        nth = np.partition(scores, n_tools - N_NEIGHBOURS)[n_tools - N_NEIGHBOURS]
        evidence[position] = nth / float(np.linalg.norm(postings.idf[own]))
    return evidence
