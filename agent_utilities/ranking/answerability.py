"""How near tools are to requests by their vectors, and whether a request is answered at all.

Requests that a catalog can't answer are the farther from its tools the more it is about one thing; a cut that is right
for one catalog is wrong for the next, and says nothing about another model. So it is measured on what is permitted.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent_utilities.ranking.arrays import NDArray, Places, Scores, Vectors, np, single_blas_thread
from agent_utilities.ranking.base import N_DECIMALS

CENTRING = 0.5
"""Of the catalog's mean vector, what is taken out: what all tools have in common tells nothing."""
N_NEIGHBOURS = 8
"""A tool's text is held against the eighth nearest other tool: nearer ones may do the same under another name."""
OWN_QUANTILE = 0.05
FOREIGN_SPREADS = 1.7
COVERAGE_SPREADS = 3.0
PART_SPREADS = 7.0
"""How much more evidence one part of a request must give than the whole: of many that no tool need answer, some part
happens to lie near a tool."""
_LEAST_LENGTH = 1e-3
_N_NEAREST_UNANSWERABLE = 16
_N_SAMPLE_CELLS = 4_000_000
_N_SAMPLE = 256
_LEAST_SPREAD = 1e-6


@dataclass(frozen=True, eq=False)
class Answerability:
    """What the permitted tools' vectors say of a request: how near each tool is, and whether it is theirs to answer.

    Args:
        vectors: (n_documents, n_dimensions), of unit length, one for each different document, so that equal tools
            are equally near to the last bit.
        rows: (n_tools,) the place of each tool's document in them.
        mean: (n_dimensions,) half the mean vector.
        scale: (n_documents,) that makes the vectors less that half unit length again.
        unanswerable: (n, n_dimensions) vectors of requests that no tool need answer.
        spread: how far the evidence of such requests scatters downward from their median, on this catalog and by this
            model: the unit of what words add, so that no model's scale is built in.
        cut: the least evidence that claims anything.
    """

    vectors: Vectors
    rows: Places
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    unanswerable: Vectors
    spread: float
    cut: float

    @classmethod
    def of(cls, vectors: Vectors, rows: Places, unanswerable: Vectors) -> Answerability:
        """Return it for the tools of a catalog, or of a part of one; rows are in order of their first place.

        The cut is the higher of two estimates, made to lose one request in a hundred that the tools do answer. The
        unanswerable requests' median evidence and 1.7 spreads: only the lower half of them tells the spread, since a
        catalog may well answer some. And what 19 of 20 tools' own vectors reach against the eighth nearest other tool:
        in a catalog about one thing whatever is asked of it is near to many tools.
        """
        mean = CENTRING * vectors.mean(axis=0)
        squares = np.einsum("ij,ij->i", vectors, vectors) - 2 * (vectors @ mean) + mean @ mean
        with single_blas_thread():
            nearest = (unanswerable @ vectors.T).max(axis=1)
            among_themselves = unanswerable @ unanswerable.T
        np.fill_diagonal(among_themselves, -np.inf)
        foreign = nearest - _mean_of_nearest(among_themselves)
        median = float(np.median(foreign))
        below = foreign[foreign <= median] - median
        spread = max(_LEAST_SPREAD, float(np.sqrt(np.mean(below * below))))
        cut = median + FOREIGN_SPREADS * spread
        if len(vectors) > N_NEIGHBOURS:
            cut = max(cut, float(np.quantile(_evidence_of_own(vectors, unanswerable), OWN_QUANTILE)))
        scale = 1 / np.maximum(np.sqrt(np.maximum(squares, 0)), _LEAST_LENGTH)
        return cls(vectors, rows, mean, scale, unanswerable, round(spread, N_DECIMALS), round(cut, N_DECIMALS))

    @property
    def n_bytes(self) -> int:
        """What the arrays take that are its own, and the places of its tools."""
        return self.vectors.nbytes + self.scale.nbytes + self.mean.nbytes + 2 * self.rows.nbytes

    def of_tools(self, places: Places) -> Vectors:
        """Return the vectors of some of the tools: (n, n_dimensions)."""
        return self.vectors[self.rows[places]]

    def within(self, places: Places) -> Answerability:
        """Return it for the tools at some places, ascending, as a catalog of them alone would have it."""
        old_rows, firsts, rows = np.unique(self.rows[places], return_index=True, return_inverse=True)
        order = np.argsort(firsts)
        return self.of(self.vectors[old_rows[order]], np.argsort(order)[rows], self.unanswerable)

    def cosines(self, queries: Vectors) -> tuple[Vectors, Vectors]:
        """Return the cosines of texts to the tools, as they are, and less what all tools have in common.

        Of `queries`, (n_texts, n_dimensions), both are (n_texts, n_tools).
        """
        with single_blas_thread():
            cosines = queries @ self.vectors.T
        centred = cosines - (queries @ self.mean)[:, None]
        centred *= self.scale
        if len(self.vectors) == len(self.rows):  # no two are equal
            return cosines, centred
        return cosines[:, self.rows], centred[:, self.rows]

    def evidence(self, queries: Vectors, cosines: Vectors, coverage: Vectors | float) -> float:
        """Return how well a request is answered, to be held against the cut: by the whole, or clearly by a part of it.

        A vector of two hundred words lies near no tool, though one sentence in it asks for one. The gap between first
        and second tells nothing, since catalogs hold tools that are much alike.

        Args:
            queries: (n_texts, n_dimensions) of the whole request first, then of its parts.
            cosines: (n_texts, n_tools) to them, as they are.
            coverage: (n_texts, n_tools) the share of each text's words that each tool has, by how rare they are.
        """
        best = (cosines + COVERAGE_SPREADS * self.spread * coverage).max(axis=1)
        with single_blas_thread():
            gaps = best - _mean_of_nearest(queries @ self.unanswerable.T)
        gaps[1:] -= PART_SPREADS * self.spread
        return float(np.max(gaps))

    def gap(self, query: NDArray[np.float32], best: float) -> float:
        """Return how much nearer a request is to what answers it best than to requests that no tool need answer."""
        return best - float(_mean_of_nearest((self.unanswerable @ query)[None, :])[0])


def _mean_of_nearest(cosines: Vectors) -> Scores:
    """Return the mean cosine to the nearest unanswerable requests: what a text shares with those, and with any text."""
    means: Scores = np.sort(cosines, axis=1)[:, -_N_NEAREST_UNANSWERABLE:].mean(axis=1)
    return means


def _evidence_of_own(vectors: Vectors, unanswerable: Vectors) -> Scores:
    """Return the evidence of tools' own vectors where eight nearest others were not there: (n_sampled,).

    A sample stands for a large catalog: spread over it evenly, so that the same tools always give the same.
    """
    n_tools = len(vectors)
    n_sampled = min(n_tools, _N_SAMPLE, max(2 * N_NEIGHBOURS, _N_SAMPLE_CELLS // n_tools))
    sample = np.linspace(0, n_tools - 1, n_sampled).astype(np.intp)
    with single_blas_thread():
        cosines = vectors[sample] @ vectors.T
        to_unanswerable = vectors[sample] @ unanswerable.T
    cosines[np.arange(n_sampled), sample] = -np.inf
    nth = n_tools - N_NEIGHBOURS
    evidence: Scores = np.partition(cosines, nth, axis=1)[:, nth] - _mean_of_nearest(to_unanswerable)
    return evidence
