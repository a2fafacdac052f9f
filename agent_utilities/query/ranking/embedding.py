"""Vectors of texts, tools and requests: what provides them, and what is said where they can't be had.

A vector of two hundred words takes ten times as long as one of ten, and says less: it is the mean of what is asked and
of all that is told around it. So a long request is cut into parts, and those are read that share most with some tool.
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
"""Some models read what is searched otherwise than what it is searched for. A request is a query that somebody waits
for: what takes longer than they would wait is given up."""

_REQUESTS_BYTES = 4 << 20
"""What the vectors of requests may take: some 1,000 requests of two parts."""
_ENTRY_BYTES = 512


class Provider(Protocol):
    """A model that turns texts into vectors. It may be called by several threads.

    Args:
        name: which model; vectors of two names never mix.
        claim_distance: how far behind the best a tool may lie and still be claimed; 0 where that was never measured.
    """

    name: str
    claim_distance: float

    def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Return one vector a text, in order: (n_texts, n_dimensions); `RankerError` where it can't."""
        ...


class Embedder:
    """A provider whose answers are checked, made unit length and kept.

    All in a server that embed share one: a request that is ranked and routed is embedded once. All its vectors have as
    many dimensions as the first ones. That it can't embed it logs once, and again only after it could.

    Args:
        open_provider: makes the provider on first use, in the thread that asks; asked again the next time where it
            can't.
        store: where vectors are kept between processes, or None.
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
        """The model; loading it takes long, and raises `RankerError` where it can't be had."""
        with self._opening:
            if self._provider is None:
                self._provider = self._open_provider()
            return self._provider

    def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Return one vector of unit length a text: (n_texts, n_dimensions); equal texts are embedded once.

        Raises:
            RankerError: the provider can't, or answers nonsense.
        """
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
        """Return one vector of unit length a text of a request; those of the requests asked last are remembered.

        A request whose vectors came too late for it is so answered by them when it is asked again. The vectors are
        kept under a hash: what was asked is not, and nothing is written to disk.
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
        """Refuse vectors of other dimensions than those before; of the first ones it is noted how many they have."""
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
"""Of the texts that `ToolDocument.aspects` gives."""
HINT_WEIGHT = 2.0
_N_AT_A_TIME = 256


def document_vectors(embedder: Embedder, documents: Sequence[ToolDocument]) -> Vectors:
    """Return a vector for each tool: the weighted mean of its aspects and its search hints, of unit length.

    Hints are what people may say for it: the more there are, the more they weigh, 2n/(n + 1) beside 1 for its text.
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
"""Word pieces, about, that are embedded of a request: some 45 ms of MiniLM."""
_WHOLE_BUDGET = 128
"""The same of the whole, some 100 words; of a longer one the parts are embedded in its place."""
_N_CHARACTERS = 8_000
_N_PART_PIECES = 32
_N_PARTS = 64
_N_LETTERS = 5
"""Of a word piece, about."""
# In runs of some letters, so that a text without spaces can be cut too.
_RUN = re.compile(r"\w{1,16}|[^\w\s]")


@dataclass(frozen=True, slots=True)
class RequestTexts:
    """The texts of a request that stand for it.

    Args:
        whole: all of it, or the parts chosen, joined.
        parts: those that may each want a tool of its own; may be none where the whole is embedded.
        is_chosen: the whole is not embedded itself: its vector is the mean of its parts'.
    """

    whole: str
    parts: tuple[str, ...]
    is_chosen: bool = False

    @property
    def to_embed(self) -> tuple[str, ...]:
        """Return the texts whose vectors `vectors` takes."""
        return self.parts if self.is_chosen else (self.whole, *self.parts)

    def vectors(self, embedded: Vectors) -> Vectors:
        """Return the vectors of the whole and of the parts, from those of `to_embed`: (1 + n_parts, n_dimensions)."""
        if not self.is_chosen:
            return embedded
        weights = np.array([[n_pieces(part)] for part in self.parts], dtype=np.float32)
        return np.concatenate([unit_vectors((embedded * weights).sum(axis=0, keepdims=True)), embedded])


def read_request(query: str, evidence: Callable[[str], float]) -> RequestTexts:
    """Return what is embedded of a request, within the budget as far as can be told without the model.

    Args:
        query: the request; its first 8,000 characters count.
        evidence: returns how well the best tool fits a text, quickly.
    """
    whole = query[:_N_CHARACTERS]
    parts = clauses(whole)
    n_whole = n_pieces(whole)
    if n_whole <= _WHOLE_BUDGET and n_whole + sum(map(n_pieces, parts)) <= BUDGET:
        return RequestTexts(whole, tuple(parts))
    windows = list(dict.fromkeys(window for part in parts or [whole] for window in _windows(part)))
    if len(windows) > _N_PARTS:  # what is asked stands at one end mostly
        windows = [*windows[: _N_PARTS // 2], *windows[-_N_PARTS // 2 :]]
    evidences = [evidence(window) for window in windows]
    if n_whole <= _WHOLE_BUDGET:
        return RequestTexts(whole, _choose(windows, evidences, BUDGET - n_whole))
    chosen = _choose(windows, evidences, BUDGET)
    return RequestTexts(". ".join(chosen), chosen, is_chosen=True)


def n_pieces(text: str) -> int:
    """Return about how many word pieces a model makes of a text.

    A letter beyond ASCII counts as one: so it is for Chinese and Japanese.
    """
    return sum(_n_run_pieces(run.group()) for run in _RUN.finditer(text))


def _n_run_pieces(run: str) -> int:
    n_ascii = len(run.encode("ascii", "ignore"))
    return len(run) - n_ascii + -(-n_ascii // _N_LETTERS)


def _windows(text: str) -> Iterator[str]:
    """Yield a text, or the stretches that one is cut into which is longer than a part should be."""
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
    """Return the parts of the most evidence for which there is room, in word pieces, in order; of equals the first."""
    chosen: list[int] = []
    for place in sorted(range(len(parts)), key=lambda place: -evidences[place]):
        if (n := n_pieces(parts[place])) <= room:
            chosen.append(place)
            room -= n
    return tuple(parts[place] for place in sorted(chosen))


# Runs of marks or spaces are entered at their first character only, or one that leads nowhere takes quadratic time.
_CLAUSE_END = re.compile(
    r"(?<![.!?;\n])[.!?;\n]+\s+|[\u3002\uff01\uff1f\uff1b]|,\s+|(?:(?<!\s)\s+)?\b(?:as well as|so that|after that"
    r"|along with|together with|in addition to|and|then|also|plus|but|while|or)\b\s+"
    r"(?:(?:also|then|can you|could you)\s+)?",
    re.IGNORECASE,
)
_EDGES = " \t\r\n,.;:!?\"'"
_N_CLAUSE_WORDS = 3


def clauses(query: str) -> list[str]:
    """Return the parts of a request that may each want a tool of its own; none where it has one part only.

    Parts of fewer than three words stay with the part before them.
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
