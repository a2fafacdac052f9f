"""A query as the graph is asked: normalised whole, and the terms of it that are worth matching."""

from __future__ import annotations

import re
import unicodedata

_MAX_TERMS = 16
_WORD = re.compile(r"\w+", re.UNICODE)
_STOPWORDS = frozenset(
    "a about all an and any are as at be by can could did do does for from get give had has have how i if in into is "
    "it its let like me my need of on or our out please should show so some tell than that the their them then there "
    "these they this those to us use using want was we were what when where which while who why will with would you "
    "your".split()
)


def normalise(query: str) -> str:
    """Return the form under which queries are one: NFC, lower case, single spaces, no unpaired surrogates."""
    text = " ".join(unicodedata.normalize("NFC", query).lower().split())
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def terms(text: str) -> list[str]:
    """Return the words of a normalised query that are worth matching, a plural `s` cut off, at most 16."""
    words = [word for word in _WORD.findall(text) if word not in _STOPWORDS and len(word) > 1]
    return list(dict.fromkeys(word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words))[
        :_MAX_TERMS
    ]
