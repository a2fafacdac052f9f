"""What a ranker is: documents in, an index out; a request in, tools out, best first; and plain matches where none can.

Scores count to 6 decimals, ties stand in catalog order, and the best of them are claimed.
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
"""What callers are told where vectors were wanted and aren't there; the reason is for the operator's log."""


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
        parts: by what it comes from, what each score is the sum of, aligned with `indexes`; where that was asked for.
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
        """For people, why the ranking claims nothing; empty where it claims something."""
        if not self.abstained:
            return ""
        if self.cut is None:
            return "nothing fits"
        best = f"the best score, {self.scores[0]:.2f}, is under" if self.scores else "no score reaches"
        return f"nothing fits: {best} {self.cut:.2f}"


Parts = dict[str, Scores]
"""What scores are the sum of, each (n_tools,), by what it comes from."""


class Index(Protocol):
    """A catalog made ready to be searched; immutable, so that threads and requests share it."""

    @property
    def cause(self) -> str:
        """Why this index is less than what was asked for; empty where it isn't."""
        ...

    def rank(
        self, query: str, *, permitted: Sequence[int] | None = None, limit: int = 25, parts: Parts | None = None
    ) -> Ranking:
        """Return the tools that answer a request: the same for the same inputs, in every process.

        What is not permitted moves nothing: the ranking is that of a catalog that has the permitted tools only.
        It blocks for as long as it computes: call it in a thread, unless the index is lexical and small.

        Args:
            query: the request in the user's words.
            permitted: places in the catalog that may be ranked (law L1); None permits all.
            limit: the most to return.
            parts: is given what each score is the sum of, for who wants to know; None for nobody.
        """
        ...


class Ranker(Protocol):
    """Makes indexes. One that follows another takes over whatever has not changed."""

    def index(self, documents: Sequence[ToolDocument]) -> Index:
        """Return an index of documents in catalog order; processor work, for a thread.

        It does not fail: where it can't do what it should, it returns a plainer index that says why.
        """
        ...


SPARE_BYTES = 8 << 20
"""What views may take beyond what the whole catalog does: about 5,000 tools, or some hundred views of a few."""
_OVERHEAD_BYTES = 4 << 10
"""Of a view's objects, whatever its arrays hold: about 2 KB, in six that the garbage collector walks."""


class View(Protocol):
    """Some tools of a catalog, as a catalog of them alone would be."""

    @property
    def n_bytes(self) -> int:
        """What it takes, and the places of its tools."""
        ...


V = TypeVar("V", bound=View)


def views_of(whole: V, n_tools: int, make: Callable[[Places], V]) -> Callable[[Sequence[int] | None], V]:
    """Return what gives the view of the permitted tools: what a catalog would be if it had those only.

    What is common, rare or long in a catalog is a matter of all its tools, so that a tool which is denied would
    otherwise move the scores of those that are not (law L1). Sets of permitted tools are few, one for each scope of
    callers. The views used last are kept, which take no more together than the whole catalog and `SPARE_BYTES`.

    Args:
        whole: the view of all tools, where None is permitted.
        n_tools: how many those are.
        make: makes a view of the tools at some places, ascending. It should not hold what holds the views, or a
            catalog that was swapped out stays in memory until a full garbage collection.
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
"""Rounding deep inside a sum changes a score by less, and so breaks no tie."""
_ROUNDING = 1e-5
"""More than rounding changes a score by."""


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
    best, mean = float(scores.max()), float(scores.sum()) / len(scores)
    return round(best - max(distance, share * (best - mean)), N_DECIMALS)


def count_claimed(scores: Scores, least: float, places: Places, named: Sequence[int]) -> int:
    """Return how many of the tools ranked, best first, are claimed: those named and those of high enough scores.

    The scores are what they were before what names add, and `least` as `least_claimed` gives it.
    """
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
    """Return the tools that bear a query's words, those that bear most of them first.

    A tool whose whole name is the query comes first; of tools that bear as many words, those that bear more of them in
    their names, and then those that come first. Nothing but the rows given moves a score. For a thread: of 4,000 tools
    that all bear a word it takes a tenth of a second.

    Args:
        query: the user's words; its first 8,000 characters are read, and 256 words of them.
        rows: the tools to choose from, in catalog order.
        limit: the most to return.

    Returns:
        Names with scores in (0, 1]: the share of the words that stand in the tool, 1 for the one that is named; best
        first. A tool that has none of the words is left out.
    """
    text = query.strip()[:_N_CHARACTERS]
    query_words = words(text)[:_N_QUERY_WORDS]
    wanted = frozenset(query_words) - STOPWORDS or frozenset(query_words)
    found: list[tuple[bool, int, int, str]] = []
    for name, title, description in rows:
        told = f"{title}\n{description[:_N_CHARACTERS]}"
        folded = _folded(f"{name}\n{told}")
        if not any(word in folded for word in wanted):
            continue
        in_name = wanted.intersection(words(name))
        n_shared = len(in_name | wanted.intersection(words(told)))
        if n_shared or name.casefold() == text.casefold():
            found.append((name.casefold() == text.casefold(), n_shared, len(in_name), name))
    found.sort(key=lambda each: each[:3], reverse=True)
    return tuple(
        (name, 1.0 if is_named else round(n_shared / len(wanted), 6)) for is_named, n_shared, _, name in found[:limit]
    )


def bears(text: str, document: ToolDocument) -> bool:
    """Return whether a tool's name, title, description, a tag or its server's name holds a text, in any capitals."""
    name = document.name
    fields = (name, name.translate(_SEPARATORS), document.title, document.description, document.server, *document.tags)
    return text in "\n".join(fields).lower()


def _folded(text: str) -> str:
    """Return a text in which each of its `words` stands somewhere."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).casefold()
