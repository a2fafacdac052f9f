"""The knowledge graph's answer to a query, as data: only `decide` chooses what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["off", "fresh", "stale", "no_match", "unavailable"]
"""`off`: nothing was asked or no graph is there · `fresh`, `stale`: answered · `no_match`, `unavailable`: show all."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """An answer to one query on one server.

    Args:
        status: how the answer came about.
        names: names of the tools that answer the query, best first; counts only with `fresh` and `stale`.
        cause: for people, why there is no answer, or less of one than there could be; empty where it is whole.
        scores: what the ranker gives each name, aligned with `names`, or empty; None for one that only the graph found.
        words: the words of the query that the ranker found in each, aligned with `names`, or empty.
        n_left_out: how many more tools answer, beyond the `top_k` that were asked for.
    """

    status: Status = "off"
    names: tuple[str, ...] = ()
    cause: str = ""
    scores: tuple[float | None, ...] = ()
    words: tuple[tuple[str, ...], ...] = ()
    n_left_out: int = 0

    @property
    def answered(self) -> bool:
        """Whether `names` narrows what is shown."""
        return self.status in ("fresh", "stale")
