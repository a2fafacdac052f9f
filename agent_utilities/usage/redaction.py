"""A request without what looks like a secret: it is written down in no other form."""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

from agent_utilities.usage.announced import EDGES as _EDGES
from agent_utilities.usage.announced import announced, grouped, is_state
from agent_utilities.usage.secret_words import long_numbers, without_secret_part

LONGEST_REQUEST = 500
"""Characters of a request that are kept."""

_MOST_READ = 4_096
_KEY_BLOCK = re.compile(r"-{2,}\s*BEGIN\b.*?(?:-{2,}\s*END\b[^-]*-{2,}|\Z)", re.DOTALL)
_KEYS = (
    r"pass(?:word|wd|phrase|code|wort)?|passwords?|pwd|kennwort|contraseña|senha|пароль|密码|密碼|パスワード|비밀번호"
    r"|secret|token|credentials?|(?:api|access|secret|private|license|encryption|signing|auth)[-_]?key|key"
    r"|authorization|auth|cookie|session[-_]?id|sid|pin|otp|cvv|cvc|ssn|iban"
)
_KEYED = re.compile(rf"(?:(?<![^\W_])|(?<=[a-z])(?=passw|secret|token))(?:{_KEYS})[\"'`\])}}]*(?::=|=>|[:=])")
"""A key with the sign after which its value comes."""
_KEY = re.compile(rf"(?:.*[-_.])?(?:{_KEYS})")
_PLAIN_KEYS = frozenset(("key", "auth", "pass", "cookie"))
"""What is a key where a sign says so, and an ordinary word besides."""
_FIGURES = frozenset(("pin", "otp", "cvv", "cvc"))
"""What has figures: `the pin is bent` tells none."""
_SIGNS = frozenset((":", "=", ":=", "=>", "->", "-", "is", "was"))
_SCHEMES = frozenset(("bearer", "basic", "token", "digest", "apikey", "negotiate"))
_AFTER_BEARER = frozenset(("token", "tokens", "auth", "authentication", "authorization", "of", "and", "or", "scheme"))
_QUOTES = "\"'`"
_INVISIBLE = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u180b\u180c\u180d\u180f")


def without_secrets(text: str) -> str:
    """Return a request without its words that look like a secret, at most 500 characters of it.

    Dropped are keys, tokens and what else follows no language; what stands after `password:`, `token=`, `Bearer` and
    the like; mail and network addresses; of URLs that hold one of these all but the host; numbers of nine digits or
    more, in groups too. A password that is an ordinary word, and that nothing announces, can't be told from one.

    What is left is in Unicode's compatibility form, one space between words. The first 4,096 characters are read.
    """
    words = _words(text)
    dropped = _values(words) | _numbers(words) | announced(words) | grouped(words)
    left = (without_secret_part(word) for place, word in enumerate(words) if place not in dropped)
    return _first(filter(None, left))


def _words(text: str) -> list[str]:
    visible = "".join(map(_seen, unicodedata.normalize("NFKC", text[:_MOST_READ])))
    words = _KEY_BLOCK.sub(" ", unicodedata.normalize("NFKC", visible)).split()
    return words if len(text) <= _MOST_READ else _whole(words)


def _whole(words: list[str]) -> list[str]:
    """Return words without the last ones, which may be no more than the beginning of a secret."""
    end = len(words) - 1
    while end > 0 and any(map(str.isdigit, words[end - 1])):
        end -= 1  # groups of one number
    return words[: max(0, end)]


def _seen(letter: str) -> str:
    """Return a character as it is read: every dash as one, nothing for what is not seen."""
    if letter.isspace() or letter.isascii():
        return letter if letter.isspace() or letter.isprintable() else ""
    if letter in _INVISIBLE or "\ufe00" <= letter <= "\ufe0f":
        return ""
    category = unicodedata.category(letter)
    return "-" if category == "Pd" else "" if category in ("Cf", "Cc", "Cs") else letter


def _first(words: Iterable[str]) -> str:
    taken: list[str] = []
    free = LONGEST_REQUEST
    for word in words:
        if len(word) > free:
            break
        taken.append(word)
        free -= len(word) + 1
    return " ".join(taken)


def _values(words: list[str]) -> set[int]:
    """Return the places of words that something before them announces as secret."""
    places: set[int] = set()
    for place, word in enumerate(words):
        folded = word.casefold()
        sign = list(_KEYED.finditer(folded))
        if len(sign) > 1 or (sign and folded[sign[0].end() :].strip(_QUOTES + "{[(")):
            places |= {place} | _quoted(words, place, folded[sign[0].end() :])
        elif sign:
            places |= _value(words, place + 1)
        elif (start := _announced(words, place, folded.strip(_EDGES))) is not None:
            places |= _value(words, start)
    return places


def _announced(words: list[str], place: int, key: str) -> int | None:
    """Return the place of the value that a word announces without a sign of its own; None where it announces none."""
    following = words[place + 1] if place + 1 < len(words) else ""
    if not following:
        return None
    if key in ("bearer", "basic"):
        is_value = _is_basic(following) if key == "basic" else following.casefold().strip(_EDGES) not in _AFTER_BEARER
        return place + 1 if is_value else None
    if words[place] in ("-u", "--user"):
        return place + 1 if ":" in following else None
    if not _KEY.fullmatch(key):
        return None
    if following in _SIGNS or following.casefold() in _SIGNS:
        is_none = key in _FIGURES and not any(_is_no_word(word) for word in words[place + 2 : place + 4])
        return None if is_none or is_state(words, place + 2) else place + 2
    if words[place].startswith("--"):
        return place + 1
    is_plain = key in _PLAIN_KEYS and not (
        place and words[place - 1].casefold() in ("api", "access", "secret", "private")
    )
    return place + 1 if not is_plain and _is_no_word(following) else None


def _is_no_word(text: str) -> bool:
    inner = text.strip(_EDGES)
    return len(inner) >= 4 and any(letter.isdecimal() or letter in "!@#$%^&*+=~|\\<>?" for letter in inner)


def _is_basic(text: str) -> bool:
    """Return whether a word is a user's name and password in base64."""
    try:
        return b":" in base64.b64decode(text.strip(_QUOTES + ",;"), validate=True)
    except (binascii.Error, ValueError):
        return False


def _value(words: list[str], start: int) -> set[int]:
    """Return the places of a value: one word, two where the first is a scheme such as `Bearer`, or all in quotes."""
    if start >= len(words):
        return set()
    if words[start].casefold().strip(_EDGES) in _SCHEMES:
        return {start, start + 1}
    return {start} | _quoted(words, start, words[start])


def _quoted(words: list[str], place: int, value: str) -> set[int]:
    """Return the places after `place` that belong to a quotation which begins there and does not end there."""
    value = value.lstrip("{[(")
    quote = value[:1]
    if not quote or quote not in _QUOTES or quote in value[1:]:
        return set()
    for end in range(place + 1, len(words)):
        if quote in words[end]:
            return set(range(place + 1, end + 1))
    return set(range(place + 1, len(words)))


def _numbers(words: list[str]) -> set[int]:
    """Return the places of words that a long number stands in: a card, a phone, an account."""
    ends = list(accumulate(len(word) + 1 for word in words))
    places: set[int] = set()
    for start, end in long_numbers(" ".join(words)):
        places.update(range(bisect_right(ends, start), bisect_right(ends, end - 1) + 1))
    return places
