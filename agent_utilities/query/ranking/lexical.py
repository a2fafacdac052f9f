"""The lexical ranker: BM25 in well under a millisecond, by numpy and a stemmer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from math import hypot

from agent_utilities.catalog.document import ToolDocument, split_identifier
from agent_utilities.catalog.words import without_negated
from agent_utilities.query.ranking import base
from agent_utilities.query.ranking.answerability import PastRequests
from agent_utilities.query.ranking.arrays import NDArray, Places, Scores, np
from agent_utilities.query.ranking.base import N_DECIMALS, Parts, Ranking
from agent_utilities.query.ranking.document_terms import Reader, spellings_of
from agent_utilities.query.ranking.terms import DocumentTerms, Postings, RequestTerms

REQUEST_SHARE = 0.4
"""The share of a tool's evidence for others that a request needs: users have words of their own."""
LEAST_CUT = 0.02
"""The cut of catalogs so small or so varied that their tools share no words."""
N_TOOLS_HALF = 24
"""The number of tools with which the measure counts half: few tools that share one word would require it always."""
_N_SAMPLE = 64
_N_SAMPLE_ENTRIES = 2_000_000
CLAIM_DISTANCE, CLAIM_SHARE = 0.5, 0.85
SERVER_WEIGHT = 0.4
_N_NEIGHBOURS = 8
_OWN_QUANTILE = 0.05
PAST_EVIDENCE = 0.5
"""The weight of past requests' words in the evidence that a request is answered at all."""
_LEAST_NORM = 1e-6
_MENTION = re.compile(r"\w[\w./:-]*")
_QUOTES = ("`", '"', "'")


def places_by_name(documents: Sequence[ToolDocument]) -> Mapping[str, Sequence[int]]:
    """Return the places of tools by folded name: callers' name, and the server's, with and without the server."""
    places: dict[str, list[int]] = {}
    for place, document in enumerate(documents):
        own_name = document.read_name.casefold()
        names = {document.name.casefold(), own_name}
        if document.server:
            names.add(f"{document.server.casefold()}/{own_name}")
        for name in names:
            places.setdefault(name, []).append(place)
    return places


@dataclass(frozen=True, eq=False)
class LexicalView:
    """The permitted tools of a catalog, with the weights of words among them alone.

    Args:
        names: the places in the catalog of each name.
        server_of: (n_tools,) the number of each one's server.
        server_sizes: (n_servers,) in tools.
        places: (n_tools,) in the catalog, ascending; None where all are permitted.
        positions: (n_catalog,) of each tool of the catalog among them, or -1; None likewise.
    """

    documents: Sequence[DocumentTerms]
    postings: Postings
    names: Mapping[str, Sequence[int]]
    server_of: Places
    server_sizes: Places
    places: Places | None = None
    positions: Places | None = None

    @property
    def n_tools(self) -> int:
        return len(self.documents)

    @property
    def n_bytes(self) -> int:
        of_catalog = 0 if self.positions is None else self.positions.nbytes
        return self.postings.n_bytes + 5 * 8 * self.n_tools + of_catalog

    @cached_property
    def cut(self) -> float:
        """The least first score that claims anything, from 19 of 20 tools' evidence for the eighth nearest other."""
        if self.n_tools <= _N_NEIGHBOURS:
            return LEAST_CUT
        own = float(np.quantile(self._evidence_of_own(), _OWN_QUANTILE))
        weight = self.n_tools / (self.n_tools + N_TOOLS_HALF)
        return round(max(LEAST_CUT, REQUEST_SHARE * weight * own), N_DECIMALS)

    def _evidence_of_own(self) -> Scores:
        """Return the evidence of tools' own words for the eighth nearest other: (n_sampled,).

        Sampled evenly: fewer tools where many share their words.
        """
        n_tools, postings = self.n_tools, self.postings
        sizes = np.diff(postings.starts).astype(np.float64)
        entries_per_tool = max(1.0, float((sizes**2).sum()) / n_tools)
        n_sampled = min(n_tools, _N_SAMPLE, max(2 * _N_NEIGHBOURS, int(_N_SAMPLE_ENTRIES / entries_per_tool)))
        evidence = np.zeros(n_sampled, dtype=np.float32)
        for position, place in enumerate(np.linspace(0, n_tools - 1, n_sampled).astype(int).tolist()):
            rows = np.unique(self.documents[place].own_terms)
            if len(rows):
                entries = np.concatenate([np.arange(postings.starts[row], postings.starts[row + 1]) for row in rows])
                weights = postings.weights[entries]
                scores = np.bincount(postings.owners[entries], weights=weights, minlength=n_tools)
                scores[place] = -1
                nth = np.partition(scores, n_tools - _N_NEIGHBOURS)[n_tools - _N_NEIGHBOURS]
                evidence[position] = nth / float(np.linalg.norm(postings.idf[rows]))
        return evidence

    def rank(self, query: str, limit: int, past: PastRequests | None = None, parts: Parts | None = None) -> Ranking:
        """Rank the tools that share words with a request, or with past requests. See `Index.rank`.

        Words that no tool has count against the others twice: a request of many of them is about something else.
        """
        if not self.n_tools:
            return Ranking()
        query = without_negated(query)
        terms = RequestTerms.of(query, self.postings)
        scores = terms.scores(self.postings)
        eligible = scores > 0
        of_servers = SERVER_WEIGHT * self.server_means(scores)
        norm = max(_LEAST_NORM, hypot(*terms.idf))
        share = terms.known_share / norm
        if parts is not None:
            parts |= {"words": scores * share, "server": of_servers * share}
        scores = scores + of_servers
        scores *= share
        least = base.least_claimed(scores * eligible, CLAIM_DISTANCE, CLAIM_SHARE)
        named = self.named_in(query)
        evidence = None
        if past is not None:
            learned, places = self.permitted(past.places)
            gains = past.word_scores(query, self.postings)[learned] / norm
            if not named:
                evidence = max(float((scores * eligible).max()), PAST_EVIDENCE * float(gains.max(initial=0)))
            eligible[places[gains > 0]] = True
            own, scores = scores, base.raise_best(scores, places, gains, eligible)
            if parts is not None:
                parts["past requests"] = scores - own
        eligible[named] = True
        lift = float(scores.max()) + 1
        return self.ranking(
            terms, scores, named, lift, least, self.cut, limit, eligible=eligible, evidence=evidence, parts=parts
        )

    def ranking(
        self,
        terms: RequestTerms,
        scores: Scores,
        named: Sequence[int],
        lift: float,
        least: float,
        cut: float,
        limit: int,
        *,
        eligible: NDArray[np.bool_] | None = None,
        evidence: float | None = None,
        parts: Mapping[str, Scores] | None = None,
    ) -> Ranking:
        """Order scored tools into a ranking.

        Args:
            scores: (n_tools,) how well each tool fits.
            named: the tools that the request names; they come first, as their scores rise by `lift`.
            least: the least score that is claimed.
            cut: the least first score that claims anything.
            eligible: (n_tools,) which may be ranked, or None for all.
            evidence: how well the request is answered, which becomes the first score; the best one's where None.
            parts: the summands of `scores`, each (n_tools,), where they were requested.
        """
        lifted = scores.copy() if named else scores
        lifted[named] += lift
        best = base.best_places(lifted, eligible, limit)
        ranked_scores = base.round_scores(lifted[best])
        if evidence is not None and len(best):
            ranked_scores = (ranked_scores - ranked_scores[0] + round(evidence, N_DECIMALS)).round(N_DECIMALS)
        summands: dict[str, tuple[float, ...]] = {}
        if parts is not None and len(best):
            summands = {name: tuple(part[best].tolist()) for name, part in parts.items()}
            summands["name"] = tuple((lifted - scores)[best].tolist())
            # The evidence as the first score moves all scores alike.
            summands["answered at all"] = tuple((ranked_scores - lifted[best]).tolist())
        abstained = not len(best) or (not named and float(ranked_scores[0]) < cut)
        return Ranking(
            indexes=tuple((best if self.places is None else self.places[best]).tolist()),
            scores=tuple(ranked_scores.tolist()),
            abstained=abstained,
            matched=self._matched(terms, best),
            n_claimed=0 if abstained else base.count_claimed(scores[best], least, best, named),
            cut=cut,
            parts=summands,
        )

    def server_means(self, scores: Scores) -> Scores:
        """Return for each tool the mean score of its server's tools: (n_tools,); 0 for a single server."""
        if len(self.server_sizes) < 2:
            return np.zeros(self.n_tools, dtype=np.float32)
        means = np.bincount(self.server_of, weights=scores, minlength=len(self.server_sizes)) / self.server_sizes
        return means.astype(np.float32).take(self.server_of)

    def permitted(self, places: Places) -> tuple[Places, Places]:
        """Return which of some places in the catalog are permitted, and their positions among the permitted tools."""
        if self.positions is None:
            return np.arange(len(places)), places
        positions = self.positions[places]
        chosen = np.flatnonzero(positions >= 0)
        return chosen, positions[chosen]

    def named_in(self, query: str) -> list[int]:
        """Return the tools that a request names.

        A name of one word counts only where it is the whole request, or in backticks or quotes: it may be just a word.
        """
        text = query.strip()
        places = set(self.names.get(text.casefold(), ()))
        for match in _MENTION.finditer(text):
            mention = match.group().rstrip(".:/-")
            start, end = match.start(), match.start() + len(mention)
            is_quoted = text.endswith(_QUOTES, 0, start) and text.startswith(_QUOTES, end)
            if is_quoted or " " in split_identifier(mention):
                places.update(self.names.get(mention.casefold(), ()))
        named: list[int] = self.permitted(np.array(sorted(places)))[1].tolist() if places else []
        return named

    def evidence(self, text: str) -> float:
        """Return how well the best tool fits a text, without servers and names; 0 where none has a word of it."""
        terms = RequestTerms.of(text, self.postings)
        if not terms.word_by_row:
            return 0.0
        return float(terms.scores(self.postings).max()) / max(_LEAST_NORM, hypot(*terms.idf))

    def _matched(self, terms: RequestTerms, places: Places) -> tuple[tuple[str, ...], ...]:
        """Return for each of some tools the words that it shares with a request, in the request's order."""
        words: list[list[str]] = [[] for _ in places]
        if len(places) and terms.word_by_row:
            having = [self.postings.owners[self.postings.slice_of(row)] for row in terms.word_by_row]
            # Keys of a term and a tool are ascending, since the tools of each term are.
            firsts = np.arange(len(having)) * self.n_tools
            keys = np.repeat(firsts, list(map(len, having))) + np.concatenate(having)
            wanted = firsts[:, None] + places
            is_shared = keys.take(keys.searchsorted(wanted), mode="clip") == wanted
            spelt = list(terms.word_by_row.values())
            for term, position in zip(*(each.tolist() for each in is_shared.nonzero()), strict=True):
                if spelt[term] not in words[position]:
                    words[position].append(spelt[term])
        return tuple(map(tuple, words))


class LexicalRanker:
    """Ranks by the words that a request and a tool share."""

    def index(self, documents: Sequence[ToolDocument]) -> LexicalIndex:
        """Return an index of documents in catalog order."""
        reader = Reader()
        terms = [reader.read(document) for document in documents]
        server_numbers: dict[str, int] = {}
        servers = [server_numbers.setdefault(document.server, len(server_numbers)) for document in documents]
        numbers, names = dict(reader.numbers), places_by_name(documents)
        postings = partial(Postings.of, term_numbers=numbers, spellings=cache(partial(spellings_of, numbers)))
        view = partial(_view, terms, postings, names, np.array(servers, dtype=np.intp))
        return LexicalIndex(base.views_of(view(), len(documents), view))


def _view(
    documents: Sequence[DocumentTerms],
    postings_of: Callable[[Sequence[DocumentTerms]], Postings],
    names: Mapping[str, Sequence[int]],
    servers: Places,
    places: Places | None = None,
) -> LexicalView:
    """Return the view of the tools at some places, ascending, as of a catalog of them alone; None for all."""
    positions = None
    if places is not None:
        positions = np.full(len(documents), -1, dtype=np.intp)
        positions[places] = np.arange(len(places))
        documents, servers = [documents[place] for place in places.tolist()], servers[places]
    _, server_of, server_sizes = np.unique(servers, return_inverse=True, return_counts=True)
    return LexicalView(documents, postings_of(documents), names, server_of, server_sizes, places, positions)


@dataclass(frozen=True, eq=False)
class LexicalIndex:
    """An index of a catalog by words; `view` returns that of the permitted tools, `cause` is why it is only lexical."""

    view: Callable[[Sequence[int] | None], LexicalView]
    cause: str = ""
    past: PastRequests | None = None

    def rank(
        self, query: str, *, permitted: Sequence[int] | None = None, limit: int = 25, parts: Parts | None = None
    ) -> Ranking:
        """Rank the tools that share words with a request, or with past requests."""
        ranking = self.view(permitted).rank(query, limit, self.past, parts)
        return replace(ranking, cause=self.cause) if self.cause else ranking

    def learn(self, past: PastRequests) -> LexicalIndex:
        """Return the index with past requests."""
        return replace(self, past=past if len(past.places) else None)
