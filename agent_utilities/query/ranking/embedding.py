"""Embeds texts, tools and requests by a provider, with caches.

A vector of two hundred words takes ten times as long as one of ten, and says less: it is a mean over all sentences.
So a long request is split into parts, and those are embedded that share most with some tool.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, Protocol

from cachetools import LRUCache, cachedmethod

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.errors import RankerError
from agent_utilities.query.ranking.arrays import Vectors, np, unit_vectors
from agent_utilities.query.ranking.base import BY_WORDS

if TYPE_CHECKING:
    from agent_utilities.query.ranking.vector_store import VectorStore

logger = logging.getLogger(__name__)

TextRole = Literal["document", "query", "request"]
"""Some models embed documents and queries differently. A request is a query that somebody waits for."""

_REQUESTS_BYTES = 4 << 20
"""The size of the cache of requests' vectors: some 1,000 requests of two parts."""
_ENTRY_BYTES = 512


class Provider(Protocol):
    """A model that embeds texts; thread-safe.

    Args:
        name: of the model; vectors of two names never mix.
        claim_distance: how far behind the best score a tool is still claimed; 0 where that was never measured.
    """

    name: str
    claim_distance: float

    def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Return one vector for each text: (n_texts, n_dimensions); raises `RankerError`."""
        ...


class Embedder:
    """Checks, normalizes and caches a provider's vectors.

    A server has one, so that a request that is ranked and routed is embedded once. All vectors have as many dimensions
    as the first ones. Of failures in a row the first is logged.

    Args:
        open_provider: makes the provider on first use, in the calling thread; retried where it fails.
        store: caches vectors between processes; None for no such cache.
    """

    def __init__(self, open_provider: Callable[[], Provider], store: VectorStore | None = None) -> None:
        self._open_provider = open_provider
        self._provider: Provider | None = None
        self._opening = threading.Lock()
        self._store = store
        self._lock = threading.Lock()
        self._n_dimensions: int | None = None
        self._has_failed = False
        self._requests = LRUCache[bytes, Vectors](_REQUESTS_BYTES, lambda vectors: _ENTRY_BYTES + vectors.nbytes)

    @property
    def provider(self) -> Provider:
        """The model, loaded on first use, which takes long; raises `RankerError`."""
        with self._opening:
            if self._provider is None:
                self._provider = self._open_provider()
            return self._provider

    def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Return one vector of unit length for each text: (n_texts, n_dimensions); raises `RankerError`."""
        with self._logging_failure():
            distinct = list(dict.fromkeys(texts))
            known = self._store.get(self.provider.name, role, distinct) if self._store else {}
            self._check_dimensions(known.values())
            missing = [text for text in distinct if text not in known]
            if missing:
                new = dict(zip(missing, self._embedded(missing, role), strict=True))
                if self._store:
                    self._store.put(self.provider.name, role, new)
                known.update(new)
            return np.stack([known[text] for text in texts])

    @cachedmethod(attrgetter("_requests"), lambda _, texts: _hash_of("\0".join(texts)), attrgetter("_lock"))
    def embed_request(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of unit length for each text of a request, from a cache of the last requests.

        So vectors that come too late serve the next equal request. Keys are hashes, and nothing is written to disk.
        """
        with self._logging_failure():
            return self._embedded(texts, "request")

    def _embedded(self, texts: Sequence[str], role: TextRole) -> Vectors:
        vectors = np.asarray(self.provider.embed(texts, role), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts) or vectors.shape[1] == 0:
            raise RankerError(f"{self.provider.name!r} gives {vectors.shape} for {len(texts)} texts")
        if not np.isfinite(np.linalg.norm(vectors, axis=1)).all():
            raise RankerError(f"{self.provider.name!r} gives vectors that are not finite")
        self._check_dimensions(vectors)
        return unit_vectors(vectors)

    def _check_dimensions(self, vectors: Iterable[Vectors]) -> None:
        """Raise `RankerError` for vectors of other dimensions than the first ones."""
        for n_dimensions in set(map(len, vectors)):
            self._n_dimensions = self._n_dimensions or n_dimensions
            if n_dimensions != self._n_dimensions:
                cause = f"{self.provider.name!r} gives {n_dimensions} dimensions instead of {self._n_dimensions}"
                raise RankerError(cause)

    @contextmanager
    def _logging_failure(self) -> Iterator[None]:
        try:
            yield
        except RankerError as error:
            if not self._has_failed:
                logger.warning("%s: %s", BY_WORDS, error)
            self._has_failed = True
            raise
        self._has_failed = False


def _hash_of(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).digest()


ASPECT_WEIGHTS: Mapping[str, float] = {"whole": 0.4, "first_sentence": 0.4, "name": 0.2}
"""The weights of `ToolDocument.aspects`."""
HINT_WEIGHT = 2.0
_N_AT_A_TIME = 256


def document_vectors(embedder: Embedder, documents: Sequence[ToolDocument]) -> Vectors:
    """Embed tools: the weighted mean of each one's aspects and search hints, of unit length.

    n hints together weigh 2n/(n + 1), beside 1 for the text.
    """
    starts = range(0, len(documents), _N_AT_A_TIME)
    return np.concatenate([_vectors_of(embedder, documents[start : start + _N_AT_A_TIME]) for start in starts])


def _vectors_of(embedder: Embedder, documents: Sequence[ToolDocument]) -> Vectors:
    aspects = [document.aspects() for document in documents]
    vectors = embedder.embed([texts[name] or "-" for texts in aspects for name in ASPECT_WEIGHTS], "document")
    by_document = vectors.reshape(len(documents), len(ASPECT_WEIGHTS), -1)
    weights = np.array(list(ASPECT_WEIGHTS.values()), dtype=np.float32)
    of_texts = unit_vectors((by_document * weights[None, :, None]).sum(axis=1))
    hints = [hint for document in documents for hint in document.hints]
    if not hints:
        return of_texts
    n_hints = np.array([len(document.hints) for document in documents])
    sums = np.zeros_like(of_texts)
    np.add.at(sums, np.repeat(np.arange(len(documents)), n_hints), embedder.embed(hints, "query"))
    return unit_vectors(of_texts + HINT_WEIGHT / (np.maximum(n_hints, 1)[:, None].astype(np.float32) + 1) * sums)


BUDGET = 256
"""The word pieces of a request that are embedded, about: some 45 ms of MiniLM."""
_WHOLE_BUDGET = 128
"""The longest request that is embedded as a whole, some 100 words; of a longer one only parts are."""
_N_CHARACTERS = 8_000
_N_PART_PIECES = 32
_N_PARTS = 64
_N_LETTERS = 5
"""Letters of a word piece, about."""
# Of at most 16 letters, so that a text without spaces can be cut too.
_RUN = re.compile(r"\w{1,16}|[^\w\s]")


@dataclass(frozen=True, slots=True)
class RequestTexts:
    """The texts of a request to embed.

    Args:
        whole: all of it, or the chosen parts, joined.
        parts: those that may each want a tool of its own; may be none where the whole is embedded.
        is_chosen: whether the whole is too long: its vector is then the mean of its parts'.
    """

    whole: str
    parts: tuple[str, ...]
    is_chosen: bool = False

    @property
    def to_embed(self) -> tuple[str, ...]:
        """The texts whose vectors `vectors` takes."""
        return self.parts if self.is_chosen else (self.whole, *self.parts)

    def vectors(self, embedded: Vectors) -> Vectors:
        """Return the vectors of the whole, then of the parts, from those of `to_embed`: (1 + n_parts, n_dimensions)."""
        if not self.is_chosen:
            return embedded
        weights = np.array([[n_pieces(part)] for part in self.parts], dtype=np.float32)
        return np.concatenate([unit_vectors((embedded * weights).sum(axis=0, keepdims=True)), embedded])


def read_request(query: str, evidence: Callable[[str], float]) -> RequestTexts:
    """Choose the texts of a request to embed, within an estimated budget; `evidence` quickly scores the best tool."""
    whole = query[:_N_CHARACTERS]
    parts = clauses(whole)
    n_whole = n_pieces(whole)
    if n_whole <= _WHOLE_BUDGET and n_whole + sum(map(n_pieces, parts)) <= BUDGET:
        return RequestTexts(whole, tuple(parts))
    windows = list(dict.fromkeys(window for part in parts or [whole] for window in _windows(part)))
    if len(windows) > _N_PARTS:  # the request proper is mostly at one end
        windows = [*windows[: _N_PARTS // 2], *windows[-_N_PARTS // 2 :]]
    evidences = [evidence(window) for window in windows]
    if n_whole <= _WHOLE_BUDGET:
        return RequestTexts(whole, _choose(windows, evidences, BUDGET - n_whole))
    chosen = _choose(windows, evidences, BUDGET)
    return RequestTexts(". ".join(chosen), chosen, is_chosen=True)


def n_pieces(text: str) -> int:
    """Estimate the word pieces of a text; a letter beyond ASCII counts as one, as in Chinese and Japanese."""
    return sum(_n_run_pieces(run.group()) for run in _RUN.finditer(text))


def _n_run_pieces(run: str) -> int:
    n_ascii = len(run.encode("ascii", "ignore"))
    return len(run) - n_ascii + -(-n_ascii // _N_LETTERS)


def _windows(text: str) -> Iterator[str]:
    """Yield a text, or stretches of at most a part's length."""
    start = end = n = 0
    for run in _RUN.finditer(text):
        n += (n_run := _n_run_pieces(run.group()))
        if n > _N_PART_PIECES:
            yield text[start:end].strip()
            start, n = run.start(), n_run
        end = run.end()
    if start < end:
        yield text[start:].strip()


def _choose(parts: Sequence[str], evidences: Sequence[float], room: int) -> tuple[str, ...]:
    """Return the parts of the most evidence that fit the room, in word pieces, in order; of equals the first."""
    chosen: list[int] = []
    for place in sorted(range(len(parts)), key=lambda place: -evidences[place]):
        if (n := n_pieces(parts[place])) <= room:
            chosen.append(place)
            room -= n
    return tuple(parts[place] for place in sorted(chosen))


# Runs of marks or spaces match from their first character only: otherwise a failing match takes quadratic time.
_CLAUSE_END = re.compile(
    r"(?<![.!?;\n])[.!?;\n]+\s+|[\u3002\uff01\uff1f\uff1b]|,\s+|(?:(?<!\s)\s+)?\b(?:as well as|so that|after that"
    r"|along with|together with|in addition to|and|then|also|plus|but|while|or)\b\s+"
    r"(?:(?:also|then|can you|could you)\s+)?",
    re.IGNORECASE,
)
_EDGES = " \t\r\n,.;:!?\"'"
_N_CLAUSE_WORDS = 3


def clauses(query: str) -> list[str]:
    """Split a request into parts that may each want a tool of its own; none where it is one part.

    Parts of fewer than three words are joined to the part before them.
    """
    parts: list[list[str]] = []
    n_words: list[int] = []
    for piece in _CLAUSE_END.split(query):
        text = piece.strip(_EDGES)
        if not text:
            continue
        n = len(text.split())
        if parts and min(n, n_words[-1]) < _N_CLAUSE_WORDS:
            parts[-1].append(text)
            n_words[-1] += n
        else:
            parts.append([text])
            n_words.append(n)
    return [", ".join(texts) for texts in parts] if len(parts) > 1 else []
