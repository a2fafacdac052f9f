"""What is embedded of a request: all of it where it is short, and of a long one the parts that tools may answer.

A vector of two hundred words takes ten times as long as one of ten, and says less: it is the mean of what is asked and
of all that is told around it. So a long request is cut into parts, and those are read that share most with some tool.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_utilities.ranking.embedding import unit_vectors
from agent_utilities.ranking.text import clauses

if TYPE_CHECKING:
    from agent_utilities.ranking.arrays import Vectors

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
        """Return the vectors of the whole and of the parts: (1 + n_parts, n_dimensions).

        Args:
            embedded: those of `to_embed`, of unit length.
        """
        import numpy as np

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
    if run.isascii():
        return 1 + (len(run) - 1) // _N_LETTERS
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
    """Return the parts of the most evidence for which there is room, in order; of equals the first.

    Args:
        parts: in the order of the request.
        evidences: aligned with them.
        room: in word pieces.
    """
    chosen: list[int] = []
    for place in sorted(range(len(parts)), key=lambda place: -evidences[place]):
        if (n := n_pieces(parts[place])) <= room:
            chosen.append(place)
            room -= n
    return tuple(parts[place] for place in sorted(chosen))
