"""Texts as the numbers of word pieces, as BERT reads them.

`tokenizers` splits texts into words; the pieces are found here, since its own model reads a vocabulary in one go while
all threads wait, for longer than an event loop should.

Source: Wu et al. 2016, Google's Neural Machine Translation System (longest piece first).
"""

from __future__ import annotations

from tokenizers import normalizers, pre_tokenizers

_N_CHARACTERS = 100
_CONTINUED = "##"


class Pieces:
    """The pieces of a vocabulary.

    Args:
        vocabulary: a piece a line.

    Raises:
        KeyError: it lacks a mark.
    """

    def __init__(self, vocabulary: str) -> None:
        self._numbers: dict[str, int] = {}
        for number, piece in enumerate(vocabulary.split("\n")):
            self._numbers[piece] = number
        self._longest = max(map(len, self._numbers))
        self._start, self._end, self._unknown = (self._numbers[mark] for mark in ("[CLS]", "[SEP]", "[UNK]"))
        self._normalizer = normalizers.BertNormalizer(lowercase=True)
        self._splitter = pre_tokenizers.BertPreTokenizer()

    def ids(self, text: str, limit: int) -> list[int]:
        """Return the numbers of a text's pieces between the marks of start and end, no more than a limit in all."""
        numbers = [self._start]
        text = text.encode(errors="replace").decode()  # unpaired surrogates
        for word, _ in self._splitter.pre_tokenize_str(self._normalizer.normalize_str(text)):
            numbers += self._split(word)
            if len(numbers) >= limit:
                break
        return [*numbers[: limit - 1], self._end]

    def _split(self, word: str) -> list[int]:
        """Return the numbers of the longest pieces that a word is made of, or that of the unknown."""
        if len(word) > _N_CHARACTERS:
            return [self._unknown]
        numbers: list[int] = []
        start = 0
        while start < len(word):
            mark = _CONTINUED if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                if (number := self._numbers.get(mark + word[start:end])) is not None:
                    break
            else:
                return [self._unknown]
            numbers.append(number)
            start = end
        return numbers
