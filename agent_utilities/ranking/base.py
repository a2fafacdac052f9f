"""What a ranker is: documents in, an index out; a request in, the tools that answer it out, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from agent_utilities.catalog.document import ToolDocument

if TYPE_CHECKING:
    from agent_utilities.ranking.past_requests import PastRequests


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

    @property
    def why_none(self) -> str:
        """For people, why the ranking claims nothing; empty where it claims something."""
        if not self.abstained:
            return ""
        if self.cut is None:
            return "nothing fits"
        best = f"the best score, {self.scores[0]:.2f}, is under" if self.scores else "no score reaches"
        return f"nothing fits: {best} {self.cut:.2f}"


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


@runtime_checkable
class LearningIndex(Index, Protocol):
    """An index that can learn what was asked before."""

    @property
    def n_learned_bytes(self) -> int:
        """What it takes beyond the index that it was made from."""
        ...

    def learn(self, past: PastRequests) -> LearningIndex:
        """Return the same index that knows past requests of its tools too; this one stays as it is. For a thread.

        Raises:
            RankerError: the requests can't be embedded.
        """
        ...


class Ranker(Protocol):
    """Makes indexes. One that follows another takes over whatever has not changed."""

    def index(self, documents: Sequence[ToolDocument]) -> Index:
        """Return an index of documents in catalog order; processor work, for a thread.

        It does not fail: where it can't do what it should, it returns a plainer index that says why.
        """
        ...
