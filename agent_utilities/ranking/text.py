"""Words, terms and clauses of requests and documents, in any script."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from importlib import import_module
from typing import Any

from agent_utilities.catalog.document import split_identifier

STOPWORDS = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below between both but by
    can could did do does doing down during each few for from further get give had has have having he help her here
    hers him his how i if in into is it its itself just know let lets like ll looking make may me might more most my
    need no nor not now of off on once only or other our out over own please provide re s same she should show so some
    such t tell than that the their them then there these they this those through to too under until up us use using
    ve very want was we were what when where which while who whom why will with would you your find
    """.split()
)
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|[\U00020000-\U0003ffff]+")
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"[a-z][A-Z]")
_LETTERS = re.compile(r"(?<![^\W_])[A-Za-z]{2,}(?![^\W_])")
# Runs of marks or spaces are entered at their first character only, or one that leads nowhere takes quadratic time.
_CLAUSE_END = re.compile(
    r"(?<![.!?;\n])[.!?;\n]+\s+|[\u3002\uff01\uff1f\uff1b]|,\s+|(?:(?<!\s)\s+)?\b(?:as well as|so that|after that"
    r"|along with|together with|in addition to|and|then|also|plus|but|while|or)\b\s+"
    r"(?:(?:also|then|can you|could you)\s+)?",
    re.IGNORECASE,
)
_EDGES = " \t\r\n,.;:!?\"'"
_N_CLAUSE_WORDS = 3


def words(text: str) -> list[str]:
    """Return the words of a text, folded, in order; identifiers as their parts, unspaced scripts in pairs.

    >>> words("List EventHubs, 查看日志")
    ['list', 'event', 'hubs', '查看', '看日', '日志']
    """
    folded: list[str] = []
    for word in _WORD.findall(unicodedata.normalize("NFKC", text)):
        if word.isascii() and word.islower():
            folded.append(word)
        elif word.isascii():
            parts = split_identifier(word).split()
            is_spelt_out = all(len(part) == 1 for part in parts)
            folded.extend([word.casefold()] if is_spelt_out else [part.casefold() for part in parts])
        else:
            folded.extend(_split_unspaced(word.casefold()))
    return folded


def humped_words(text: str) -> list[str]:
    """Return the words of a text that have capitals inside, each as `humped` marks it.

    >>> humped_words("List a GitHub issue of YouTube")
    ['+github', '+youtube']
    """
    if not _HUMP.search(text):
        return []
    return [humped(word.lower()) for word in _LETTERS.findall(text) if _HUMP.search(word)]


def humped(word: str) -> str:
    """Return a folded word, marked so that it is never taken for one: as what it is looked for where no tool has it.

    `GitHub` is read as the two words that `list_github` and `listGitHub` may mean by it; people write `github`.
    """
    return f"+{word}"


def _split_unspaced(word: str) -> list[str]:
    """Return runs of unspaced script as overlapping pairs, and the rest whole."""
    pieces: list[str] = []
    end = 0
    for run in _UNSPACED.finditer(word):
        pieces.append(word[end : run.start()])
        text = run.group()
        pieces.extend(text[start : start + 2] for start in range(max(1, len(text) - 1)))
        end = run.end()
    return [piece for piece in (*pieces, word[end:]) if piece]


def is_content_word(word: str) -> bool:
    """Return whether a word says something by itself: no stopword and no single letter."""
    return word not in STOPWORDS and not (len(word) == 1 and word.isascii())


def content_words(text: str) -> list[str]:
    """Return the words of a text that say something by themselves."""
    return list(filter(is_content_word, words(text)))


_LONGEST_WORD = 40


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    return import_module("Stemmer").Stemmer("english")


def stem(word: str) -> str:
    """Return a word's stem, marked so that it is never taken for a word.

    Source: Porter, Snowball (the English stemmer).
    """
    # A caller may send words of thousands of letters: those of a language are remembered, no others.
    return _remembered_stem(word) if len(word) <= _LONGEST_WORD else f"~{_stemmer().stemWord(word)}"


@lru_cache(maxsize=32_768)
def _remembered_stem(word: str) -> str:
    return f"~{_stemmer().stemWord(word)}"


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
