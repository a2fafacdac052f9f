"""The WordPiece tokenizer of BERT's uncased models, from their vocabulary.

Source: Devlin et al. 2019, BERT.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_N_REMEMBERED = 32_768
"""The size of the cache of words: those of catalogs recur."""
_N_CHARACTERS = 100
"""The longest word that is split; a longer one is unknown."""
_IDEOGRAPHS = (
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B81F), (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)  # fmt: skip


class _Characters(dict[int, str]):
    """Maps each character after NFD to lower case, with blanks around one that is a word by itself."""

    def __missing__(self, code: int) -> str:
        character, category = chr(code), unicodedata.category(chr(code))
        stands = character.lower()
        if character in "\t\n\r" or category in ("Zs", "Zl", "Zp"):
            stands = " "
        elif category in ("Mn", "Cc", "Cf", "Co") or code == 0xFFFD:
            stands = ""
        elif category[0] == "P" or (category[0] == "S" and character.isascii()):
            stands = f" {character} "
        elif any(first <= code <= last for first, last in _IDEOGRAPHS):
            stands = f" {character} "
        self[code] = stands
        return stands


class WordPieces:
    """Splits texts into at most `max_pieces` of a vocabulary, in which pieces within a word begin with `##`."""

    def __init__(self, vocabulary: Sequence[str], max_pieces: int) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._first, self._last, self._unknown = (self._numbers[mark] for mark in ("[CLS]", "[SEP]", "[UNK]"))
        self._max_pieces, self._characters = max_pieces, _Characters()
        self._of_word = lru_cache(_N_REMEMBERED)(self._cut)

    def numbers(self, text: str) -> list[int]:
        """Return the numbers of a text's pieces, between `[CLS]` and `[SEP]`."""
        words = unicodedata.normalize("NFD", text).translate(self._characters).split(" ")
        pieces = [number for word in words if word for number in self._of_word(word)]
        return [self._first, *pieces[: self._max_pieces - 2], self._last]

    def _cut(self, word: str) -> tuple[int, ...]:
        """Split a word into its longest pieces; `[UNK]` where there are none."""
        numbers: list[int] = []
        start = 0 if len(word) <= _N_CHARACTERS else -1
        while 0 <= start < len(word):
            prefix = "##" if start else ""
            ends = (end for end in range(len(word), start, -1) if prefix + word[start:end] in self._numbers)
            if (end := next(ends, -1)) > 0:
                numbers.append(self._numbers[prefix + word[start:end]])
            start = end
        return tuple(numbers) if start > 0 else (self._unknown,)
