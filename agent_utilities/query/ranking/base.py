"""The protocols of rankers and their indexes, what all rankers share, and plain matches without any ranker.

Scores are rounded to 6 decimals, and ties are in catalog order.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from cachetools import LRUCache, cached

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.catalog.words import STOPWORDS, words
from agent_utilities.query.ranking.arrays import NDArray, Places, Scores, np

BY_WORDS = "ranked by words alone"
"""The cause that callers see where vectors are missing; the reason is in the operator's log."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The tools that answer a request.

    Args:
        indexes: places in the catalog, best first; ties in catalog order; permitted ones only.
        scores: aligned with `indexes`, descending. The first says how well the request is answered at all, and can be
            compared between requests to one kind of index.
        abstained: the first score is under the cut: claim nothing and show all (law L5).
        matched: for each index, the words of the request in the tool's text, in the request's order.
        cause: for people, why the ranking is incomplete; empty where it is complete.
        n_claimed: how many of `indexes`, from the first, answer the request: those named in it and those whose score
            is near enough to the best; none where the ranking abstained.
        cut: the least first score that claims anything; None where it was not measured.
        parts: the summands of each score by their source, aligned with `indexes`; where they were requested.
    """

    indexes: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    abstained: bool = True
    matched: tuple[tuple[str, ...], ...] = ()
    cause: str = ""
    n_claimed: int = 0
    cut: float | None = None
    parts: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def why_none(self) -> str:
        """Why the ranking claims nothing, for people; empty where it claims something."""
        if not self.abstained:
            return ""
        if self.cut is None:
            return "nothing fits"
        best = f"the best score, {self.scores[0]:.2f}, is under" if self.scores else "no score reaches"
        return f"nothing fits: {best} {self.cut:.2f}"


Parts = dict[str, Scores]
"""The summands of scores by their source, each (n_tools,)."""


class Index(Protocol):
    """An index of a catalog; immutable, so that threads and requests share it."""

    @property
    def cause(self) -> str:
        """Why this index is simpler than configured; empty where it isn't."""
        ...

    def rank(
        self, query: str, *, permitted: Sequence[int] | None = None, limit: int = 25, parts: Parts | None = None
    ) -> Ranking:
        """Rank the tools for a request: deterministic in every process.

        The ranking is that of a catalog of the permitted tools alone. Call it in a thread, unless the index is lexical
        and small.

        Args:
            query: the request in the user's words.
            permitted: places in the catalog that may be ranked (law L1); None permits all.
            limit: the most to return.
            parts: is filled with the summands of each score.
        """
        ...


class Ranker(Protocol):
    """Builds indexes, and reuses what has not changed since the last one."""

    def index(self, documents: Sequence[ToolDocument]) -> Index:
        """Return an index of documents in catalog order; processor work, for a thread.

        It does not fail: it falls back to a simpler index that says why.
        """
        ...


SPARE_BYTES = 8 << 20
"""The size of cached views beyond the whole catalog's: about 5,000 tools, or some hundred views of a few."""
_OVERHEAD_BYTES = 4 << 10
"""The size of a view's objects beside its arrays."""


class View(Protocol):
    """Some tools of a catalog, indexed as a catalog of them alone."""

    @property
    def n_bytes(self) -> int:
        """Its size, with the places of its tools."""
        ...


V = TypeVar("V", bound=View)


def views_of(whole: V, n_tools: int, make: Callable[[Places], V]) -> Callable[[Sequence[int] | None], V]:
    """Return a cached function from permitted places to the view of a catalog of those tools alone.

    Frequencies and lengths depend on all tools of a catalog, so that denied ones would otherwise move the scores of the
    others (law L1). Sets of permitted tools are few, one for each scope of callers. The cache holds no more than the
    whole catalog's size and `SPARE_BYTES`.

    Args:
        whole: the view of all tools, where None is permitted.
        make: makes a view of the tools at some places, ascending. It must not refer to the owner of the views, or a
            replaced catalog stays in memory until a full garbage collection.
    """

    def n_bytes(view: V) -> int:
        return _OVERHEAD_BYTES + (0 if view is whole else view.n_bytes)

    def key(permitted: Sequence[int] | None) -> Hashable:
        return None if permitted is None else tuple(permitted)

    @cached(LRUCache(whole.n_bytes + SPARE_BYTES, n_bytes), key, threading.Lock())
    def view(permitted: Sequence[int] | None) -> V:
        if permitted is None:
            return whole
        places = np.unique(np.array(permitted, dtype=np.intp))
        return whole if len(places) == n_tools else make(places)

    return view


N_DECIMALS = 6
"""Floating-point errors are smaller, and so break no tie."""
_ROUNDING = 1e-5
"""More than rounding changes a score."""


def best_places(scores: Scores, eligible: NDArray[np.bool_] | None, limit: int) -> Places:
    """Return the places of the highest scores, best first; ties in catalog order. `eligible` is None for all."""
    places = np.arange(len(scores)) if eligible is None else eligible.nonzero()[0]
    candidates = scores if eligible is None else scores[places]
    if 0 < limit < len(candidates):
        least = np.partition(candidates, len(candidates) - limit)[len(candidates) - limit]
        places = places[candidates >= least - _ROUNDING]
    order = (-round_scores(scores[places])).argsort(kind="stable")
    ranked: Places = places[order[: max(0, limit)]]
    return ranked


def round_scores(scores: Scores) -> NDArray[np.float64]:
    rounded: NDArray[np.float64] = np.asarray(scores, dtype=np.float64).round(N_DECIMALS)
    return rounded


N_RAISED = 7
"""The most tools that past requests raise, and so the most places that another one falls."""
_NTH_GAIN = 5


def raise_best(scores: Scores, places: Places, gains: Scores, eligible: NDArray[np.bool_] | None = None) -> Scores:
    """Return scores with the gains of the few best: (n_tools,); none is lower than before.

    Args:
        scores: (n_tools,) of the tools' own texts.
        places: (n_learned,) of the tools that have past requests.
        gains: (n_learned,) by their past requests; below 0 counts as 0.
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
    """Return the least score that is claimed.

    It is the lower of two: a fixed distance below the best, or a share of the way from the best down to the mean, as a
    request for several tools scores them all far over the mean. Neither depends on the number of tools.

    Args:
        scores: (n_permitted,) without what names add.
        distance: the fixed one; 0 leaves the share alone.
        share: of the way down to the mean, 0 to 1.
    """
    if not len(scores):
        return 0.0
    best, mean = float(scores.max()), float(scores.sum()) / len(scores)
    return round(best - max(distance, share * (best - mean)), N_DECIMALS)


def count_claimed(scores: Scores, least: float, places: Places, named: Sequence[int]) -> int:
    """Return how many of the ranked tools are claimed: those named, and those with `least_claimed` or more."""
    claimed = round_scores(scores) >= least
    if named:
        claimed |= np.isin(places, named)
    return int(claimed.sum())


_N_QUERY_WORDS = 256
_N_CHARACTERS = 8_000
_SEPARATORS = str.maketrans("", "", "_-./: ")

Row = tuple[str, str, str]
"""A tool's name, title and description."""


def plain_matches(query: str, rows: Iterable[Row], limit: int) -> tuple[tuple[str, float], ...]:
    """Return the tools that have a query's words, those with most of them first.

    A tool whose whole name is the query comes first; ties go to tools with more of the words in their names, then to
    catalog order. Only these rows affect a score. For a thread: 4,000 matching tools take a tenth of a second.

    Args:
        query: the user's words; its first 8,000 characters are read, and 256 words of them.
        rows: the tools to choose from, in catalog order.
        limit: the most to return.

    Returns:
        Names with scores in (0, 1], best first: the share of the words that the tool has, 1 for the one that is named.
    """
    text = query.strip()[:_N_CHARACTERS]
    query_words = words(text)[:_N_QUERY_WORDS]
    wanted = frozenset(query_words) - STOPWORDS or frozenset(query_words)
    matches: list[tuple[bool, int, int, str]] = []
    for name, title, description in rows:
        prose = f"{title}\n{description[:_N_CHARACTERS]}"
        folded = _folded(f"{name}\n{prose}")
        if not any(word in folded for word in wanted):
            continue
        in_name = wanted.intersection(words(name))
        n_shared = len(in_name | wanted.intersection(words(prose)))
        if n_shared or name.casefold() == text.casefold():
            matches.append((name.casefold() == text.casefold(), n_shared, len(in_name), name))
    matches.sort(key=lambda each: each[:3], reverse=True)
    return tuple(
        (name, 1.0 if is_named else round(n_shared / len(wanted), 6)) for is_named, n_shared, _, name in matches[:limit]
    )


def bears(text: str, document: ToolDocument) -> bool:
    """Whether a tool's name, title, description, tags or server contain a lower-case text."""
    name = document.name
    fields = (name, name.translate(_SEPARATORS), document.title, document.description, document.server, *document.tags)
    return text in "\n".join(fields).lower()


def _folded(text: str) -> str:
    """Fold a text as `words` does, so that it contains each of them."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).casefold()
