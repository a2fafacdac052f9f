"""What a ranker is: documents in, an index out; a request in, the tools that answer it out, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.errors import AgentUtilitiesError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.float32]
    """(n_tools,)"""


_ROUNDING = 1e-5
"""More than rounding moves a score."""


class RankerError(AgentUtilitiesError, RuntimeError):
    """A ranker can't do its work; a plainer one takes its place."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The tools that answer a request.

    Args:
        indexes: places in the catalog, best first; ties in catalog order; permitted ones only.
        scores: aligned with `indexes`, never rising. The first says how well the request is answered at all, and can
            be compared between requests of one kind of index.
        abstained: nothing here fits, the first score is under the cut: claim nothing and show all (law L5).
        matched: for each index, the words of the request that stand in the tool's text, in the request's order.
        cause: for people, why the ranking is less than it could be; empty where it isn't.
        n_claimed: how many of `indexes`, from the first, are said to answer the request: those named in it and those
            whose score is near enough to the best; none where the ranking abstained. The others are far behind.
        cut: the least first score that claims anything; None where nothing was measured.
    """

    indexes: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    abstained: bool = True
    matched: tuple[tuple[str, ...], ...] = ()
    cause: str = ""
    n_claimed: int = 0
    cut: float | None = None


class Index(Protocol):
    """A catalog made ready to be searched; immutable, so that threads and requests share it."""

    @property
    def cause(self) -> str:
        """Why this index is less than what was asked for; empty where it isn't."""
        ...

    def rank(self, query: str, *, permitted: Sequence[int] | None = None, limit: int = 25) -> Ranking:
        """Return the tools that answer a request: the same for the same inputs, in every process.

        What is not permitted moves nothing: the ranking is that of a catalog that has the permitted tools only.
        It blocks for as long as it computes: call it in a thread, unless the index is lexical and small.

        Args:
            query: the request in the user's words.
            permitted: places in the catalog that may be ranked (law L1); None permits all.
            limit: the most to return.
        """
        ...


class Ranker(Protocol):
    """Makes indexes. One that follows another takes over whatever has not changed."""

    def index(self, documents: Sequence[ToolDocument]) -> Index:
        """Return an index of documents in catalog order; processor work, for a thread.

        It does not fail: where it can't do what it should, it returns a plainer index that says why.
        """
        ...


def best(scores: Scores, allowed: NDArray[np.bool_] | None, limit: int) -> NDArray[np.intp]:
    """Return the places of the highest scores, best first; ties in catalog order.

    Scores count to 6 decimals, so that rounding deep inside a sum breaks no tie.

    Args:
        scores: (n_tools,)
        allowed: (n_tools,) which may be returned, or None for all.
        limit: the most to return.
    """
    import numpy as np

    places = None if allowed is None else np.flatnonzero(allowed)
    considered = scores if places is None else scores[places]
    if 0 < limit < len(considered):
        least = np.partition(considered, len(considered) - limit)[len(considered) - limit]
        chosen = np.flatnonzero(considered >= least - _ROUNDING)
        places = chosen if places is None else places[chosen]
    elif places is None:
        places = np.arange(len(scores))
    kept = rounded(scores[places])
    found: NDArray[np.intp] = places[np.argsort(-kept, kind="stable")[: max(0, limit)]]
    return found


def least_claimed(scores: Scores, near: float, depth: float) -> float:
    """Return the score from which on a tool is claimed to answer a request.

    It lies a fixed distance under the best, or a share of the way from the best down to the mean if that is further: a
    request for several tools scores far over the mean, and each of them lies somewhere below the first. Neither
    depends on how many tools there are.

    Args:
        scores: (n_permitted,) before what names add.
        near: the distance.
        depth: the share.
    """
    if not len(scores):
        return 0.0
    top, mean = float(scores.max()), float(scores.mean())
    return round(top - max(near, depth * (top - mean)), 6)


def count_claimed(scores: Scores, least: float, found: NDArray[np.intp], named: Sequence[int]) -> int:
    """Return how many of the tools found are claimed: those named and those whose scores are high enough.

    Args:
        scores: (n_found,) before what names add.
        least: as `least_claimed` gives it.
        found: (n_found,) places, best first and those named before all others.
        named: places.
    """
    import numpy as np

    claimed = rounded(scores) >= least
    if named:
        claimed |= np.isin(found, named)
    return int(claimed.sum())


def rounded(scores: Scores) -> NDArray[np.float64]:
    """Return scores to 6 decimals, as far as they count."""
    import numpy as np

    kept: NDArray[np.float64] = np.asarray(scores, dtype=np.float64).round(6)
    return kept
